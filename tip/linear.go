package tip

import (
	"encoding/binary"
	"sort"
	"unsafe"

	"chorale/message"
	"chorale/tip/prefetch"
)

// linearAhead is how far ahead of a linear pass memory is asked for.
const linearAhead = 4 << 10

// linear reads on in c, asking the selection for each record, up to the end of the
// chunk or the head. Wanted neighbours are copied as one run.
func (r *Reader) linear(c *chunk, end uint64, out *output) (more bool) {
	start := c.number << r.tip.ring.shift
	first, stop := int(r.at-start)*unitBytes, r.tip.ring.end(c, end)
	buf := c.buf[:stop]
	memory := uintptr(unsafe.Pointer(unsafe.SliceData(buf))) + linearAhead
	run, off, passed, wanted, had := first, first, uint64(0), 0, out.count
	full := false
	for off < len(buf) {
		lead := binary.LittleEndian.Uint64(buf[off:]) // size and topic
		stride := message.Stride(int(uint32(lead)))
		prefetch.Bytes(memory+uintptr(off), stride)
		if r.sel.Match(uint32(lead >> 32)) {
			if off+stride-run > out.room && (off > run || out.count > 0) {
				full = true
				break
			}
			wanted++
		} else {
			if run < off {
				out.add(buf[run:off], wanted)
				wanted = 0
			}
			run = off + stride
		}
		off += stride
		passed++
	}
	out.add(buf[run:off], wanted)
	r.scanned += passed
	r.plan.saw(int(passed), out.count-had)
	r.moved(c, off, end)
	return !full
}

// whole reads on in c, of which everything is wanted: one copy up to the last
// record that fits.
func (r *Reader) whole(c *chunk, head, end uint64, out *output) (more bool) {
	g := &r.tip.ring
	off, stop, last := int(r.at-c.number<<g.shift)*unitBytes, g.end(c, end), head
	if end>>g.shift > c.number {
		last = c.last
	}
	to, seq := stop, last
	if stop-off > out.room {
		to, seq = c.cut(off, r.scanned, last, out.room)
		if seq == r.scanned && out.count == 0 {
			to, seq = off+c.stride(off), seq+1
		}
	}
	out.add(c.buf[off:to], int(seq-r.scanned))
	r.scanned = seq
	r.moved(c, to, end)
	return to == stop
}

// cut returns the end of the last record that lies in the room bytes from off on,
// and its seq. The record before off has seq before; last is the last that is
// visible, and ends beyond the room.
func (c *chunk) cut(off int, before, last uint64, room int) (to int, seq uint64) {
	limit := off + room
	to, seq = off, before
	from := (before+1-c.first)/markEvery + 1
	n := sort.Search(int((last-c.first)/markEvery-from+1), func(i int) bool {
		return int(c.marks[from+uint64(i)])*unitBytes > limit
	})
	if n > 0 {
		m := from + uint64(n) - 1
		to, seq = int(c.marks[m])*unitBytes, c.first+m*markEvery-1
	}
	for stride := c.stride(to); to+stride <= limit; stride = c.stride(to) {
		to += stride
		seq++
	}
	return to, seq
}
