package tip

import (
	"chorale/message"
	"chorale/topic"
)

// Reader walks the wanted messages of the tip in order. For one goroutine. It
// needs no closing.
type Reader struct {
	of     *Tip
	tip    *held
	sel    *topic.Selection
	method Method

	scanned uint64 // last seq considered
	at      uint64 // position behind it, if placed
	placed  bool

	plan    plan
	cursors []cursor // of the wanted partitions, ascending
	named   []uint32 // ids of the wanted topics, if they are few and named in full
	// gathered is the position before which the cursors have seen all entries.
	gathered uint64
	stretch  stretch
}

// Seek moves the reader to behind seq after: for one that comes back from the
// history.
func (r *Reader) Seek(after uint64) {
	r.scanned, r.placed = after, false
	r.stretch.end()
	if now := r.of.now(); r.tip != now {
		r.tip, r.cursors, r.gathered = now, nil, 0
	}
}

// Method is how a reader finds its messages.
type Method uint8

// Planned lets the plan decide, for each stretch anew; the others are for tests
// and measurements.
const (
	Planned Method = iota
	Linear
	Indexed
)

// Force makes the reader use one method only. A selection of everything is read
// as a whole, whatever the method.
func (r *Reader) Force(m Method) { r.method = m }

// output is what one Read appends to.
type output struct {
	dst   []byte
	room  int // bytes that may still be appended
	count int
}

// add appends whole records.
func (o *output) add(records []byte, count int) {
	o.dst = append(o.dst, records...)
	o.room -= len(records)
	o.count += count
}

// Read appends padded records of wanted messages to dst until the next one would
// exceed limit bytes (one message is appended whatever its size) or the head is
// reached. It never blocks. ErrEvicted means that Scanned+1 is below the floor, or was
// when the tip became what another one held; what was appended before is valid and counted in Progress all the same.
func (r *Reader) Read(dst []byte, limit int) ([]byte, message.Progress, error) {
	out := output{dst: dst, room: limit}
	more, err := true, error(nil)
	for more && err == nil {
		side := r.tip.grace.enter()
		more, err = r.step(&out)
		r.tip.grace.leave(side)
	}
	return out.dst, message.Progress{Count: out.count, Scanned: r.scanned}, err
}

// step reads on for one stretch, or one chunk, inside the grace. It reports
// whether there may be more to do.
func (r *Reader) step(out *output) (more bool, err error) {
	if r.tip.retired.Load() {
		return false, ErrEvicted
	}
	if r.stretch.pending() {
		return r.deliver(out), nil
	}
	head, end := r.tip.head()
	if !r.placed || r.at < r.tip.floorPosition.Load() {
		if err := r.place(head, end); err != nil || !r.placed {
			return false, err
		}
	}
	if r.at == end {
		r.rest()
		return false, nil
	}
	all := r.sel.All()
	if !all && r.indexed(head, end) {
		return !r.gather(head, end) || r.deliver(out), nil
	}
	c := r.tip.ring.chunk(r.at >> r.tip.ring.shift)
	if c == nil {
		return true, nil // it went just now: the next step finds the floor behind it
	}
	if all {
		return r.whole(c, head, end, out), nil
	}
	return r.linear(c, end, out), nil
}

// place finds the position of seq scanned+1. The reader stays unplaced if that is
// beyond the next one to come.
func (r *Reader) place(head, end uint64) error {
	g := &r.tip.ring
	r.placed = false
	want := r.scanned + 1
	if want > head {
		r.at, r.placed = end, want == head+1
		return r.evicted()
	}
	lo, hi := r.tip.floorPosition.Load()>>g.shift, (end-1)>>g.shift
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if c := g.chunk(mid); c == nil || c.first <= want {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	c := g.chunk(lo)
	if c == nil || c.first > want {
		return r.evicted()
	}
	n := want - c.first
	off := int(c.marks[n/markEvery]) * unitBytes
	for range n % markEvery {
		off += c.stride(off)
	}
	r.at, r.placed = c.number<<g.shift+uint64(off/unitBytes), true
	return nil
}

// evicted is ErrEvicted if the next seq has left the ring.
func (r *Reader) evicted() error {
	if r.scanned+1 < r.tip.floorSeq.Load() {
		return ErrEvicted
	}
	return nil
}

// moved puts the reader behind what it read of c, up to off. If that is all of it,
// the next record starts the next chunk.
func (r *Reader) moved(c *chunk, off int, end uint64) {
	g := &r.tip.ring
	r.at = c.number<<g.shift + uint64(off/unitBytes)
	if end>>g.shift > c.number && off == c.used {
		r.at = (c.number + 1) << g.shift
	}
}

// rest gives back what only a recovery needs.
func (r *Reader) rest() {
	if len(r.cursors) > restCursors {
		r.cursors, r.gathered = nil, 0
	}
}

// restCursors is how many cursors, of 48 bytes, a reader keeps at the live end.
const restCursors = 1024
