// Package drops takes files out of the manifest of which nothing is left: all that they hold
// lies below floors. Pure.
package drops

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"chorale/retention"
	"chorale/segments"
)

// What a drop is refused for: data, alike on all nodes.
var (
	// ErrFiles is the result of a drop of files that are not stores of the manifest, in its
	// order, or that leave a range without one.
	ErrFiles = errors.New("these files cannot be dropped")
	// ErrLeft is the result of a drop of a file that must have messages above all floors.
	ErrLeft = errors.New("something is left of the file")
	// ErrPlanned is the result of a drop of what the active plan reads.
	ErrPlanned = errors.New("the active plan reads the file")
)

// Drop names files of which nothing is left, in the order of the manifest.
type Drop struct{ Files []segments.Hash }

// The body of a drop's entry is the number of files, four zeros, and their hashes.
const (
	headBytes = 8
	// MaxFiles bounds the files of a drop.
	MaxFiles = 4096
)

// Append appends the bytes of the command.
func (d Drop) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(d.Files)))
	b = binary.LittleEndian.AppendUint32(b, 0)
	for _, h := range d.Files {
		b = append(b, h[:]...)
	}
	return b
}

// Decode is the inverse of Append; an error says what no node can have written.
func Decode(b []byte) (d Drop, err error) {
	if len(b) < headBytes {
		return d, fmt.Errorf("drop of %d bytes", len(b))
	}
	n, zero := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	b = b[headBytes:]
	if n == 0 || n > MaxFiles || zero != 0 || len(b) != int(n)*len(segments.Hash{}) {
		return d, fmt.Errorf("drop of %d files in %d bytes, reserved bytes %d: 1 to %d files are allowed", n, len(b), zero, MaxFiles)
	}
	for range n {
		d.Files = append(d.Files, segments.Hash(b))
		b = b[len(segments.Hash{}):]
	}
	return d, nil
}

// Edit is what the drop does to a manifest, all of it or nothing. Which topics a store has is
// in its file, so the leader is believed as far as manifest and floors do not know better;
// and that a range keeps the store with its last message. Inputs are those of the active
// plan: it leaves out by itself what has gone, and an edit under its hands would end it.
func (d Drop) Edit(m segments.Manifest, floors *retention.Floors, inputs []segments.Hash) (segments.Edit, error) {
	e := segments.Edit{Remove: d.Files, Trims: true}
	rest := d.Files
	for _, r := range m.Ranges() {
		before := len(rest)
		for _, f := range r.Files {
			if len(rest) == 0 || f.Hash != rest[0] {
				continue
			}
			rest = rest[1:]
			if below := floors.Reach(f.Ancestor); below < f.First+f.Messages {
				return e, fmt.Errorf("%w: %s has %d messages from %d on, the highest floor of its topics is %d", ErrLeft, f.Name(), f.Messages, f.First, below)
			}
			if slices.Contains(inputs, f.Hash) {
				return e, fmt.Errorf("%w: %s", ErrPlanned, f.Name())
			}
		}
		if before-len(rest) == len(r.Files) {
			return e, fmt.Errorf("%w: nothing would be left of the range %d to %d", ErrFiles, r.First, r.Last)
		}
	}
	if len(rest) > 0 {
		return e, fmt.Errorf("%w: %d of %d are not in the manifest, or out of order", ErrFiles, len(rest), len(d.Files))
	}
	return e, nil
}
