package tip

import "sync/atomic"

// blockEntries is the number of entries of a block.
const blockEntries = 1024

// sizes are the numbers of entries that the pool hands out at a time. Only a
// partition with many messages in the ring takes whole blocks; the others take
// pieces, so that what is not filled yet, and what has left the ring with the block
// still in use, is less than a block for each: 100,000 quiet partitions do not take
// 8 KiB each.
type sizes struct {
	quiet, busy, whole int
	// crowded is how many entries a partition must have in the ring to take whole
	// blocks.
	crowded int
}

var defaultSizes = sizes{quiet: 64, busy: 512, whole: blockEntries, crowded: 32 * blockEntries}

// of is the size of the next block of a partition with that many entries.
func (s sizes) of(live int) int {
	switch {
	case live < s.busy:
		return s.quiet
	case live < s.crowded:
		return s.busy
	}
	return s.whole
}

// pool is the block pool: it hands out blocks, whole or in pieces, and takes them
// back. The writer's, but for the counters, which count whole blocks.
type pool struct {
	sizes sizes
	free  *block
	// Blocks in pieces of each size, one of which is free at least.
	quiet, busy *carving

	inUse, idle, high atomic.Int64
}

// carving is a block that is handed out in pieces.
type carving struct {
	block      *block
	size       int
	free       *block // pieces
	used       int    // pieces handed out
	prev, next *carving
}

// take hands out a block of that many entries, which are one of the sizes.
func (l *pool) take(size int) *block {
	if size == l.sizes.whole {
		return l.takeWhole()
	}
	list := l.list(size)
	if *list == nil {
		link(list, carve(l.takeWhole(), size))
	}
	c := *list
	b := c.free
	c.free = b.link
	c.used++
	if c.free == nil {
		unlink(list, c)
	}
	return b
}

func (l *pool) list(size int) **carving {
	if size == l.sizes.quiet {
		return &l.quiet
	}
	return &l.busy
}

func (l *pool) takeWhole() *block {
	used := l.inUse.Add(1)
	if used > l.high.Load() {
		l.high.Store(used)
	}
	b := l.free
	if b == nil {
		return &block{entries: make([]uint64, l.sizes.whole)}
	}
	l.free = b.link
	l.idle.Add(-1)
	return b
}

// carve cuts a block into pieces. One that was cut before keeps their heads.
func carve(whole *block, size int) *carving {
	c := whole.carving
	if c != nil && c.size == size {
		return c
	}
	c = &carving{block: whole, size: size}
	whole.carving = c
	pieces := make([]block, len(whole.entries)/size)
	for i := range pieces {
		b := &pieces[i]
		b.carving, b.entries = c, whole.entries[i*size:(i+1)*size:(i+1)*size]
		b.link, c.free = c.free, b
	}
	return c
}

// give takes back a list of blocks that no reader can see any more.
func (l *pool) give(given *block) {
	for given != nil {
		b := given
		given = b.link
		if !b.isPiece() {
			l.giveWhole(b)
			continue
		}
		c := b.carving
		list := l.list(c.size)
		if c.free == nil {
			link(list, c)
		}
		b.link, c.free = c.free, b
		if c.used--; c.used == 0 {
			unlink(list, c)
			l.giveWhole(c.block)
		}
	}
}

func (l *pool) giveWhole(b *block) {
	b.link, l.free = l.free, b
	l.inUse.Add(-1)
	l.idle.Add(1)
}

// trimAbove is how many free blocks are always kept.
const trimAbove = 64

// trim leaves some of the free blocks to the garbage collector if there are more
// of them than are in use. Called once a chunk, it lets a burst fade within a few
// rounds of the ring.
func (l *pool) trim() {
	excess := l.idle.Load() - max(l.inUse.Load(), trimAbove)
	for n := excess / 64; n > 0; n-- {
		l.free = l.free.link
		l.idle.Add(-1)
	}
}

func link(list **carving, c *carving) {
	c.prev, c.next = nil, *list
	if c.next != nil {
		c.next.prev = c
	}
	*list = c
}

func unlink(list **carving, c *carving) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		*list = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
}
