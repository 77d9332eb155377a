package tip

import (
	"encoding/binary"
	"unsafe"

	"chorale/tip/prefetch"
)

const (
	// askBytes is how much memory is asked for far ahead of the copying, into the second
	// cache: enough to keep the processor's miss buffers busy. From there the next
	// group comes into the first one.
	askBytes           = 8 << 10
	minAhead, maxAhead = 8, 48 // in records
	// group is how many records are asked for, and copied, at a time.
	group = 4
	// maxAskBytes bounds what is asked for of a record: copying the rest of a long one
	// is fast enough.
	maxAskBytes = 1 << 10
)

// piece is a chunk in terms of a stretch: positions less s.lo.
type piece struct {
	chunk *chunk
	start uint32 // may be before the stretch, and wrap
	units uint32 // chunk's length in positions
}

func (p *piece) holds(unit uint32) bool { return p.chunk != nil && unit-p.start < p.units }

// find moves p to the chunk of a unit; chunk is nil if that has left the ring.
func (p *piece) find(g *ring, lo uint64, unit uint32) {
	number := (lo + uint64(unit)) >> g.shift
	p.chunk, p.start, p.units = g.chunk(number), uint32(number<<g.shift-lo), 1<<g.shift
}

// deliver copies the messages of the stretch, as many as there is room for. It
// reports whether there may be more to do.
func (r *Reader) deliver(out *output) (more bool) {
	s, g := &r.stretch, &r.tip.ring
	var here piece
	far, near := asking{next: s.next}, asking{next: s.next}
	for s.pending() {
		if unit := s.units[s.next]; !here.holds(unit) {
			if here.find(g, s.lo, unit); here.chunk == nil {
				s.end()
				r.placed = false // what comes next has left the ring
				return true
			}
		}
		ahead := min(max(askBytes/max(s.bytes, 1), minAhead), maxAhead)
		far.ask(g, s, s.next+group+ahead, prefetch.Far)
		near.ask(g, s, s.next+2*group, prefetch.Records)
		n := min(len(s.units), s.next+group)
		for !here.holds(s.units[n-1]) {
			n--
		}
		took := r.copyRecords(here.chunk, s.units[s.next:n], here.start, out)
		s.next += took
		if s.next < n {
			return false
		}
	}
	s.end()
	r.scanned, r.at = s.seq, s.hi
	return out.room > 0 || out.count == 0
}

// asking is how far the records of a stretch were asked for: up to index next.
type asking struct {
	next int
	in   piece
}

// ask prefetches records up to index to.
func (a *asking) ask(g *ring, s *stretch, to int, records func(base uintptr, units []uint32, bytes int)) {
	to = min(to, len(s.units))
	for a.next < to {
		if !a.in.holds(s.units[a.next]) {
			if a.in.find(g, s.lo, s.units[a.next]); a.in.chunk == nil {
				return
			}
		}
		n := a.next + 1
		for n < to && a.in.holds(s.units[n]) {
			n++
		}
		base := uintptr(unsafe.Pointer(unsafe.SliceData(a.in.chunk.buf))) - uintptr(a.in.start)*unitBytes
		records(base, s.units[a.next:n], min(s.bytes, maxAskBytes))
		a.next = n
	}
}

// copyRecords appends the records of c at these units, less start, as many as
// there is room for: neighbours by one copy.
func (r *Reader) copyRecords(c *chunk, units []uint32, start uint32, out *output) (took int) {
	from, to, room, had := 0, 0, out.room, len(out.dst)
	count := 0 // of the run from..to
	for _, u := range units {
		at := int(u-start) * unitBytes
		stride := c.stride(at)
		if room -= stride; room < 0 && out.count+took > 0 {
			break
		}
		if at != to {
			out.add(c.buf[from:to], count)
			from, count = at, 0
		}
		to = at + stride
		count++
		took++
	}
	if took == 0 {
		return 0
	}
	out.add(c.buf[from:to], count)
	r.stretch.bytes = (len(out.dst) - had) / took
	last := int(units[took-1]-start) * unitBytes
	r.scanned = binary.LittleEndian.Uint64(c.buf[last+8:])
	return took
}
