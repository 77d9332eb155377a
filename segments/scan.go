package segments

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
	"chorale/segments/format"
)

// scan passes the wanted blocks of one range, window by window: of a segment, or of
// the stores of a layer, between which it makes no difference. A window is a range of
// seqs all of whose wanted messages are in memory: it ends before the first seq of the
// first block that was not loaded. What a block holds behind the end of the window is
// carried over to the next.
type scan struct {
	r           *Reader
	first, last uint64 // of the range
	until       uint64 // last, or the last seq that the reader may come to
	parts       []part
	blocks      []extent // still to be loaded, ascending by first
	end         uint64   // last seq of the window; before the first window: of what is passed
	budget      int      // bytes that a window loads, if its first blocks are not more
	handles     int      // that parts have open
	w           *window
	pool        *sync.Pool // that w goes back to
}

// part is a file of the range with wanted messages. It is held.
type part struct {
	file    *file
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
	// windowBytes is the budget of a window: a part of a processor's cache, for the
	// records are picked from it in the order of seqs.
	windowBytes = 4 << 20
	// maxHandles is how many files a scan leaves open from one window to the next.
	maxHandles = 64
	// maxRun is how many stored bytes of a store are read by one call.
	maxRun = 1 << 20
)

// windows are pools of windows for scans of up to 1, 2, 4 .. bytes, so that who wants
// little does not keep the memory of one who wanted much.
var windows [32]sync.Pool

// openScan starts on the files of a range that the reader may want something of. The
// error errGone means that the view is out of date.
func openScan(r *Reader, x span, files []*file) (*scan, error) {
	c := &scan{r: r, first: x.first, last: x.last, until: min(x.last, r.last), budget: r.log.window, end: r.pos}
	for _, f := range files {
		if err := c.add(f); err != nil {
			c.close()
			return nil, err
		}
	}
	total := int64(0)
	for _, e := range c.blocks {
		total += int64(e.bytes)
	}
	if len(c.parts) > 1 || total > int64(c.budget) { // else one window takes them all
		slices.SortFunc(c.blocks, func(a, b extent) int { return cmp.Compare(a.first, b.first) })
	}
	c.pool = &windows[min(len(windows)-1, bits.Len64(uint64(total)))]
	c.w, _ = c.pool.Get().(*window)
	if c.w == nil {
		c.w = new(window)
	}
	c.w.pieces, c.w.refs, c.w.next = c.w.pieces[:0], c.w.refs[:0], 0
	return c, nil
}

// add takes a file into the scan, unless it has nothing that is wanted from the
// position on.
func (c *scan) add(f *file) error {
	if err := f.hold(); err != nil {
		return err
	}
	c.parts = append(c.parts, part{file: f})
	p := &c.parts[len(c.parts)-1]
	before := len(c.blocks)
	start := uint32(c.r.pos + 1 - c.first)
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
		_ = f.unhold()
	}
	return nil
}

// wanted reads the tables of a part and lists the blocks that may hold a wanted
// message, in the order of the file.
func (c *scan) wanted(p *part, take func(extent)) error {
	if p.file.meta.Kind == KindStore {
		x, err := c.storeIndex(p)
		if err != nil {
			return err
		}
		p.store = x
		for _, i := range c.r.wantedOf(x) {
			b := &x.Blocks[i]
			take(extent{first: b.First, last: b.Last, bytes: b.Raw, block: i})
		}
		return nil
	}
	if err := c.handle(p); err != nil {
		return err
	}
	x, n, err := p.file.load()
	c.r.read += n
	if err != nil {
		return c.r.broken(p.file, err)
	}
	p.segment = x
	for _, s := range c.r.spansOf(x) {
		for i, b := range x.Blocks[s.From:s.To] {
			take(extent{first: b.First, last: b.Last, bytes: b.Bytes, block: s.From + uint32(i)})
		}
	}
	return nil
}

// storeIndex returns the tables of a store from the cache.
func (c *scan) storeIndex(p *part) (*format.StoreIndex, error) {
	v, err := c.r.log.cache.Get(blockKey{p.file, indexBlock}, func() (cached, int64, error) {
		if err := c.handle(p); err != nil {
			return cached{}, 0, err
		}
		x, err := p.file.StoreIndex(p.handle)
		if err != nil {
			return cached{}, 0, err
		}
		t := &p.file.Trailer.Tables
		c.r.read += t[format.BlockTable].Bytes + t[format.ListTable].Bytes
		return cached{index: x}, x.MemoryBytes(), nil
	})
	return v.index, c.r.broken(p.file, err)
}

// handle opens a part.
func (c *scan) handle(p *part) error {
	if p.handle != nil {
		return nil
	}
	h, err := p.file.acquire()
	if errors.Is(err, fs.ErrNotExist) {
		c.r.log.lose(p.file, err)
		return fmt.Errorf("%w: %s", ErrNotHere, p.file.Path)
	}
	if err == nil {
		p.handle = h
		c.handles++
	}
	return err
}

func (c *scan) release(p *part) {
	if p.handle != nil {
		_ = p.file.release()
		p.handle = nil
		c.handles--
	}
}

// releaseAll closes files, so that a scan of thousands has few of them open.
func (c *scan) releaseAll() {
	for i := range c.parts {
		c.release(&c.parts[i])
	}
}

func (c *scan) close() {
	c.releaseAll()
	for _, p := range c.parts {
		_ = p.file.unhold()
	}
	if c.pool != nil {
		c.pool.Put(c.w)
	}
	c.w = nil
}

// load makes the next window, which starts at seq start (relative), and returns
// how many bytes of records it looked through.
func (c *scan) load(start uint32) (int64, error) {
	w := c.w
	chosen, size, end := c.choose(start)
	at := w.carry(size, 2*c.budget)
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
func (c *scan) order(start, end uint32) error {
	err := c.w.order(start, end)
	if n := uint64(end-start) + 1; err == nil && c.r.sel.All() && uint64(len(c.w.refs)) != n {
		err = fmt.Errorf("%w: %d records for %d seqs", ErrCorrupt, len(c.w.refs), n)
	}
	if err != nil && len(c.parts) == 1 {
		f := c.parts[0].file
		return c.r.broken(f, f.Damage(format.HeaderBytes, err))
	}
	if err != nil {
		return fmt.Errorf("the %d files of messages %d to %d: %w", len(c.parts), c.first, c.last, err)
	}
	return nil
}

// choose takes the next blocks off the list: those that the window's first seq
// needs, and as many as fit. It puts them in the order of the files, sums their
// bytes and says where the window ends (relative).
//
// A window loads at least as much as it carries over, so that all carrying
// together costs no more than the reading.
func (c *scan) choose(start uint32) (chosen []extent, size int, end uint32) {
	budget := max(c.budget, c.w.carried())
	n := 0
	for n < len(c.blocks) && (n == 0 || c.blocks[n].first <= start || size+int(c.blocks[n].bytes) <= budget) {
		size += int(c.blocks[n].bytes)
		n++
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

// readBlocks puts the records of blocks into buf from place at on. It takes the
// neighbours of a part together.
func (c *scan) readBlocks(blocks []extent, at int) error {
	for len(blocks) > 0 {
		n := 1
		for n < len(blocks) && blocks[n].part == blocks[0].part && blocks[n].block == blocks[n-1].block+1 {
			n++
		}
		var err error
		if c.parts[blocks[0].part].store != nil {
			at, err = c.readStored(blocks[:n], at)
		} else {
			at, err = c.readPlain(blocks[:n], at)
		}
		if err != nil {
			return err
		}
		blocks = blocks[n:]
	}
	return nil
}

// readPlain reads neighbouring blocks of a segment by one call.
func (c *scan) readPlain(run []extent, at int) (int, error) {
	p := &c.parts[run[0].part]
	end := at
	for _, e := range run {
		b := &p.segment.Blocks[e.block]
		next := end + int(b.Bytes)
		c.w.pieces = append(c.w.pieces, piece{from: end, to: next, part: e.part, covered: c.r.sel.PartitionCovered(b.Partition)})
		end = next
	}
	if err := c.handle(p); err != nil {
		return at, err
	}
	c.r.read += int64(end - at)
	blocks := p.segment.Blocks[run[0].block:][:len(run)]
	return end, c.r.broken(p.file, p.file.ReadBlocks(p.handle, blocks, c.w.buf[at:end]))
}

// readStored takes neighbouring blocks of a store from the cache, or reads them, and
// copies the wanted records.
func (c *scan) readStored(run []extent, at int) (int, error) {
	p := &c.parts[run[0].part]
	stored := storedRun{scan: c, part: p}
	for i, e := range run {
		records, err := c.records(p, e, &stored, run[i:])
		if err != nil {
			return at, err
		}
		from := at
		if at, err = c.copyWanted(records, at); err != nil {
			return at, c.r.broken(p.file, p.file.Damage(p.store.Blocks[e.block].Off, err))
		}
		if from < at {
			c.w.pieces = append(c.w.pieces, piece{from: from, to: at, part: e.part, covered: true})
		}
	}
	return at, nil
}

// records returns the records of a block of a store, from the cache or as the first of
// run.
func (c *scan) records(p *part, e extent, stored *storedRun, run []extent) ([]byte, error) {
	v, err := c.r.log.cache.Get(blockKey{p.file, e.block}, func() (cached, int64, error) {
		b, err := stored.block(run)
		if err != nil {
			return cached{}, 0, err
		}
		records, err := p.file.Unpack(p.store.Blocks[e.block], b)
		return cached{records: records}, int64(cap(records)), err
	})
	return v.records, c.r.broken(p.file, err)
}

// copyWanted copies the wanted ones of concatenated records to place at of buf.
func (c *scan) copyWanted(records []byte, at int) (int, error) {
	if c.r.sel.All() {
		return at + copy(c.w.buf[at:], records), nil
	}
	for len(records) > 0 {
		r, rest, err := message.Split(records)
		if err != nil {
			return at, err
		}
		if c.r.sel.Match(r.Topic()) {
			at += copy(c.w.buf[at:], records[:len(records)-len(rest)])
		}
		records = rest
	}
	return at, nil
}

// storedRun is what was read of neighbouring blocks of a store.
type storedRun struct {
	scan     *scan
	part     *part
	from, to uint32 // blocks
}

// block returns the stored bytes of the first block of run. If they are not here yet,
// those of its neighbours are read as well, up to one that is in the cache.
func (s *storedRun) block(run []extent) ([]byte, error) {
	blocks := s.part.store.Blocks
	i := run[0].block
	if i < s.from || i >= s.to {
		n, size := 1, int(blocks[i].Stored)
		for n < len(run) && size+int(blocks[run[n].block].Stored) <= maxRun && !s.scan.r.log.cache.Has(blockKey{s.part.file, run[n].block}) {
			size += int(blocks[run[n].block].Stored)
			n++
		}
		if err := s.scan.handle(s.part); err != nil {
			return nil, err
		}
		w := s.scan.w
		w.stored = slices.Grow(w.stored[:0], size)[:size]
		s.from, s.to = i, i+uint32(n)
		s.scan.r.read += int64(size)
		if err := s.part.file.ReadStored(s.part.handle, blocks[s.from:s.to], w.stored); err != nil {
			return nil, err
		}
	}
	at := blocks[i].Off - blocks[s.from].Off
	return s.scan.w.stored[at : at+int64(blocks[i].Stored)], nil
}

// collect notes the wanted records of a piece that lie in the window, and returns
// what is behind it.
func (c *scan) collect(p piece, start, end uint32) (rest piece, err error) {
	w, sel := c.w, c.r.sel
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
			return p, c.r.broken(f, f.Damage(format.HeaderBytes, fmt.Errorf("blocks: %w", err)))
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

// emit appends what is left of the window's records, as far as they fit, and
// returns the last seq that was considered.
func (c *scan) emit(out *output) uint64 {
	w := c.w
	for _, ref := range w.refs[w.next:] {
		b := w.buf[int(uint32(ref))*message.Align:]
		if !out.add(b[:message.Stride(message.Record(b).Size())]) {
			return c.first + ref>>32 - 1
		}
		w.next++
	}
	return c.end
}
