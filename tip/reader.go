package tip

import (
	"encoding/binary"

	"chorale/message"
	"chorale/topic"
)

// Reader walks the wanted messages of the tip in order. For one goroutine. It
// needs no closing.
type Reader struct {
	tip *Tip
	sel *topic.Selection

	scanned uint64 // last seq considered
	at      uint64 // position behind it, if placed
	placed  bool

	plan     Plan
	cursors  []cursor
	parts    int
	gathered uint64 // all entries before this position were gathered
	stretch  stretch
}

// Plan is how a reader finds its messages.
type Plan uint8

const (
	Auto Plan = iota
	Linear
	Index
)

// Force sets plan.
func (r *Reader) Force(p Plan) { r.plan = p }

var WindowBytes = 4 << 20

// NewReader starts behind seq after. The reader belongs to the selection's
// goroutine.
func (t *Tip) NewReader(sel *topic.Selection, after uint64) *Reader {
	return &Reader{tip: t, sel: sel, scanned: after}
}

// Seek moves the reader to behind seq after, for one that comes back from the
// history.
func (r *Reader) Seek(after uint64) { r.scanned, r.placed = after, false }

// output is what one Read has appended.
type output struct {
	dst   []byte
	start int
	limit int
	count int
}

// room is how many bytes may be appended; the first record may exceed it.
func (o *output) room() int { return o.limit - (len(o.dst) - o.start) }

// Read appends padded records of wanted messages to dst until limit bytes were
// appended (always at least one message if one is there) or the head is reached.
// It never blocks. ErrEvicted means that Scanned+1 is below the floor; what was
// appended before is valid and counted in Progress all the same.
func (r *Reader) Read(dst []byte, limit int) ([]byte, message.Progress, error) {
	out := output{dst: dst, start: len(dst), limit: limit}
	more, err := true, error(nil)
	for more && err == nil {
		side := r.tip.grace.enter()
		more, err = r.step(&out)
		r.tip.grace.leave(side)
	}
	return out.dst, message.Progress{Count: out.count, Scanned: r.scanned}, err
}

// step reads on within one chunk, inside the grace. It reports whether there may be more to do.
func (r *Reader) step(out *output) (bool, error) {
	head, end := r.tip.head()
	if !r.placed || r.at < r.tip.floorPosition.Load() {
		if err := r.place(head, end); err != nil || !r.placed {
			return false, err
		}
	}
	if r.at == end {
		return false, nil
	}
	if r.stretch.next < len(r.stretch.units) {
		return r.deliver(out), nil
	}
	if r.plan == Index {
		r.aim()
		hi, seq := min(end, r.at+uint64(WindowBytes/8)), head
		shift := r.tip.ring.shift
		if hi < end {
			hi = hi >> shift << shift
			c := r.tip.ring.chunk(hi >> shift)
			if c == nil {
				return true, nil
			}
			seq = c.first - 1
		}
		r.gather(hi, seq)
		if r.tip.floorPosition.Load() > r.stretch.lo {
			r.stretch.units = r.stretch.units[:0]
			return true, nil
		}
		return r.deliver(out), nil
	}
	c := r.tip.ring.chunk(r.at >> r.tip.ring.shift)
	if c == nil {
		return true, nil // it went just now: the floor says so
	}
	return r.linear(c, end, out), nil
}

func (r *Reader) aim() {
	parts := r.sel.Partitions()
	if len(parts) != r.parts || r.gathered != r.at {
		r.cursors = r.cursors[:0]
		for _, id := range parts {
			if p := r.tip.index.partition(id); p != nil {
				r.cursors = append(r.cursors, cursor{partition: p, covered: r.sel.PartitionCovered(id)})
			}
		}
		r.parts = len(parts)
	}
}

// place finds the position of seq scanned+1. The reader stays unplaced if it is
// beyond the head.
func (r *Reader) place(head, end uint64) error {
	t := r.tip
	r.placed = false
	want := r.scanned + 1
	if want > head {
		r.at, r.placed = end, want == head+1
		return r.evicted()
	}
	shift := t.ring.shift
	lo, hi := t.floorPosition.Load()>>shift, (end-1)>>shift
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if c := t.ring.chunk(mid); c == nil || c.first <= want {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	c := t.ring.chunk(lo)
	if c == nil || c.first > want {
		return r.evicted()
	}
	n := want - c.first
	off := int(c.marks[n/markEvery]) * unitBytes
	for range n % markEvery {
		off += message.Stride(int(binary.LittleEndian.Uint32(c.buf[off:])))
	}
	r.at, r.placed = c.number<<shift+uint64(off/unitBytes), true
	return nil
}

// evicted is ErrEvicted if the next seq has left the ring.
func (r *Reader) evicted() error {
	if r.scanned+1 < r.tip.floorSeq.Load() {
		return ErrEvicted
	}
	return nil
}

// linear reads on in c, asking for each record, up to the end of the chunk or the
// head.
func (r *Reader) linear(c *chunk, head uint64, out *output) bool {
	start := c.number << r.tip.ring.shift
	off, end := int(r.at-start)*unitBytes, r.tip.ring.end(c, head)
	run, seq, full := off, r.scanned, false
	room := out.room()
	for off < end {
		first := binary.LittleEndian.Uint64(c.buf[off:])
		stride := message.Stride(int(uint32(first)))
		if r.sel.Match(uint32(first >> 32)) {
			if stride > room && (out.count > 0 || room < out.limit) {
				full = true
				break
			}
			room -= stride
			out.count++
		} else {
			out.dst = append(out.dst, c.buf[run:off]...)
			run = off + stride
		}
		off += stride
		seq++
	}
	out.dst = append(out.dst, c.buf[run:off]...)
	r.scanned = seq
	r.at = start + uint64(off/unitBytes)
	if off == end && head>>r.tip.ring.shift > c.number {
		r.at = (c.number + 1) << r.tip.ring.shift
	}
	return !full && room > 0
}
