package scan

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"slices"
	"sync"

	"chorale/disk"
	"chorale/message"
	"chorale/segments/data"
	"chorale/segments/format"
	"chorale/segments/manifest"
)

// Scan passes the wanted blocks of one range, window by window: of a segment, or of
// the stores of a layer, between which it makes no difference. A window is a range of
// seqs all of whose wanted messages are in memory: it ends before the first seq of the
// first block that was not loaded. What a block holds behind the end of the window is
// carried over to the next.
type Scan struct {
	*Shared
	q           *Query
	first, last uint64 // of the range
	messages    uint64 // of the files
	until       uint64 // last, or the last seq that the reader may come to
	parts       []part
	blocks      []extent // still to be loaded, ascending by first
	later       []extent // of the window, that others were reading
	reach       uint32   // last seq of the blocks that were loaded
	end         uint64   // last seq of the window; before the first window: of what is passed
	handles     int      // that parts have open
	w           *window
	pool        *sync.Pool // that w goes back to
}

// part is a file of the range with wanted messages. It is held.
type part struct {
	file    *data.File
	handle  disk.File // nil while it is not needed
	segment *format.Index
	store   *format.StoreIndex
}

// extent is a wanted block of a part.
type extent struct {
	first, last uint32 // seqs, relative to the first of the range
	bytes       uint32 // of its records
	part        uint32 // index in parts
	block       uint32 // index in the part's block table
}

const (
	// maxHandles is how many files a scan leaves open from one window to the next.
	maxHandles = 64
	// maxRun is how many stored bytes of a store are read by one call.
	maxRun = 1 << 20
)

// windows are pools of windows for scans of up to 1, 2, 4 .. bytes, so that who wants
// little does not keep the memory of one who wanted much.
var windows [32]sync.Pool

// Open starts behind seq pos on the files of the range from first to last, and ends at
// seq until. The error data.ErrGone means that the view is out of date. Close releases
// what the scan holds.
func (s *Shared) Open(q *Query, first, last, pos, until uint64, files []*data.File) (*Scan, error) {
	c := &Scan{Shared: s, q: q, first: first, last: last, until: min(last, until), end: pos}
	for _, f := range files {
		c.messages += f.Meta.Messages
		if err := c.add(f, uint32(pos+1-first)); err != nil {
			c.Close()
			return nil, err
		}
	}
	total := int64(0)
	for _, e := range c.blocks {
		total += int64(e.bytes)
	}
	if total > int64(c.Window) { // else one window takes them all
		slices.SortFunc(c.blocks, func(a, b extent) int { return cmp.Compare(a.first, b.first) })
	}
	c.pool = &windows[min(len(windows)-1, bits.Len64(uint64(total)))]
	c.w = c.emptyWindow()
	return c, nil
}

func (c *Scan) emptyWindow() *window {
	w, _ := c.pool.Get().(*window)
	if w == nil {
		w = new(window)
	}
	w.pieces, w.refs, w.next = w.pieces[:0], w.refs[:0], 0
	return w
}

// add takes a file into the scan, unless it has nothing that is wanted from the
// position on.
func (c *Scan) add(f *data.File, start uint32) error {
	if !c.q.mayBeIn(f) {
		return nil
	}
	if err := f.Hold(); err != nil {
		return err
	}
	c.parts = append(c.parts, part{file: f})
	p := &c.parts[len(c.parts)-1]
	before := len(c.blocks)
	take := func(e extent) {
		if e.last >= start && c.first+uint64(e.first) <= c.until {
			e.part = uint32(len(c.parts) - 1)
			c.blocks = append(c.blocks, e)
		}
	}
	if err := c.wanted(p, take); err != nil {
		return err
	}
	if c.handles > maxHandles {
		c.releaseAll()
	}
	if len(c.blocks) == before {
		c.release(p)
		c.parts = c.parts[:len(c.parts)-1]
		// What only readers want is not worth an error: the file is immutable.
		_ = f.Unhold()
	}
	return nil
}

// wanted reads the tables of a part and lists the blocks that may hold a wanted
// message, in the order of the file.
func (c *Scan) wanted(p *part, take func(extent)) error {
	if p.file.Meta.Kind == manifest.KindStore {
		x, err := c.storeIndex(p)
		if err != nil {
			return err
		}
		p.store = x
		for _, i := range c.q.blocksOf(x) {
			b := &x.Blocks[i]
			take(extent{first: b.First, last: b.Last, bytes: b.Raw, block: i})
		}
		return nil
	}
	if err := c.handle(p); err != nil {
		return err
	}
	x, n, err := p.file.Segment()
	c.q.readTable(n)
	if err != nil {
		return c.broken(p.file, err)
	}
	p.segment = x
	for _, s := range c.q.spansOf(x) {
		for i, b := range x.Blocks[s.From:s.To] {
			take(extent{first: b.First, last: b.Last, bytes: b.Bytes, block: s.From + uint32(i)})
		}
	}
	return nil
}

// handle opens a part.
func (c *Scan) handle(p *part) error {
	if p.handle != nil {
		return nil
	}
	h, err := p.file.Acquire()
	if errors.Is(err, fs.ErrNotExist) {
		c.Lose(p.file, err)
		return fmt.Errorf("%w: %s", data.ErrNotHere, p.file.Path)
	}
	if err == nil {
		p.handle = h
		c.handles++
	}
	return err
}

func (c *Scan) release(p *part) {
	if p.handle != nil {
		_ = p.file.Release()
		p.handle = nil
		c.handles--
	}
}

// releaseAll closes files, so that a scan of thousands has few of them open.
func (c *Scan) releaseAll() {
	for i := range c.parts {
		c.release(&c.parts[i])
	}
}

// Close releases files and memory.
func (c *Scan) Close() {
	c.releaseAll()
	for _, p := range c.parts {
		_ = p.file.Unhold()
	}
	if c.pool != nil {
		c.pool.Put(c.w)
	}
	c.w = nil
}

// End is the last seq of the window.
func (c *Scan) End() uint64 { return c.end }

// Done reports whether there is nothing behind the window.
func (c *Scan) Done() bool { return c.end >= c.until }

// Load makes the next window, which starts behind End, and returns how many bytes of
// records it looked through. Lose was told of a damaged or absent file.
func (c *Scan) Load() (int64, error) {
	start := uint32(c.end + 1 - c.first)
	chosen, size, end := c.choose(start)
	c.q.BytesLooked += int64(size)
	before, w := c.w, c.emptyWindow()
	at := w.carry(before, size)
	c.pool.Put(before)
	c.w = w
	if err := c.readBlocks(chosen, at); err != nil {
		return int64(size), err
	}
	if c.handles > maxHandles {
		c.releaseAll()
	}
	pieces := w.pieces
	w.pieces, w.refs, w.next, w.sorted = w.pieces[:0], w.refs[:0], 0, true
	for _, p := range pieces {
		rest, err := c.collect(p, start, end)
		if err != nil {
			return int64(size), err
		}
		if rest.from < rest.to {
			w.pieces = append(w.pieces, rest) // never overtakes the loop
		}
	}
	c.end = c.first + uint64(end)
	return int64(size), c.order(start, end)
}

// order sorts the window. That a seq stands in two places, or that one is nowhere if
// all are wanted, is damage; of which of several files, nobody can say.
func (c *Scan) order(start, end uint32) error {
	err := c.w.order(start, end)
	if n := uint64(end-start) + 1; err == nil && c.q.sel.All() && c.full() && uint64(len(c.w.refs)) != n {
		err = fmt.Errorf("%w: %d records for %d seqs", format.ErrCorrupt, len(c.w.refs), n)
	}
	if err != nil && len(c.parts) == 1 {
		f := c.parts[0].file
		return c.broken(f, f.Damage(format.HeaderBytes, err))
	}
	if err != nil {
		return fmt.Errorf("the %d files of messages %d to %d: %w", len(c.parts), c.first, c.last, err)
	}
	return nil
}

// full reports whether the files of the scan have every message of the range.
func (c *Scan) full() bool { return c.messages == c.last-c.first+1 }

// choose takes the next blocks off the list: those that the window's first seq
// needs, and as many as fit. It puts them in the order of the files, sums their
// bytes and says where the window ends (relative).
//
// A window loads at least as much as it carries over, so that all carrying
// together costs no more than the reading; but where nothing is carried over, as behind
// a chapter, it ends.
func (c *Scan) choose(start uint32) (chosen []extent, size int, end uint32) {
	carried := c.w.carried()
	budget := max(c.Window, carried)
	n := 0
	for ; n < len(c.blocks); n++ {
		e := c.blocks[n]
		if n+carried > 0 && size+carried >= c.Window && e.first > c.reach ||
			n > 0 && e.first > start && size+int(e.bytes) > budget {
			break
		}
		size += int(e.bytes)
		c.reach = max(c.reach, e.last)
	}
	chosen, c.blocks = c.blocks[:n], c.blocks[n:]
	end = uint32(c.until - c.first)
	if len(c.blocks) > 0 {
		end = c.blocks[0].first - 1
	}
	slices.SortFunc(chosen, func(a, b extent) int {
		return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.block, b.block))
	})
	return chosen, size, end
}

// readBlocks puts the records of blocks into buf from place at on.
func (c *Scan) readBlocks(blocks []extent, at int) error {
	c.later = c.later[:0]
	at, err := c.readRuns(blocks, at, false)
	if err == nil {
		_, err = c.readRuns(c.later, at, true)
	}
	return err
}

// readRuns takes the neighbours of a part together. The last time it waits for blocks
// that other readers are reading.
func (c *Scan) readRuns(blocks []extent, at int, last bool) (int, error) {
	for len(blocks) > 0 {
		n := 1
		for n < len(blocks) && blocks[n].part == blocks[0].part && blocks[n].block == blocks[n-1].block+1 {
			n++
		}
		var err error
		if c.parts[blocks[0].part].store != nil {
			at, err = c.readStored(blocks[:n], at, last)
		} else {
			at, err = c.readPlain(blocks[:n], at)
		}
		if err != nil {
			return at, err
		}
		blocks = blocks[n:]
	}
	return at, nil
}

// readPlain reads neighbouring blocks of a segment by one call.
func (c *Scan) readPlain(run []extent, at int) (int, error) {
	p := &c.parts[run[0].part]
	end := at
	for _, e := range run {
		b := &p.segment.Blocks[e.block]
		next := end + int(b.Bytes)
		c.w.pieces = append(c.w.pieces, piece{from: end, to: next, part: e.part, covered: c.q.sel.PartitionCovered(b.Partition)})
		end = next
	}
	if err := c.handle(p); err != nil {
		return at, err
	}
	c.q.BytesRead += int64(end - at)
	blocks := p.segment.Blocks[run[0].block:][:len(run)]
	return end, c.broken(p.file, p.file.ReadBlocks(p.handle, blocks, c.w.buf[at:end]))
}

// collect notes the wanted records of a piece that lie in the window, and returns
// what is behind it.
func (c *Scan) collect(p piece, start, end uint32) (rest piece, err error) {
	w, sel := c.w, c.q.sel
	before := uint32(0)
	if len(w.refs) > 0 {
		before = uint32(w.refs[len(w.refs)-1] >> 32)
	}
	for p.from < p.to {
		r, _, err := message.Split(w.buf[p.from:p.to])
		if err == nil && (r.Seq() < c.first || r.Seq() > c.last) {
			err = fmt.Errorf("seq %d is none of the file's", r.Seq())
		}
		if err != nil {
			f := c.parts[p.part].file
			return p, c.broken(f, f.Damage(format.HeaderBytes, fmt.Errorf("blocks: %w", err)))
		}
		seq := uint32(r.Seq() - c.first)
		if seq > end {
			break
		}
		if seq >= start && (p.covered || sel.Match(r.Topic())) {
			w.sorted = w.sorted && seq >= before
			before = seq
			w.refs = append(w.refs, uint64(seq)<<32|uint64(p.from/message.Align))
		}
		p.from += message.Stride(len(r))
	}
	return p, nil
}

// Emit appends what is left of the window's records, as far as they fit, and
// returns the last seq that was considered.
func (c *Scan) Emit(out *Output) uint64 {
	w := c.w
	for _, ref := range w.refs[w.next:] {
		b := w.buf[int(uint32(ref))*message.Align:]
		if !out.Add(b[:message.Stride(message.Record(b).Size())]) {
			return c.first + ref>>32 - 1
		}
		w.next++
	}
	return c.end
}
