// Package retention says what of the stream may go.
package retention

import (
	"encoding/binary"
	"errors"
	"fmt"

	"chorale/segments"
)

// What a retention or an expiry is refused for.
var (
	// ErrBad is for a retention with a limit that cannot be.
	ErrBad = errors.New("bad retention")
	// ErrNotExpired is for an expiry of messages that are to be kept.
	ErrNotExpired = errors.New("not expired")
	// ErrGoneAlready is for an expiry of what an earlier one removed.
	ErrGoneAlready = errors.New("nothing is left to expire")
)

// Policy says what of the stream may go: the oldest ranges of files that break one
// of the limits. 0 is no limit; the zero value keeps everything.
type Policy struct {
	// Age is in ns of stream time: a range may go when its newest message is older.
	Age int64
	// Bytes of files are kept at least: a range may go when the ranges behind it have
	// as many.
	Bytes int64
}

// Check reports a limit that cannot be.
func (r Policy) Check() error {
	if r.Age < 0 || r.Bytes < 0 {
		return fmt.Errorf("%w: age of %d ns, %d bytes: a limit is above 0, and 0 is none", ErrBad, r.Age, r.Bytes)
	}
	return nil
}

// Oldest is the first seq that stays at a time of the stream: the start of a range,
// and 1 without files. The newest range always stays, so that the end of the files
// never moves back. Pure.
func (r Policy) Oldest(m segments.Manifest, now int64) uint64 {
	var behind int64 // bytes of the ranges that are newer than the one in the loop
	for _, f := range m.Files {
		behind += f.Bytes
	}
	for i := 0; i < len(m.Files); {
		n := m.Layer(i)
		for _, f := range m.Files[i : i+n] {
			behind -= f.Bytes
		}
		old := r.Age > 0 && m.Files[i].LastTime < now-r.Age
		over := r.Bytes > 0 && behind >= r.Bytes
		if i+n == len(m.Files) || !old && !over {
			return m.Files[i].First
		}
		i += n
	}
	return m.Oldest()
}

// Expiry removes what a policy no longer keeps.
type Expiry struct {
	Time   int64  // the leader's clock, ns since 1970 UTC
	Oldest uint64 // the first seq that stays: the start of a range
}

// Edit is what an expiry does to the files at a time of the stream, or why it is refused: the
// error wraps ErrNotExpired or ErrGoneAlready. A leader may have proposed it under another
// policy. Pure.
func (x Expiry) Edit(r Policy, m segments.Manifest, now int64) (e segments.Edit, err error) {
	if keep := r.Oldest(m, now); x.Oldest > keep {
		return e, fmt.Errorf("%w: messages before %d cannot go, only those before %d", ErrNotExpired, x.Oldest, keep)
	}
	if x.Oldest <= m.Oldest() {
		return e, fmt.Errorf("%w: messages before %d, the oldest is %d", ErrGoneAlready, x.Oldest, m.Oldest())
	}
	i := 0
	for ; m.Files[i].Last < x.Oldest; i++ {
		e.Remove = append(e.Remove, m.Files[i].Hash)
	}
	if m.Files[i].First != x.Oldest {
		return e, fmt.Errorf("%w: %d is not the start of a range", ErrNotExpired, x.Oldest)
	}
	return e, nil
}

// The body of either command is two numbers.
const bodyBytes = 16

// Append appends the bytes of the command.
func (r Policy) Append(b []byte) []byte { return appendBody(b, uint64(r.Age), uint64(r.Bytes)) }

// Append appends the bytes of the command.
func (x Expiry) Append(b []byte) []byte { return appendBody(b, uint64(x.Time), x.Oldest) }

func appendBody(b []byte, first, second uint64) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, first), second)
}

func body(b []byte) (first, second uint64, err error) {
	if len(b) != bodyBytes {
		return 0, 0, fmt.Errorf("retention or expiry of %d bytes, want %d", len(b), bodyBytes)
	}
	return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), nil
}

// DecodePolicy is the inverse of Policy.Append. Whether the limits are good is Check's to say.
func DecodePolicy(b []byte) (Policy, error) {
	age, bytes, err := body(b)
	return Policy{Age: int64(age), Bytes: int64(bytes)}, err
}

// DecodeExpiry is the inverse of Expiry.Append.
func DecodeExpiry(b []byte) (Expiry, error) {
	time, oldest, err := body(b)
	return Expiry{Time: int64(time), Oldest: oldest}, err
}
