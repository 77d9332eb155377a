package scan

import (
	"cmp"
	"slices"

	"chorale/message"
	"chorale/segments/data"
	"chorale/segments/format"
	"chorale/segments/manifest"
)

// SeekTime returns the last seq before the first message of time t or later in the
// range from first to last, which has such messages. Errors are those of Open and
// Load.
func (s *Shared) SeekTime(first, last uint64, files []*data.File, t int64) (uint64, error) {
	c := &Scan{Shared: s, q: new(Query), first: first, last: last, until: last}
	defer c.Close()
	for _, f := range files {
		if err := f.Hold(); err != nil {
			return 0, err
		}
		c.parts = append(c.parts, part{file: f})
	}
	p := &c.parts[0]
	if p.file.Meta.Kind == manifest.KindStore {
		return c.seekLayer(t)
	}
	if err := c.handle(p); err != nil {
		return 0, err
	}
	after, err := p.file.SeekTime(p.handle, t)
	return after, c.broken(p.file, err)
}

// seekLayer narrows the place down by the block tables of all stores, and then by the
// blocks in which it may lie: the fullest first, since they leave the others the least.
func (c *Scan) seekLayer(t int64) (uint64, error) {
	s := timeSeek{t: t, before: c.first - 1, at: c.last}
	for i := range c.parts {
		p := &c.parts[i]
		var err error
		if p.store, err = c.storeIndex(p); err != nil {
			return 0, err
		}
		if c.handles > maxHandles {
			c.releaseAll()
		}
		for _, e := range s.table(c.first, p.store) {
			e.part = uint32(i)
			c.blocks = append(c.blocks, e)
		}
	}
	slices.SortStableFunc(c.blocks, func(a, b extent) int { return cmp.Compare(b.bytes, a.bytes) })
	c.w = new(window)
	for _, e := range c.blocks {
		if s.before+1 == s.at {
			break
		}
		if c.first+uint64(e.last) <= s.before || c.first+uint64(e.first) >= s.at {
			continue
		}
		if err := s.block(c, e); err != nil {
			return 0, err
		}
	}
	return s.at - 1, nil
}

// timeSeek narrows down where the messages of time t begin.
type timeSeek struct {
	t      int64
	before uint64 // the last seq that is known to have an earlier time
	at     uint64 // the first seq that is known to have time t or later
}

// table looks at the blocks of a store, and returns those in which times before t meet
// later ones. They are of one chapter.
func (s *timeSeek) table(first uint64, x *format.StoreIndex) (meet []extent) {
	for i, b := range x.Blocks {
		switch {
		case b.LastTime < s.t:
			s.before = max(s.before, first+uint64(b.Last))
		case b.FirstTime >= s.t:
			s.at = min(s.at, first+uint64(b.First))
		default:
			s.before, s.at = max(s.before, first+uint64(b.First)), min(s.at, first+uint64(b.Last))
			meet = append(meet, extent{first: b.First, last: b.Last, bytes: b.Raw, block: uint32(i)})
		}
	}
	return meet
}

// block looks at the records of a block.
func (s *timeSeek) block(c *Scan, e extent) error {
	p := &c.parts[e.part]
	records, _, err := c.records(p, e, &storedRun{scan: c, part: p}, []extent{e}, true)
	for err == nil && len(records) > 0 {
		var r message.Record
		if r, records, err = message.Split(records); err != nil {
			return c.broken(p.file, p.file.Damage(p.store.Blocks[e.block].Off, err))
		}
		if r.Time() < s.t {
			s.before = max(s.before, r.Seq())
		} else {
			s.at = min(s.at, r.Seq())
		}
	}
	return err
}
