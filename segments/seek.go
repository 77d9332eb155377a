package segments

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"chorale/message"
	"chorale/segments/format"
)

// SeekTime returns the seq behind which the messages of time t or later lie: the
// newest seq if there is none yet.
func (l *Log) SeekTime(t int64) (after uint64, err error) {
	for {
		end, v := l.End(), l.view.Load()
		i, _ := slices.BinarySearchFunc(v.manifest.Files, t, func(m FileMeta, t int64) int {
			if m.LastTime < t {
				return -1
			}
			return 1
		})
		if i == len(v.files) || v.inMemory(v.manifest.Files[i]) {
			return v.seekTime(t, end), nil
		}
		m := v.manifest.Files[i]
		if t <= m.FirstTime {
			return m.First - 1, nil
		}
		x, files := span{first: m.First, last: m.Last}, v.files[i:i+v.manifest.Layer(i)]
		if j := slices.Index(files, nil); j >= 0 {
			name := v.manifest.Files[i+j].Name()
			var ok bool
			if x, ok = v.keptOf(m.First, t); !ok {
				return 0, fmt.Errorf("%w: %s", ErrNotHere, name)
			}
			files = x.files
		}
		after, err = l.seekTimeIn(x, files, t)
		if !errors.Is(err, errGone) {
			return after, err
		}
	}
}

// keptOf returns the first of the replaced ranges from seq on that ends at time t or
// later, if they are without a gap up to there.
func (v *view) keptOf(seq uint64, t int64) (span, bool) {
	for {
		x, ok := v.keptAt(seq)
		if !ok || x.files[0].meta.LastTime >= t {
			return x, ok
		}
		seq = x.last + 1
	}
}

// seekTime searches the stretches in memory.
func (v *view) seekTime(t int64, end uint64) uint64 {
	for i, s := range v.stretches {
		last := end
		if i+1 < len(v.stretches) {
			last = min(end, v.stretches[i+1].First()-1)
		}
		if s.First() > end {
			break
		}
		if after := s.SeekTime(t, last); after < last {
			return after
		}
	}
	return end
}

// seekTimeIn searches the files of a range, which has messages of time t or later.
func (l *Log) seekTimeIn(x span, files []*file, t int64) (uint64, error) {
	r := &Reader{log: l, pos: x.first - 1, last: x.last}
	if files[0].meta.Kind == KindStore {
		return r.seekLayer(x, files, t)
	}
	c := &scan{r: r, parts: []part{{file: files[0]}}}
	if err := files[0].hold(); err != nil {
		return 0, err
	}
	defer c.close()
	if err := c.handle(&c.parts[0]); err != nil {
		return 0, err
	}
	after, err := files[0].SeekTime(c.parts[0].handle, t)
	return after, r.broken(files[0], err)
}

// seekLayer narrows the place down by the block tables of all stores, and then by the
// blocks in which it may lie: those with most messages first, since they leave the
// others the least.
func (r *Reader) seekLayer(x span, files []*file, t int64) (uint64, error) {
	c := &scan{r: r, first: x.first, last: x.last, until: x.last, budget: r.log.window}
	defer c.close()
	s := timeSeek{t: t, before: x.first - 1, at: x.last}
	for _, f := range files {
		if err := f.hold(); err != nil {
			return 0, err
		}
		c.parts = append(c.parts, part{file: f})
		p := &c.parts[len(c.parts)-1]
		var err error
		if p.store, err = c.storeIndex(p); err != nil {
			return 0, err
		}
		if c.handles > maxHandles {
			c.releaseAll()
		}
		if i, ok := s.table(x.first, p.store); ok {
			c.blocks = append(c.blocks, extent{bytes: p.store.Blocks[i].Count, part: uint32(len(c.parts) - 1), block: i})
		}
	}
	slices.SortStableFunc(c.blocks, func(a, b extent) int { return cmp.Compare(b.bytes, a.bytes) })
	c.w = new(window)
	for _, e := range c.blocks {
		if s.before+1 == s.at {
			break
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

// table looks at the blocks of a store, and returns the one in which times before t
// meet later ones; false if there is none.
func (s *timeSeek) table(first uint64, x *format.StoreIndex) (block uint32, meet bool) {
	i, _ := slices.BinarySearchFunc(x.Blocks, s.t, func(b format.StoreBlock, t int64) int {
		if b.LastTime < t {
			return -1
		}
		return 1
	})
	if i > 0 {
		s.before = max(s.before, first+uint64(x.Blocks[i-1].Last))
	}
	if i == len(x.Blocks) {
		return 0, false
	}
	b := &x.Blocks[i]
	if b.FirstTime >= s.t {
		s.at = min(s.at, first+uint64(b.First))
		return 0, false
	}
	s.before, s.at = max(s.before, first+uint64(b.First)), min(s.at, first+uint64(b.Last))
	return uint32(i), true
}

// block looks at the records of a block.
func (s *timeSeek) block(c *scan, e extent) error {
	p := &c.parts[e.part]
	records, err := c.records(p, e, &storedRun{scan: c, part: p}, []extent{e})
	for err == nil && len(records) > 0 {
		var r message.Record
		if r, records, err = message.Split(records); err != nil {
			return c.r.broken(p.file, p.file.Damage(p.store.Blocks[e.block].Off, err))
		}
		if r.Time() < s.t {
			s.before = max(s.before, r.Seq())
		} else {
			s.at = min(s.at, r.Seq())
		}
	}
	return err
}
