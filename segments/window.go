package segments

import (
	"fmt"
	"slices"
)

// window is the memory of a scan.
type window struct {
	buf, spare []byte
	pieces     []piece  // of blocks, behind the end of the window
	refs       []uint64 // wanted records, ascending: seq << 32 | place in buf / Align
	sorted     bool     // refs ascend as they were found
	slots      []uint32 // of order
	next       int      // in refs: the next one to be given out
	stored     []byte   // of blocks of a store, before they are unpacked
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

// carry moves the pieces to the front of a buffer with room for size bytes more,
// and returns where these begin. The buffer before is kept for the next time only
// if it is no larger than keep.
func (w *window) carry(size, keep int) (at int) {
	need := w.carried() + size
	w.spare = slices.Grow(w.spare[:0], need)[:need]
	for i, p := range w.pieces {
		n := copy(w.spare[at:], w.buf[p.from:p.to])
		w.pieces[i].from, w.pieces[i].to = at, at+n
		at += n
	}
	if w.buf, w.spare = w.spare, w.buf; cap(w.spare) > keep {
		w.spare = nil
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
		return fmt.Errorf("%w: %d of %d records have the seq of another", ErrCorrupt, len(w.refs)-n, len(w.refs))
	}
	return nil
}

// denseShare is the number of seqs up to which passing over them all is cheaper
// than sorting one wanted record by comparing (BenchmarkOrder).
const denseShare = 16
