package segments

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"chorale/disk"
	"chorale/message"
	"chorale/segments/format"
	"chorale/topic"
)

// fileScan passes the wanted blocks of one file, window by window. A window is a
// range of seqs all of whose wanted messages are in memory: it ends before the
// first seq of the first block that was not loaded. What a block holds behind the
// end of the window is carried over to the next.
type fileScan struct {
	file   *file
	handle disk.File
	index  *format.Index  // held, so that other readers find it
	blocks []format.Block // still to be loaded, ascending by first
	end    uint64         // last seq of the window; before the first window: of what is passed
	budget int            // bytes that a window loads, if its first blocks are not more
	w      *window
	pool   *sync.Pool // that w goes back to
}

// windowBytes is the budget of a window: a part of a processor's cache, for the
// records are picked from it in the order of seqs.
const windowBytes = 4 << 20

// window is the memory of a scan.
type window struct {
	buf, spare []byte
	pieces     []piece  // of blocks, behind the end of the window
	refs       []uint64 // wanted records, ascending: seq << 32 | place in buf / Align
	sorted     bool     // refs ascend as they were found
	slots      []uint32 // of order
	next       int      // in refs: the next one to be given out
}

// piece is a range of buf with records of one partition.
type piece struct {
	from, to  int
	partition uint32
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

// windows are pools of windows for scans of up to 1, 2, 4 .. bytes, so that who wants
// little does not keep the memory of one who wanted much.
var windows [32]sync.Pool

// newFileScan takes an acquired file and its wanted blocks, in the order of the
// file, and starts at seq start (relative to the file's first).
func newFileScan(f *file, h disk.File, x *format.Index, wanted []format.Block, start uint32, budget int) *fileScan {
	c := &fileScan{file: f, handle: h, index: x, budget: budget, end: f.meta.First + uint64(start) - 1}
	total := int64(0)
	for _, b := range wanted {
		if b.Last >= start {
			c.blocks = append(c.blocks, b)
			total += int64(b.Bytes)
		}
	}
	if total > int64(budget) { // else one window takes them all
		slices.SortFunc(c.blocks, func(a, b format.Block) int { return cmp.Compare(a.First, b.First) })
	}
	c.pool = &windows[min(len(windows)-1, bits.Len64(uint64(total)))]
	c.w, _ = c.pool.Get().(*window)
	if c.w == nil {
		c.w = new(window)
	}
	c.w.pieces, c.w.refs, c.w.next = c.w.pieces[:0], c.w.refs[:0], 0
	return c
}

func (c *fileScan) close() {
	// What only readers want is not worth an error: the file is immutable.
	_ = c.file.release()
	c.pool.Put(c.w)
	c.w = nil
}

// load makes the next window, which starts at seq start (relative), and returns
// how many bytes it read.
func (c *fileScan) load(sel *topic.Selection, start uint32) (int64, error) {
	w := c.w
	chosen, size, end := c.choose(start)
	fresh := w.carry(size, 2*c.budget)
	if err := c.readBlocks(chosen, fresh); err != nil {
		return int64(size), err
	}
	pieces := w.pieces
	w.pieces, w.refs, w.next, w.sorted = w.pieces[:0], w.refs[:0], 0, true
	for _, p := range pieces {
		rest, err := c.collect(sel, p, start, end)
		if err != nil {
			return int64(size), err
		}
		if rest.from < rest.to {
			w.pieces = append(w.pieces, rest) // never overtakes the loop
		}
	}
	c.end = c.file.meta.First + uint64(end)
	if err := w.order(start, end); err != nil {
		return int64(size), c.file.Damage(format.HeaderBytes, err)
	}
	return int64(size), nil
}

// choose takes the next blocks off the list: those that the window's first seq
// needs, and as many as fit. It puts them in the order of the file, sums their
// bytes and says where the window ends (relative).
//
// A window loads at least as much as it carries over, so that all carrying
// together costs no more than the reading.
func (c *fileScan) choose(start uint32) (chosen []format.Block, size int, end uint32) {
	budget := max(c.budget, c.w.carried())
	n := 0
	for n < len(c.blocks) && (n == 0 || c.blocks[n].First <= start || size+int(c.blocks[n].Bytes) <= budget) {
		size += int(c.blocks[n].Bytes)
		n++
	}
	chosen, c.blocks = c.blocks[:n], c.blocks[n:]
	end = uint32(c.file.meta.Last - c.file.meta.First)
	if len(c.blocks) > 0 {
		end = c.blocks[0].First - 1
	}
	slices.SortFunc(chosen, func(a, b format.Block) int { return cmp.Compare(a.Off, b.Off) })
	return chosen, size, end
}

// readBlocks reads blocks into buf from place at on, neighbours by one call, and
// verifies them.
func (c *fileScan) readBlocks(blocks []format.Block, at int) error {
	for len(blocks) > 0 {
		n, end := 0, at
		for n < len(blocks) && blocks[n].Off == blocks[0].Off+int64(end-at) {
			size := int(blocks[n].Bytes)
			c.w.pieces = append(c.w.pieces, piece{from: end, to: end + size, partition: blocks[n].Partition})
			end += size
			n++
		}
		if err := c.file.ReadBlocks(c.handle, blocks[:n], c.w.buf[at:end]); err != nil {
			return err
		}
		blocks, at = blocks[n:], end
	}
	return nil
}

// collect notes the wanted records of a piece that lie in the window, and returns
// what is behind it.
func (c *fileScan) collect(sel *topic.Selection, p piece, start, end uint32) (rest piece, err error) {
	w, first := c.w, c.file.meta.First
	covered := sel.PartitionCovered(p.partition)
	before := uint32(0)
	if len(w.refs) > 0 {
		before = uint32(w.refs[len(w.refs)-1] >> 32)
	}
	for p.from < p.to {
		r, _, err := message.Split(w.buf[p.from:p.to])
		if err == nil && (r.Seq() < first || r.Seq() > c.file.meta.Last) {
			err = fmt.Errorf("seq %d is none of the file's", r.Seq())
		}
		if err != nil {
			return p, c.file.Damage(format.HeaderBytes, fmt.Errorf("blocks of partition %d: %w", p.partition, err))
		}
		seq := uint32(r.Seq() - first)
		if seq > end {
			break
		}
		if seq >= start && (covered || sel.Match(r.Topic())) {
			w.sorted = w.sorted && seq >= before
			before = seq
			w.refs = append(w.refs, uint64(seq)<<32|uint64(p.from/message.Align))
		}
		p.from += message.Stride(len(r))
	}
	return p, nil
}

// emit appends what is left of the window's records, as far as they fit, and
// returns the last seq that was considered.
func (c *fileScan) emit(out *output) uint64 {
	w := c.w
	for _, ref := range w.refs[w.next:] {
		b := w.buf[int(uint32(ref))*message.Align:]
		if !out.add(b[:message.Stride(message.Record(b).Size())]) {
			return c.file.meta.First + ref>>32 - 1
		}
		w.next++
	}
	return c.end
}
