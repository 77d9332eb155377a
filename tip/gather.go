package tip

import (
	"slices"
	"sync"
	"unsafe"

	"chorale/tip/prefetch"
	"chorale/tip/radix"
)

// cursor is a reader's place in the index of one partition: all entries before
// block.entries[i] were looked at.
type cursor struct {
	partition *partition // nil as long as it never had a message
	block     *block
	entries   *uint64 // of block, the first: to ask ahead
	id        uint32
	i         uint32
	life      uint32 // of block when it was left, even
	took      uint16 // about how many entries the last window had
	covered   bool   // every topic of the partition is wanted
}

// cursorsAhead is how many cursors are asked for before their turn comes.
const cursorsAhead = 8

// maxAskEntries bounds how many of a cursor's entries are asked for.
const maxAskEntries = 64

// stretch is a window of the ring whose wanted positions were gathered and are
// being delivered.
type stretch struct {
	lo, hi uint64   // positions
	seq    uint64   // last seq before hi
	units  []uint32 // where wanted records start, relative to lo, ascending
	list   *list    // the memory of units
	next   int      // index of the next to deliver
	bytes  int      // about the stride of a record

	// While gathering.
	sorted  bool
	entries int
}

// All readers share what sorting needs, and the lists of what is wanted: a reader
// that has nothing to deliver holds neither.
var (
	sorters = sync.Pool{New: func() any { return new(radix.Sorter) }}
	lists   = sync.Pool{New: func() any { return new(list) }}
)

// list is a list of units with its memory.
type list struct{ units []uint32 }

func (s *stretch) pending() bool { return s.next < len(s.units) }

// begin takes a list.
func (s *stretch) begin() {
	if s.list == nil {
		s.list = lists.Get().(*list)
	}
	s.units, s.next, s.sorted, s.entries = s.list.units[:0], 0, true, 0
}

// end gives the list back, with what is left of it.
func (s *stretch) end() {
	if s.list != nil {
		s.list.units = s.units
		lists.Put(s.list)
		s.list, s.units, s.next = nil, nil, 0
	}
}

// aim brings the cursors up to date with the wanted partitions, which only grow,
// and with a reader that was set back.
func (r *Reader) aim() {
	if r.gathered > r.at {
		for i := range r.cursors {
			r.cursors[i].block = nil
		}
	}
	ids := r.sel.Partitions()
	r.named, _ = r.sel.Named(maxNamed)
	if len(ids) == len(r.cursors) {
		return
	}
	old := r.cursors
	r.cursors = make([]cursor, 0, len(ids))
	for _, id := range ids {
		if len(old) > 0 && old[0].id == id {
			r.cursors = append(r.cursors, old[0])
			old = old[1:]
			continue
		}
		p := r.tip.index.partition(id)
		prefetch.Line(unsafe.Pointer(p))
		r.cursors = append(r.cursors, cursor{id: id, partition: p, covered: r.sel.PartitionCovered(id)})
	}
}

// gather lists what is wanted of the next window. The order in which the indexes
// give it does not matter: it is sorted afterwards. It reports false if the window
// began to leave the ring meanwhile, and so may lack something.
func (r *Reader) gather(head, end uint64) bool {
	r.aim()
	g, s := &r.tip.ring, &r.stretch
	s.lo, s.hi, s.seq = r.at, end, head
	if last := r.at + max(uint64(r.plan.window), 1<<g.shift); last < end {
		s.hi = last >> g.shift << g.shift
		c := g.chunk(s.hi >> g.shift)
		if c == nil {
			return false
		}
		s.seq = c.first - 1
	}
	messages := max(int(s.seq-r.scanned), 1)
	s.begin()
	s.bytes = int(s.hi-s.lo) * unitBytes / messages
	for i := -cursorsAhead; i < len(r.cursors); i++ {
		if i+cursorsAhead < len(r.cursors) {
			r.cursors[i+cursorsAhead].ask()
		}
		if i >= 0 {
			r.collect(&r.cursors[i])
		}
	}
	r.gathered = s.hi
	if r.tip.floorPosition.Load() > s.lo {
		s.end()
		return false
	}
	if !s.sorted {
		sorter := sorters.Get().(*radix.Sorter)
		sorter.Sort(s.units, s.hi-s.lo)
		sorters.Put(sorter)
	}
	for n := s.lo >> g.shift; n<<g.shift < s.hi; n++ {
		prefetch.Line(unsafe.Pointer(g.slot(n).Load()))
	}
	r.plan.searched(s.hi-s.lo, messages, s.entries, len(s.units))
	return true
}

// ask prefetches what collect is about to read.
func (c *cursor) ask() {
	if c.block != nil {
		prefetch.Line(unsafe.Pointer(c.block))
		prefetch.Bytes(uintptr(unsafe.Pointer(c.entries))+8*uintptr(c.i), 8*(1+int(c.took)))
	} else if c.partition != nil {
		if b := c.partition.oldest.Load(); b != nil {
			prefetch.Bytes(uintptr(unsafe.Pointer(unsafe.SliceData(b.entries))), 8*maxAskEntries)
		}
	}
}

// collect lists what is wanted of one partition.
func (r *Reader) collect(c *cursor) {
	s := &r.stretch
	if c.partition == nil {
		if c.partition = r.tip.index.partition(c.id); c.partition == nil {
			return
		}
	}
	b, i := c.block, int(c.i)
	if b == nil || b.life.Load() != c.life {
		b, i = c.partition.seek(s.lo)
	}
	had, entries := len(s.units), s.entries
	for b != nil && b.base < s.hi {
		next, n := b.next.Load(), int(b.visible.Load())
		prefetch.Line(unsafe.Pointer(next))
		if i < n && b.position(i) < s.lo {
			b, i = c.partition.seek(s.lo) // a linear pass has overtaken the cursor
			continue
		}
		if next != nil && !c.covered && r.skips(b) {
			i = int(b.filled)
			s.entries += sketchEntries
		} else if i < n {
			i += r.take(b.entries[i:n], b.base, c.covered)
		}
		if next == nil || i < int(b.filled) {
			break
		}
		b, i = next, 0
		prefetch.Bytes(uintptr(unsafe.Pointer(unsafe.SliceData(b.entries))), 8*len(b.entries))
	}
	if 0 < had && had < len(s.units) && s.units[had] < s.units[had-1] {
		s.sorted = false
	}
	c.leave(b, i)
	c.took = uint16(min(s.entries-entries, maxAskEntries))
}

// leave keeps the place until the next window, unless the block went back meanwhile.
func (c *cursor) leave(b *block, i int) {
	c.block = nil
	if b == nil {
		return
	}
	if life := b.life.Load(); life%2 == 0 {
		c.block, c.entries, c.life, c.i = b, unsafe.SliceData(b.entries), life, uint32(i)
	}
}

// take lists what is wanted of entries, as long as they lie in the window, and
// returns how many of them do.
func (r *Reader) take(entries []uint64, base uint64, covered bool) int {
	s := &r.stretch
	units, n, lo, hi := s.units, 0, s.lo, s.hi
	for ; n < len(entries); n++ {
		at := base + uint64(uint32(entries[n]))
		if at >= hi {
			break
		}
		if covered || r.wants(uint32(entries[n]>>32)) {
			units = append(units, uint32(at-lo))
		}
	}
	s.units = units
	s.entries += n
	return n
}

// skips reports whether a block that has a next one is known to hold nothing that
// is wanted. Those of quiet partitions are not worth a sketch.
func (r *Reader) skips(b *block) bool {
	return len(r.named) > 0 && len(b.entries) >= r.tip.index.pool.sizes.busy && int(b.filled) == len(b.entries) && !b.may(r.named)
}

// wants asks for one topic. A selection remembers its answers, but must be asked
// once for each topic of a partition; of a few topics the ids are compared.
func (r *Reader) wants(topic uint32) bool {
	if r.named != nil {
		return slices.Contains(r.named, topic)
	}
	return r.sel.Match(topic)
}
