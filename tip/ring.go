package tip

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync/atomic"

	"chorale/message"
	"chorale/tip/pages"
)

// Positions count units of 8 bytes, from the first record ever appended on, and
// never come back. Position >> shift is the number of the chunk.
const unitBytes = message.Align

const (
	minChunkBytes = 64 << 10
	maxChunkBytes = 4 << 20
	// markEvery is the distance, in messages, of the places in a chunk from which
	// a seq is looked for by walking.
	markEvery = 16
	// minStride is the stride of the smallest record.
	minStride = (message.HeadBytes + 1 + message.Align - 1) &^ (message.Align - 1)
)

// chunk is a piece of the ring: whole records, one behind the other. A record
// larger than the ring's chunks has a chunk of its own.
type chunk struct {
	number uint64
	first  uint64 // seq of the first record
	buf    []byte
	// used is the end of the last record, last its seq. Readers look at them only if
	// the head they loaded lies behind the chunk: they are written before such a head
	// is published.
	used int
	last uint64
	// marks[i] is the unit in buf of record first + i*markEvery, written before that
	// record is published.
	marks []uint32
	// lent says that the garbage collector's heap holds buf.
	lent bool
	// blocks lists the index blocks whose newest message, when they were last looked
	// at, was in this chunk. The writer's.
	blocks *block
}

// stride is the stride of the record at off.
func (c *chunk) stride(off int) int {
	return message.Stride(int(binary.LittleEndian.Uint32(c.buf[off:])))
}

// ring holds the live chunks oldest..newest, number n in slot n % len(slots).
//
//	newest - oldest < len(slots)
//	bytes of live chunks <= max(capacity, bytes of the newest)
type ring struct {
	slots      []atomic.Pointer[chunk]
	capacity   int64
	chunkBytes int
	shift      uint // position >> shift = chunk number

	// The writer's.
	cur    *chunk // newest; nil while the ring is empty
	off    int    // where the next record goes in cur
	next   uint64 // number of the next chunk
	oldest uint64
	live   int64 // bytes of live chunks
	spare  []*chunk
	arena  []byte // reserved memory that no chunk has yet
}

// chunkBytesFor is 1/64 of the ring as a power of two within the limits; small
// rings have at least 8 chunks.
func chunkBytesFor(ringBytes int64) int {
	n := max(minChunkBytes, min(maxChunkBytes, floorPow2(ringBytes/64)))
	return int(min(n, floorPow2(ringBytes/8)))
}

func floorPow2(n int64) int64 { return 1 << (bits.Len64(uint64(n)) - 1) }

func (g *ring) init(ringBytes int64) {
	g.capacity = ringBytes
	g.chunkBytes = chunkBytesFor(ringBytes)
	g.shift = uint(bits.TrailingZeros(uint(g.chunkBytes / unitBytes)))
	g.slots = make([]atomic.Pointer[chunk], ringBytes/int64(g.chunkBytes))
}

// spareChunks are reserved beside the ring, and taken when they are needed: so many may
// wait for readers to leave before the garbage collector's heap must lend more, which
// it clears each time. Readers that share few processors are stopped inside the grace,
// each for as long as all others take their turns.
const spareChunks = 32

// reserve takes the memory of a large ring from the system. The caller releases it.
func (g *ring) reserve() (mapped []byte) {
	if g.chunkBytes >= pages.Large {
		g.arena, mapped = pages.Reserve(int64(len(g.slots)+spareChunks) * int64(g.chunkBytes))
	}
	return mapped
}

func (g *ring) slot(number uint64) *atomic.Pointer[chunk] {
	return &g.slots[number%uint64(len(g.slots))]
}

// chunk returns the chunk with this number, or nil if it is not live. For readers
// inside the grace.
func (g *ring) chunk(number uint64) *chunk {
	if c := g.slot(number).Load(); c != nil && c.number == number {
		return c
	}
	return nil
}

// position is where the next record goes, unless it starts a new chunk. Behind a
// full chunk it is the start of the next one.
func (g *ring) position() uint64 {
	if g.cur == nil {
		return g.next << g.shift
	}
	return g.cur.number<<g.shift + uint64(min(g.off, g.chunkBytes)/unitBytes)
}

// put copies a record behind the last one; the caller has made room.
func (g *ring) put(r message.Record, stride int) {
	c := g.cur
	place := c.buf[g.off : g.off+stride]
	binary.LittleEndian.PutUint64(place[stride-unitBytes:], 0)
	copy(place, r)
	if n := r.Seq() - c.first; n%markEvery == 0 {
		c.marks[n/markEvery] = uint32(g.off / unitBytes)
	}
	g.off += stride
	if g.off >= g.chunkBytes {
		c.used, c.last = g.off, r.Seq()
	}
}

// fits reports whether a record of this stride goes into the newest chunk.
func (g *ring) fits(stride int) bool { return g.cur != nil && g.off+stride <= g.chunkBytes }

// full reports whether the oldest chunk must go before one of size bytes comes.
func (g *ring) full(size int) bool {
	return g.oldest < g.next && g.live+int64(size) > g.capacity
}

// open starts a chunk of at least stride bytes whose first record is seq.
func (g *ring) open(stride int, seq uint64) {
	if g.cur != nil && g.cur.used == 0 { // else put has said it, and readers may look
		g.cur.used, g.cur.last = g.off, seq-1
	}
	c := g.take(max(g.chunkBytes, stride))
	c.number, c.first, c.used, c.blocks = g.next, seq, 0, nil
	g.cur, g.off = c, 0
	g.next++
	g.live += int64(len(c.buf))
	g.slot(c.number).Store(c)
}

func (g *ring) take(size int) *chunk {
	if n := len(g.spare); size == g.chunkBytes && n > 0 {
		c := g.spare[n-1]
		g.spare = g.spare[:n-1]
		return c
	}
	c := &chunk{marks: make([]uint32, size/minStride/markEvery+1)}
	if size == g.chunkBytes && len(g.arena) >= size {
		c.buf, g.arena = g.arena[:size:size], g.arena[size:]
	} else {
		c.buf, c.lent = make([]byte, size), true
	}
	return c
}

// keep takes back a chunk that no reader can see any more. What readers that were
// slow to leave made necessary goes to the garbage collector.
func (g *ring) keep(c *chunk) {
	if !c.lent || len(g.spare) < spareChunks {
		g.spare = append(g.spare, c)
	}
}

// drop takes the oldest chunk out of the ring.
func (g *ring) drop() *chunk {
	slot := g.slot(g.oldest)
	c := slot.Load()
	if c == nil || c.number != g.oldest {
		panic(fmt.Sprintf("tip: slot of chunk %d holds %v", g.oldest, c))
	}
	slot.Store(nil)
	g.oldest++
	g.live -= int64(len(c.buf))
	if c == g.cur {
		g.cur, g.off = nil, 0
	}
	return c
}

// end is the offset in c behind the last record that is visible with this head.
func (g *ring) end(c *chunk, head uint64) int {
	if head>>g.shift > c.number {
		return c.used
	}
	return int(head-c.number<<g.shift) * unitBytes
}
