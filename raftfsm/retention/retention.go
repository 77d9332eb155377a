// Package retention says what of the stream may go.
package retention

import (
	"errors"
	"fmt"

	"chorale/segments"
)

// ErrBad is what a retention with a limit that cannot be is refused for.
var ErrBad = errors.New("bad retention")

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
