package members

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrBytes marks bytes that are no change, or no list.
var ErrBytes = errors.New("bad bytes")

// A change is
//
//	0  1  operation
//	1  1  flags: 1 voter, 2 has data
//	2  6  zero
//	8  8  incarnation; 0 but of a join
//	16    the id
//
// and a list is its members one behind the other, each
//
//	0  1  flags: 1 voter, 2 removed, 4 invited
//	1  1  bytes of the id
//	2  6  zero
//	8  8  incarnation
//	16 8  index of the last change
//	24    the id
const (
	changeHeadBytes = 16
	memberHeadBytes = 24
	flagVoter       = 1
	flagData        = 2
	flagRemoved     = 2
	flagInvited     = 4
	// MaxListBytes bounds what Encode makes of a List.
	MaxListBytes = MaxRecords * (memberHeadBytes + MaxIDBytes)
)

// ValidID reports whether a node can have that id: 1 to 63 letters, digits, dots,
// dashes and underscores, the first a letter or digit.
func ValidID(id string) bool {
	for i, c := range []byte(id) {
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '.' && c != '-' && c != '_') {
			return false
		}
	}
	return id != "" && len(id) <= MaxIDBytes
}

func (c Change) check() error {
	switch {
	case c.Op < Join || c.Op > Wish:
		return fmt.Errorf("%w: %v", ErrBytes, c.Op)
	case !ValidID(c.ID):
		return fmt.Errorf("%w: id %q", ErrBytes, c.ID)
	case (c.Op == Join) != (c.Incarnation != 0), c.HasData && c.Op != Join, c.Voter && c.Op == Remove:
		return fmt.Errorf("%w: a %v of incarnation %x", ErrBytes, c.Op, uint64(c.Incarnation))
	}
	return nil
}

// bit is the flag if it is set, else 0.
func bit(set bool, flag byte) byte {
	if set {
		return flag
	}
	return 0
}

// Append appends the change's bytes.
func (c Change) Append(b []byte) []byte {
	flags := bit(c.Voter, flagVoter) | bit(c.HasData, flagData)
	b = append(b, byte(c.Op), flags, 0, 0, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(c.Incarnation))
	return append(b, c.ID...)
}

// DecodeChange reads what Append wrote, or returns an error that wraps ErrBytes.
func DecodeChange(b []byte) (Change, error) {
	if len(b) < changeHeadBytes || b[1] > flagVoter|flagData || [6]byte(b[2:8]) != [6]byte{} {
		return Change{}, fmt.Errorf("%w: a change of %d bytes", ErrBytes, len(b))
	}
	c := Change{
		Op: Op(b[0]), Voter: b[1]&flagVoter != 0, HasData: b[1]&flagData != 0,
		Incarnation: Incarnation(binary.LittleEndian.Uint64(b[8:])), ID: string(b[changeHeadBytes:]),
	}
	return c, c.check()
}

// Encode is the list's bytes.
func (l List) Encode() []byte {
	var b []byte
	for _, m := range l {
		flags := bit(m.Voter, flagVoter) | bit(m.Removed, flagRemoved) | bit(m.Invited, flagInvited)
		b = append(b, flags, byte(len(m.ID)), 0, 0, 0, 0, 0, 0)
		b = binary.LittleEndian.AppendUint64(b, uint64(m.Incarnation))
		b = binary.LittleEndian.AppendUint64(b, m.Changed)
		b = append(b, m.ID...)
	}
	return b
}

// Decode reads what Encode wrote, or returns an error that wraps ErrBytes. No change is
// younger than index.
func Decode(b []byte, index uint64) (List, error) {
	var l List
	live := 0
	for len(b) > 0 {
		if len(b) < memberHeadBytes || len(b) < memberHeadBytes+int(b[1]) || [6]byte(b[2:8]) != [6]byte{} {
			return nil, fmt.Errorf("%w: a member is cut", ErrBytes)
		}
		m := Member{
			ID:    string(b[memberHeadBytes : memberHeadBytes+int(b[1])]),
			Voter: b[0]&flagVoter != 0, Removed: b[0]&flagRemoved != 0, Invited: b[0]&flagInvited != 0,
			Incarnation: Incarnation(binary.LittleEndian.Uint64(b[8:])), Changed: binary.LittleEndian.Uint64(b[16:]),
		}
		switch {
		case b[0] > flagVoter|flagRemoved|flagInvited,
			m.Removed && m.Voter && !m.Invited,
			m.Invited && !m.Removed && m.Incarnation != 0:
			return nil, fmt.Errorf("%w: member %q has flags %b", ErrBytes, m.ID, b[0])
		case !ValidID(m.ID) || len(l) > 0 && l[len(l)-1].ID >= m.ID:
			return nil, fmt.Errorf("%w: member %q does not stand here", ErrBytes, m.ID)
		case m.Changed == 0 || m.Changed > index:
			return nil, fmt.Errorf("%w: member %q was changed by entry %d of %d", ErrBytes, m.ID, m.Changed, index)
		}
		if m.live() {
			live++
		}
		if live > MaxLive || len(l) == MaxRecords {
			return nil, fmt.Errorf("%w: more than %d members, or more than %d in all", ErrBytes, MaxLive, MaxRecords)
		}
		l = append(l, m)
		b = b[memberHeadBytes+int(b[1]):]
	}
	return l, nil
}
