package scan

import (
	"fmt"
	"slices"

	"chorale/segments/format"
)

// window is the memory of a scan.
type window struct {
	buf    []byte
	pieces []piece  // of blocks, behind the end of the window
	refs   []uint64 // wanted records, ascending: seq << 32 | place in buf / Align
	sorted bool     // refs ascend as they were found
	slots  []uint32 // of order
	next   int      // in refs: the next one to be given out
	stored []byte   // of blocks of a store, before they are unpacked
}

// piece is a range of buf with ascending records.
type piece struct {
	from, to int
	part     uint32 // of the scan
	covered  bool   // all are wanted
}

// carried is how many bytes lie behind the end of the window.
func (w *window) carried() (n int) {
	for _, p := range w.pieces {
		n += p.to - p.from
	}
	return n
}

// carry takes over what lies behind the end of the window before, with room for size
// bytes more, and returns where these begin.
func (w *window) carry(before *window, size int) (at int) {
	need := before.carried() + size
	w.buf = slices.Grow(w.buf[:0], need)[:need]
	for _, p := range before.pieces {
		n := copy(w.buf[at:], before.buf[p.from:p.to])
		p.from, p.to = at, at+n
		w.pieces = append(w.pieces, p)
		at += n
	}
	return at
}

// order sorts the refs of a window from seq start to end (relative): by an array
// over all its seqs if many are wanted, else by comparing.
func (w *window) order(start, end uint32) error {
	if w.sorted {
		return nil
	}
	if len(w.refs)*denseShare < int(end-start) {
		slices.Sort(w.refs)
		return nil
	}
	return w.byArray(start, end)
}

// byArray puts each ref into the place of its seq and collects them again.
func (w *window) byArray(start, end uint32) error {
	span := int(end-start) + 1
	w.slots = slices.Grow(w.slots[:0], span)[:span]
	clear(w.slots)
	for _, ref := range w.refs {
		w.slots[uint32(ref>>32)-start] = uint32(ref) + 1
	}
	n := 0
	for i, place := range w.slots {
		if place > 0 {
			w.refs[n] = (uint64(start)+uint64(i))<<32 | uint64(place-1)
			n++
		}
	}
	if n != len(w.refs) {
		return fmt.Errorf("%w: %d of %d records have the seq of another", format.ErrCorrupt, len(w.refs)-n, len(w.refs))
	}
	return nil
}

// denseShare is the number of seqs up to which passing over them all is cheaper
// than sorting one wanted record by comparing (BenchmarkOrder).
const denseShare = 16
