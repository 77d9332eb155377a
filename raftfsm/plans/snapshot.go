package plans

import (
	"chorale/raftfsm/frames"
	"chorale/raftfsm/kept"
	"chorale/segments"
	"chorale/segments/format"
)

// Write writes what a snapshot of a version holds of a plan.
func (p Active) Write(w *frames.Writer, version uint32) {
	w.Uvarint(p.Index)
	if p.Index == 0 {
		return
	}
	if version >= 8 {
		w.Uvarint(uint64(p.Chapter))
	}
	w.Uvarint(uint64(p.Stores))
	w.Uvarint(uint64(len(p.Inputs)))
	for _, h := range p.Inputs {
		w.Bytes(h[:])
	}
	if version >= 7 {
		var b []byte
		if p.Floors != nil {
			b = kept.AppendFloors(nil, p.Floors.List())
		}
		w.Uvarint(uint64(len(b)))
		w.Bytes(b)
	}
}

// Read reads what Write wrote, of a state after the entry with that index and of a stream with
// messages up to seq end.
func Read(r *frames.Reader, index, end uint64) (p Active) {
	if p.Index = r.UpTo(index); p.Index == 0 {
		if r.Version == 2 || r.Version >= 7 {
			r.Fail("a plan without an entry")
		}
		return p
	}
	if r.Version >= 8 {
		p.Chapter = uint32(r.UpTo(format.MaxChapterBytes))
	}
	p.Stores = uint32(r.UpTo(MaxStores))
	for count := r.UpTo(MaxInputs); count > 0 && r.Err == nil; count-- {
		var h segments.Hash
		r.Full(h[:])
		p.Inputs = append(p.Inputs, h)
	}
	if err := p.Check(); err != nil && r.Err == nil {
		r.Fail("%w", err)
	}
	if r.Version >= 7 {
		b := make([]byte, r.UpTo(kept.MaxBytes))
		if r.Full(b); len(b) == 0 && r.Version > 7 {
			return p
		}
		var err error
		if p.Floors, err = kept.DecodeFloors(b, end); r.Err == nil && (err != nil || p.Floors == nil) {
			r.Fail("floors of a plan: %w", err)
		}
	}
	return p
}
