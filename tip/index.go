package tip

import (
	"math"
	"sort"
	"sync/atomic"
)

// block is a stretch of one partition's index. An entry is a topic id in the upper
// half and, in the lower, the distance of the message from base in units.
//
// Readers follow blocks inside the grace only.
type block struct {
	entries []uint64 // its length never changes
	base    uint64   // position of entries[0]
	number  uint64   // of the partition's blocks, without gaps
	// visible is how many entries readers may look at; filled how many there are.
	// filled is the writer's as long as there is no next block.
	//
	//	visible <= filled <= len(entries)
	visible atomic.Uint32
	filled  uint32
	next    atomic.Pointer[block]
	// life is even while the block is in use and odd while it is not, and rises with
	// each change: a cursor that kept the block between two reads compares.
	life atomic.Uint32
	// sketch is nil until a reader makes it; only a block with a next one has one.
	sketch atomic.Pointer[sketch]
	// prev is block number-1; jump is block number&(number-1), so that a block is
	// found in a logarithm of steps from the newest. Both may be gone: whoever
	// follows them has checked the number against the oldest block's.
	prev, jump *block

	// The writer's.
	owner *partition
	link  *block // next in a chunk's list, or in a list of retired or free blocks
	batch uint64 // last batch that added an entry
	// carving is what this is a piece of, or how it was cut into pieces, or nil.
	carving *carving
}

func (b *block) isPiece() bool { return b.carving != nil && b.carving.block != b }

func (b *block) position(i int) uint64 { return b.base + uint64(uint32(b.entries[i])) }

// partition is the index of one topic partition. Idle, it is only this.
type partition struct {
	oldest, newest atomic.Pointer[block]
	blocks         uint64 // blocks ever opened; the writer's
}

// seek returns where the entries at or behind a position start. A nil block means
// that there is none. Inside the grace.
func (p *partition) seek(position uint64) (*block, int) {
	b, oldest := p.newest.Load(), p.oldest.Load()
	if b == nil || oldest == nil || oldest.number > b.number {
		return nil, 0
	}
	if oldest.base >= position { // from the floor on, as most recoveries are
		return oldest, 0
	}
	for b.base > position && b.number > oldest.number {
		if far := b.number & (b.number - 1); far >= oldest.number && b.jump.base > position {
			b = b.jump
		} else {
			b = b.prev
		}
	}
	lo, hi := 0, int(b.visible.Load())
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if b.position(mid) < position {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return b, lo
}

// held is about how many entries of the partition are in the ring; whole is whether nothing
// has left that yet. Else half of the oldest block has, on average.
func (p *partition) held(whole bool) int {
	b, oldest := p.newest.Load(), p.oldest.Load()
	if b == nil || oldest == nil || oldest.number > b.number {
		return 0
	}
	n := int(b.visible.Load())
	if b != oldest {
		n += int(b.number-oldest.number) * len(b.prev.entries)
		if !whole {
			n -= len(oldest.entries) / 2
		}
	}
	return n
}

// live is about how many entries lie at or behind the floor. The writer's.
func (p *partition) live(floor uint64) int {
	b, oldest := p.newest.Load(), p.oldest.Load()
	if b == nil {
		return 0
	}
	n := int(b.filled)
	if b != oldest {
		return int(b.number-oldest.number)*len(b.entries) + n
	}
	return n - sort.Search(n, func(i int) bool { return b.position(i) >= floor })
}

const pageLen = 256

// index is the indexes of all partitions, by their dense ids, and the block pool.
type index struct {
	pages atomic.Pointer[[]*[pageLen]partition]
	pool  pool
	// active is how many partitions have a block.
	active atomic.Int64

	// The writer's: what the batch touched. Batches count from 1, a new block says 0.
	batch   uint64
	touched []*block
}

func (x *index) init(s sizes) { x.batch, x.pool.sizes = 1, s }

// partition returns the index of a partition, or nil if it never had a message.
func (x *index) partition(id uint32) *partition {
	pages := x.pages.Load()
	if pages == nil || int(id/pageLen) >= len(*pages) {
		return nil
	}
	return &(*pages)[id/pageLen][id%pageLen]
}

// add makes the entry of a message in the newest chunk of g.
func (x *index) add(g *ring, id, topic uint32) {
	position := g.position()
	p := x.partition(id)
	if p == nil {
		p = x.grow(id)
	}
	b := p.newest.Load()
	if b == nil || int(b.filled) == len(b.entries) || position-b.base > math.MaxUint32 {
		b = x.open(g, p, b)
	}
	b.entries[b.filled] = uint64(topic)<<32 | (position - b.base)
	b.filled++
	if b.batch != x.batch {
		b.batch = x.batch
		x.touched = append(x.touched, b)
	}
}

func (x *index) grow(id uint32) *partition {
	var pages []*[pageLen]partition
	if old := x.pages.Load(); old != nil {
		pages = *old
	}
	for int(id/pageLen) >= len(pages) {
		// Appending may write behind the length that readers see, never before it.
		pages = append(pages, new([pageLen]partition))
	}
	x.pages.Store(&pages)
	return x.partition(id)
}

// open starts a block behind last, which is nil if the partition is idle.
func (x *index) open(g *ring, p *partition, last *block) *block {
	b := x.pool.take(x.pool.sizes.of(p.live(g.oldest << g.shift)))
	b.owner, b.base, b.filled = p, g.position(), 0
	b.number, b.prev = p.blocks, last
	b.jump = p.jump(b)
	if b.life.Load()%2 != 0 {
		b.life.Add(1)
	}
	b.visible.Store(0)
	b.next.Store(nil)
	b.sketch.Store(nil)
	p.blocks++
	if last == nil {
		x.active.Add(1)
		p.oldest.Store(b)
	} else {
		last.next.Store(b)
	}
	p.newest.Store(b)
	b.link, g.cur.blocks = g.cur.blocks, b
	return b
}

// jump finds block number&(number-1), or nil if it is gone.
func (p *partition) jump(b *block) *block {
	target := b.number & (b.number - 1)
	if b.prev == nil || target < p.oldest.Load().number {
		return nil
	}
	at := b.prev
	for at.number > target {
		at = at.jump
	}
	return at
}

// publish makes the entries of the batch visible.
func (x *index) publish() {
	for _, b := range x.touched {
		b.visible.Store(b.filled)
	}
	clear(x.touched)
	x.touched = x.touched[:0]
	x.batch++
}

// evict gives back the blocks whose messages have all left with chunk c, and moves
// the others to the chunk of their newest message.
func (x *index) evict(g *ring, c *chunk, out **block) {
	b := c.blocks
	c.blocks = nil
	for b != nil {
		link := b.link
		if last := b.position(int(b.filled)-1) >> g.shift; last > c.number {
			to := g.slot(last).Load()
			b.link, to.blocks = to.blocks, b
		} else {
			x.free(b)
			b.link, *out = *out, b
		}
		b = link
	}
}

// free takes a block out of its partition. Those of one chunk come in no order: a
// block's elders are gone, or go now as well.
func (x *index) free(b *block) {
	p := b.owner
	b.owner = nil
	b.life.Add(1)
	oldest := p.oldest.Load()
	if oldest == nil || b.number < oldest.number {
		return
	}
	next := b.next.Load()
	p.oldest.Store(next)
	if next == nil {
		p.newest.Store(nil)
		x.active.Add(-1)
	}
}
