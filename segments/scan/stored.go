package scan

import (
	"slices"

	"chorale/message"
	"chorale/segments/format"
)

// storeIndex returns the tables of a store from the cache.
func (c *Scan) storeIndex(p *part) (*format.StoreIndex, error) {
	v, err := c.Cache.Get(key{p.file, indexBlock}, func() (cached, int64, error) {
		if err := c.handle(p); err != nil {
			return cached{}, 0, err
		}
		x, err := p.file.StoreIndex(p.handle)
		if err != nil {
			return cached{}, 0, err
		}
		t := &p.file.Trailer.Tables
		c.q.readTable(t[format.BlockTable].Bytes + t[format.ListTable].Bytes)
		if p.file.Places() == nil {
			p.file.LearnPlaces(c.placesOf(x.Topics()))
		}
		return cached{index: x}, x.MemoryBytes(), nil
	})
	return v.index, c.broken(p.file, err)
}

// readStored takes neighbouring blocks of a store from the cache, or reads them, and
// copies the wanted records. Blocks that others are reading come later, unless there is
// nothing else to do: readers of the same range would else wait for each other at each
// block, all of them for one.
func (c *Scan) readStored(run []extent, at int, last bool) (int, error) {
	p := &c.parts[run[0].part]
	stored := storedRun{scan: c, part: p}
	for i, e := range run {
		records, here, err := c.records(p, e, &stored, run[i:], last)
		if err != nil {
			return at, err
		}
		if !here {
			c.later = append(c.later, e)
			continue
		}
		from := at
		if at, err = c.copyWanted(records, at); err != nil {
			return at, c.broken(p.file, p.file.Damage(p.store.Blocks[e.block].Off, err))
		}
		if from < at {
			c.w.pieces = append(c.w.pieces, piece{from: from, to: at, part: e.part, covered: true})
		}
	}
	return at, nil
}

// records returns the records of a block of a store, from the cache or as the first of
// run; or, unless the caller waits, false if another reader is about to have them.
func (c *Scan) records(p *part, e extent, stored *storedRun, run []extent, wait bool) (records []byte, here bool, err error) {
	load := func() (cached, int64, error) {
		b, err := stored.block(run)
		if err != nil {
			return cached{}, 0, err
		}
		records, err := p.file.Unpack(p.store.Blocks[e.block], b)
		return cached{records: records}, int64(cap(records)), err
	}
	v, here := cached{}, true
	if wait {
		v, err = c.Cache.Get(key{p.file, e.block}, load)
	} else {
		v, here, err = c.Cache.Try(key{p.file, e.block}, load)
	}
	return v.records, here, c.broken(p.file, err)
}

// copyWanted copies the wanted ones of concatenated records to place at of buf.
func (c *Scan) copyWanted(records []byte, at int) (int, error) {
	if c.q.sel.All() {
		return at + copy(c.w.buf[at:], records), nil
	}
	for len(records) > 0 {
		r, rest, err := message.Split(records)
		if err != nil {
			return at, err
		}
		if c.q.sel.Match(r.Topic()) {
			at += copy(c.w.buf[at:], records[:len(records)-len(rest)])
		}
		records = rest
	}
	return at, nil
}

// storedRun is what was read of neighbouring blocks of a store.
type storedRun struct {
	scan     *Scan
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
		for n < len(run) && size+int(blocks[run[n].block].Stored) <= maxRun && !s.scan.Cache.Has(key{s.part.file, run[n].block}) {
			size += int(blocks[run[n].block].Stored)
			n++
		}
		if err := s.scan.handle(s.part); err != nil {
			return nil, err
		}
		w := s.scan.w
		w.stored = slices.Grow(w.stored[:0], size)[:size]
		s.from, s.to = i, i+uint32(n)
		s.scan.q.BytesRead += int64(size)
		if err := s.part.file.ReadStored(s.part.handle, blocks[s.from:s.to], w.stored); err != nil {
			return nil, err
		}
	}
	at := blocks[i].Off - blocks[s.from].Off
	return s.scan.w.stored[at : at+int64(blocks[i].Stored)], nil
}
