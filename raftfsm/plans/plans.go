// Package plans is what all nodes rewrite next, as values: a plan's bytes, what it fits, and
// the edit that ends it.
package plans

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"chorale/retention"
	"chorale/segments"
	"chorale/segments/format"
)

// What a plan, its edit or its end is refused for: data, alike on all nodes.
var (
	// ErrActive is the result of a plan while another one is active.
	ErrActive = errors.New("another plan is active")
	// ErrInputs is the result of a plan whose inputs are not whole neighbouring
	// ranges of the manifest.
	ErrInputs = errors.New("the plan's inputs are not whole neighbouring ranges of the manifest")
	// ErrEdit is the result of an edit that does something else than its plan.
	ErrEdit = errors.New("the edit is not what its plan says")
	// ErrOver is the result of an edit or an end of a plan that is not active.
	ErrOver = errors.New("the plan is not active")
)

// Plan is a piece of work for all nodes: to rewrite files as the stores of one
// layer.
type Plan struct {
	// Inputs are the files of whole neighbouring ranges, in the order of the
	// manifest.
	Inputs []segments.Hash
	// Stores is the most that the layer may have, at least 1.
	Stores uint32
	// Chapter is how many bytes of the stream the stores keep apart by topic
	// (format.Header); 0 for stores that every build reads.
	Chapter uint32
}

// Active is the plan that the nodes build. At most one is active: from its
// command until its edit, until it is abandoned, or until an edit takes one of its
// inputs away. The zero value is none.
type Active struct {
	Index uint64 // of its entry in the log: its id
	Plan
	// Floors are those of its entry: what is below them is not written, so that all nodes
	// write the same, whatever of it their inputs still have.
	Floors *retention.Floors
}

// The body of a plan's entry, and what a snapshot holds of it; an abandon holds the
// index of the plan alone.
const (
	headBytes    = 8
	chapterBytes = 4
	// MaxInputs bounds the files of a plan, MaxStores those it may make.
	MaxInputs = 1 << 20
	MaxStores = 1 << 16
)

// Append appends the plan's bytes, which begin with those of a chapter if it has any.
func (p Plan) Append(b []byte) []byte {
	if p.Chapter > 0 {
		b = binary.LittleEndian.AppendUint32(b, p.Chapter)
	}
	b = binary.LittleEndian.AppendUint32(b, p.Stores)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(p.Inputs)))
	for _, h := range p.Inputs {
		b = append(b, h[:]...)
	}
	return b
}

// Decode reads what Append wrote, of a plan with chapters or of one without; an error says
// what no node can have written.
func Decode(b []byte, chapters bool) (p Plan, err error) {
	if chapters && len(b) >= chapterBytes {
		p.Chapter, b = binary.LittleEndian.Uint32(b), b[chapterBytes:]
	}
	if len(b) < headBytes || chapters != (p.Chapter > 0) {
		return p, fmt.Errorf("plan of %d bytes with chapters of %d", len(b), p.Chapter)
	}
	p.Stores = binary.LittleEndian.Uint32(b)
	n := binary.LittleEndian.Uint32(b[4:])
	b = b[headBytes:]
	if n > MaxInputs || len(b) != int(n)*len(segments.Hash{}) {
		return p, fmt.Errorf("plan of %d inputs in %d bytes", n, len(b))
	}
	for range n {
		p.Inputs = append(p.Inputs, segments.Hash(b))
		b = b[len(segments.Hash{}):]
	}
	return p, p.Check()
}

// Check reports a plan that no node can have made.
func (p Plan) Check() error {
	if len(p.Inputs) == 0 || p.Stores == 0 || p.Stores > MaxStores || p.Chapter > format.MaxChapterBytes {
		return fmt.Errorf("plan of %d inputs and %d stores with chapters of %d bytes", len(p.Inputs), p.Stores, p.Chapter)
	}
	return nil
}

// Fits reports whether the inputs are whole neighbouring ranges of the manifest.
func (p Plan) Fits(m segments.Manifest) bool {
	files, start := m.Files, 0
	for start < len(files) && files[start].Hash != p.Inputs[0] {
		start++
	}
	end := start + len(p.Inputs)
	if end > len(files) {
		return false
	}
	for i, h := range p.Inputs {
		if files[start+i].Hash != h {
			return false
		}
	}
	border := func(i int) bool { return i == 0 || i == len(files) || files[i-1].First != files[i].First }
	return border(start) && border(end)
}

// EndsWith refuses the edit of a plan that is not this one, or that does something
// else than it says.
func (p Active) EndsWith(e segments.Edit) error {
	switch {
	case e.Trims && (e.Plan == 0 || p.Floors == nil):
		return fmt.Errorf("%w: it lets messages go", ErrEdit)
	case e.Plan == 0:
		return nil
	case e.Plan != p.Index:
		return fmt.Errorf("%w: %d", ErrOver, e.Plan)
	case !slices.Equal(e.Remove, p.Inputs) || len(e.Add) > int(p.Stores):
		return fmt.Errorf("%w: it replaces %d files by %d, the plan %d by at most %d", ErrEdit,
			len(e.Remove), len(e.Add), len(p.Inputs), p.Stores)
	}
	return nil
}
