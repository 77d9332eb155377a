package tip

import (
	"encoding/binary"
	"sync"
	"unsafe"

	"chorale/message"
	"chorale/tip/prefetch"
	"chorale/tip/radix"
)

// cursor is a reader's place in the index of one partition: all entries before
// block.entries[i] were gathered.
type cursor struct {
	partition *partition
	block     *block
	entries   *[blockEntries]uint64 // of block, to ask for it ahead
	i         uint32
	freed     uint32 // block.freed when it was found
	took      uint16
	covered   bool // every topic of the partition is wanted
}

// ahead is how many records, or cursors, are asked for before their turn comes.
const (
	recordsAhead = 32
	group        = 8
	cursorsAhead = 8
	maxAsk       = 512
)

// stretch is a part of the ring whose wanted positions were gathered and are being
// delivered.
type stretch struct {
	lo, hi uint64   // positions
	seq    uint64   // last seq before hi
	units  []uint32 // wanted, relative to lo, ascending
	next   int      // index of the next to deliver
	asked  int      // index of the next to ask for
	sorted bool
	bytes  int // about the stride of a record
}

var sorters = sync.Pool{New: func() any { return new(radix.Sorter) }}

// gather lists the wanted messages in [r.at, hi).
func (r *Reader) gather(hi, seq uint64) {
	s := &r.stretch
	s.lo, s.hi, s.seq, s.next, s.asked = r.at, hi, seq, 0, 0
	s.units, s.sorted = s.units[:0], true
	for i := range r.cursors {
		if i+cursorsAhead < len(r.cursors) {
			c := &r.cursors[i+cursorsAhead]
			prefetch.Line(unsafe.Pointer(c.block))
			prefetch.Bytes(uintptr(unsafe.Pointer(c.entries))+uintptr(c.i)*8, 64+int(c.took)*8)
		}
		r.collect(&r.cursors[i])
	}
	if !s.sorted {
		sorter := sorters.Get().(*radix.Sorter)
		sorter.Sort(s.units, hi-s.lo)
		sorters.Put(sorter)
	}
	r.gathered = hi
}

func (r *Reader) collect(c *cursor) {
	s := &r.stretch
	b, i := c.block, int(c.i)
	if b == nil || b.freed.Load() != c.freed {
		if b, i = c.partition.seek(s.lo); b == nil {
			c.block = nil
			return
		}
	}
	had := len(s.units)
	for b.base < s.hi {
		next := b.next.Load()
		n := int(b.visible.Load())
		if i < n {
			delta, end := uint32(b.base-s.lo), uint32(s.hi-s.lo)
			if c.covered {
				i += s.take(b.entries[i:n], delta, end)
			} else {
				i += r.pick(b.entries[i:n], delta, end)
			}
		}
		if next == nil || i < int(b.filled) {
			break
		}
		b, i = next, 0
	}
	if had > 0 && had < len(s.units) && s.units[had] < s.units[had-1] {
		s.sorted = false
	}
	c.block, c.entries, c.freed, c.i = b, b.entries, b.freed.Load(), uint32(i)
	c.took = uint16(min(len(s.units)-had, 64))
}

// take lists the entries below end.
func (s *stretch) take(entries []uint64, delta, end uint32) int {
	units := s.units
	for n, e := range entries {
		at := uint32(e) + delta
		if at >= end {
			s.units = units
			return n
		}
		units = append(units, at)
	}
	s.units = units
	return len(entries)
}

// pick is take for the entries whose topics are wanted.
func (r *Reader) pick(entries []uint64, delta, end uint32) int {
	s := &r.stretch
	for n, e := range entries {
		at := uint32(e) + delta
		if at >= end {
			return n
		}
		if r.sel.Match(uint32(e >> 32)) {
			s.units = append(s.units, at)
		}
	}
	return len(entries)
}

// deliver copies the messages of the stretch, as many as there is room for.
func (r *Reader) deliver(out *output) (more bool) {
	s, g := &r.stretch, &r.tip.ring
	for s.next < len(s.units) {
		r.ask(min(len(s.units), s.next+recordsAhead+group))
		number := (s.lo + uint64(s.units[s.next])) >> g.shift
		c := g.chunk(number)
		if c == nil {
			s.units, s.next = s.units[:0], 0
			r.placed = false
			return true
		}
		start := number<<g.shift - s.lo // may wrap
		n := s.next + 1
		for n < len(s.units) && n < s.next+group && uint64(s.units[n])-start < 1<<g.shift {
			n++
		}
		took := r.copyRecords(c, s.units[s.next:n], uint32(start), out)
		s.next += took
		if s.next < n {
			return false
		}
	}
	r.scanned, r.at = s.seq, s.hi
	return out.room() > 0
}

// ask prefetches the records before units[to].
func (r *Reader) ask(to int) {
	s, g := &r.stretch, &r.tip.ring
	if s.asked >= to {
		return
	}
	number := (s.lo + uint64(s.units[s.asked])) >> g.shift
	if c := g.chunk(number); c != nil {
		base := uintptr(unsafe.Pointer(&c.buf[0])) - uintptr(number<<g.shift-s.lo)*unitBytes
		prefetch.Records(base, s.units[s.asked:to], min(s.bytes, maxAsk))
	}
	s.asked = to
}

// copyRecords appends the records at these units, c starting at start, as many as
// there is room for.
func (r *Reader) copyRecords(c *chunk, units []uint32, start uint32, out *output) int {
	buf, room := c.buf, out.room()
	first := out.count == 0
	dst := out.dst
	from, to, n := 0, 0, 0
	for _, u := range units {
		at := int(u-start) * unitBytes
		stride := message.Stride(int(binary.LittleEndian.Uint32(buf[at:])))
		if stride > room && !first {
			break
		}
		first = false
		room -= stride
		if at != to {
			dst = append(dst, buf[from:to]...)
			from = at
		}
		to = at + stride
		n++
	}
	if n == 0 {
		return 0
	}
	dst = append(dst, buf[from:to]...)
	r.stretch.bytes = (len(dst) - len(out.dst)) / n
	out.dst = dst
	out.count += n
	last := int(units[n-1]-start) * unitBytes
	r.scanned = binary.LittleEndian.Uint64(buf[last+8:])
	return n
}
