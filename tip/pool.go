package tip

import "sync/atomic"

const (
	// blockEntries is the number of entries of a block.
	blockEntries = 1024
	// pieceEntries is what a partition with few messages in the ring gets instead: a
	// piece of a block, so that 100,000 quiet partitions do not take 8 KiB each.
	pieceEntries = 64
)

// pool is the block pool: it hands out blocks, whole or in pieces, and takes them
// back. The writer's, but for the counters, which count whole blocks.
type pool struct {
	whole, piece int // entries
	free         *block
	carved       *carving // those with a free piece

	inUse, idle, high atomic.Int64
}

// carving is a block that is handed out in pieces.
type carving struct {
	block      *block
	free       *block // pieces
	used       int    // pieces handed out
	prev, next *carving
}

// take hands out a block, or a piece of one.
func (l *pool) take(piece bool) *block {
	if !piece {
		return l.takeWhole()
	}
	c := l.carved
	if c == nil {
		c = l.carve(l.takeWhole())
	}
	b := c.free
	c.free = b.link
	c.used++
	if c.free == nil {
		l.unlink(c)
	}
	return b
}

func (l *pool) takeWhole() *block {
	used := l.inUse.Add(1)
	if used > l.high.Load() {
		l.high.Store(used)
	}
	b := l.free
	if b == nil {
		return &block{entries: make([]uint64, l.whole)}
	}
	l.free = b.link
	l.idle.Add(-1)
	return b
}

// carve cuts a block into pieces. One that was cut before keeps their heads.
func (l *pool) carve(whole *block) *carving {
	c := whole.piece
	if c == nil {
		c = &carving{block: whole}
		whole.piece = c
		pieces := make([]block, l.whole/l.piece)
		for i := range pieces {
			b := &pieces[i]
			b.piece, b.entries = c, whole.entries[i*l.piece:(i+1)*l.piece:(i+1)*l.piece]
			b.link, c.free = c.free, b
		}
	}
	l.link(c)
	return c
}

// give takes back a list of blocks that no reader can see any more.
func (l *pool) give(list *block) {
	for list != nil {
		b := list
		list = b.link
		c := b.piece
		if c == nil || c.block == b {
			l.giveWhole(b)
			continue
		}
		if c.free == nil {
			l.link(c)
		}
		b.link, c.free = c.free, b
		if c.used--; c.used == 0 {
			l.unlink(c)
			l.giveWhole(c.block)
		}
	}
}

func (l *pool) giveWhole(b *block) {
	b.link, l.free = l.free, b
	l.inUse.Add(-1)
	l.idle.Add(1)
}

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

// trimAbove is how many free blocks are always kept.
const trimAbove = 64

func (l *pool) link(c *carving) {
	c.prev, c.next = nil, l.carved
	if c.next != nil {
		c.next.prev = c
	}
	l.carved = c
}

func (l *pool) unlink(c *carving) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		l.carved = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
}
