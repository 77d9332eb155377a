// Package tip holds the newest part of the stream in memory: a ring of records,
// for each topic partition an index of where its messages lie, and readers that
// are woken. One goroutine writes and waits for nobody; readers take no lock and
// hold back nothing.
package tip

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"chorale/message"
)

// ErrEvicted is returned by a reader whose next message has left the ring: it
// goes on in the history, and may come back to the tip later.
var ErrEvicted = errors.New("the position has left the tip")

// MinBytes and MaxBytes bound the ring.
const (
	MinBytes = 4 << 10
	MaxBytes = 1 << 40
)

// Tip is the ring with its partition indexes. One goroutine writes (Append,
// Publish, Reset); any number read.
type Tip struct {
	ring  ring
	index index
	grace grace

	// The head: the seq before and after the position, so that a reader that finds
	// both alike has a position that belongs to the seq.
	headBegin, headPosition, headEnd atomic.Uint64
	// The floor. Its position moves before anything is taken out, so that a reader
	// that missed something finds the floor behind its place.
	floorPosition, floorSeq atomic.Uint64

	waiters atomic.Pointer[waiters]

	// The writer's.
	nextSeq    uint64
	young, old retired // taken out since the last turn, and before it
}

// waiters is who waits for the next Publish.
type waiters struct{ done chan struct{} }

// New makes a tip whose ring holds that many bytes of records, MinBytes to
// MaxBytes. Memory is taken as the ring fills for the first time. The first
// message to be appended has seq 1, unless Reset says otherwise.
func New(bytes int64) *Tip {
	if bytes < MinBytes || bytes > MaxBytes {
		panic(fmt.Sprintf("tip: a ring of %d bytes; %d to %d are allowed", bytes, MinBytes, int64(MaxBytes)))
	}
	t := &Tip{nextSeq: 1}
	t.ring.init(bytes)
	if mapped := t.ring.reserve(); mapped != nil {
		runtime.AddCleanup(t, release, mapped)
	}
	t.index.init(defaultSizes)
	t.floorSeq.Store(1)
	return t
}

// Append copies a stamped record behind the newest one. Its seq is exactly one
// more than the last, or the first one after New or Reset. Readers see it after
// Publish.
func (t *Tip) Append(partition uint32, r message.Record) {
	if r.Seq() != t.nextSeq {
		panic(fmt.Sprintf("tip: seq %d is appended, %d is next", r.Seq(), t.nextSeq))
	}
	stride := message.Stride(len(r))
	if !t.ring.fits(stride) {
		t.roll(stride)
	}
	t.index.add(&t.ring, partition, r.Topic())
	t.ring.put(r, stride)
	t.nextSeq++
}

// roll starts the next chunk and evicts what has no room beside it.
func (t *Tip) roll(stride int) {
	size := max(t.ring.chunkBytes, stride)
	for t.ring.full(size) {
		t.evict()
	}
	t.settle()
	t.ring.open(stride, t.nextSeq)
}

// evict takes the oldest chunk out of the tip, with the blocks that end in it.
func (t *Tip) evict() {
	number := t.ring.oldest
	seq := t.nextSeq
	if number+1 < t.ring.next {
		seq = t.ring.slot(number + 1).Load().first
	}
	t.floorPosition.Store((number + 1) << t.ring.shift)
	t.floorSeq.Store(seq)
	c := t.ring.drop()
	t.index.evict(&t.ring, c, &t.young.blocks)
	if len(c.buf) == t.ring.chunkBytes {
		t.young.chunks = append(t.young.chunks, c)
	}
}

// settle makes what no reader can see any more ready for use.
func (t *Tip) settle() {
	for range 2 {
		if !t.grace.turn() {
			break
		}
		t.index.pool.give(t.old.blocks)
		for _, c := range t.old.chunks {
			t.ring.keep(c)
		}
		clear(t.old.chunks)
		t.old, t.young = t.young, retired{chunks: t.old.chunks[:0]}
	}
	t.index.pool.trim()
}

// Publish makes everything appended visible and wakes who waits.
func (t *Tip) Publish() {
	if t.nextSeq-1 == t.Head() {
		return
	}
	t.index.publish()
	t.setHead(t.nextSeq-1, t.ring.position())
	t.wake()
}

func (t *Tip) setHead(seq, position uint64) {
	t.headBegin.Store(seq)
	t.headPosition.Store(position)
	t.headEnd.Store(seq)
}

// head returns the newest visible seq and the position behind its record.
func (t *Tip) head() (seq, position uint64) {
	for {
		seq = t.headEnd.Load()
		position = t.headPosition.Load()
		if t.headBegin.Load() == seq {
			return seq, position
		}
	}
}

// Reset empties the tip; the next message to be appended has seq next.
func (t *Tip) Reset(next uint64) {
	for t.ring.oldest < t.ring.next {
		t.evict()
	}
	t.settle()
	// A place behind all that were handed out: no reader is at the new head by chance.
	t.ring.next++
	t.ring.oldest++
	t.floorPosition.Store(t.ring.position())
	t.floorSeq.Store(next)
	t.nextSeq = next
	t.index.publish()
	t.setHead(next-1, t.ring.position())
	t.wake()
}

// Floor is the oldest seq held; Head+1 if nothing is held. Any goroutine.
func (t *Tip) Floor() uint64 { return t.floorSeq.Load() }

// Head is the newest visible seq; 0 before the first. Any goroutine.
func (t *Tip) Head() uint64 { return t.headEnd.Load() }

func (t *Tip) wake() {
	if t.waiters.Load() != nil {
		close(t.waiters.Swap(nil).done)
	}
}

// Wait returns nil once Head() > after, or the context's error. Any goroutine.
func (t *Tip) Wait(ctx context.Context, after uint64) error {
	for t.Head() <= after {
		w := t.waiters.Load()
		if w == nil {
			w = &waiters{make(chan struct{})}
			if !t.waiters.CompareAndSwap(nil, w) {
				continue
			}
		}
		// Publish moves the head before it looks for waiters.
		if t.Head() > after {
			return nil
		}
		select {
		case <-w.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Stats is the state of ring and pool.
type Stats struct {
	Floor, Head        uint64
	Bytes, Capacity    int64
	Blocks, FreeBlocks int // of the pool, of 1024 entries of 8 bytes each
	HighWater          int // most blocks ever in use
	Partitions         int // partitions with at least one message in the ring
}

// Stats may be called by any goroutine.
func (t *Tip) Stats() Stats {
	side := t.grace.enter()
	defer t.grace.leave(side)
	s := Stats{
		Capacity:   t.ring.capacity,
		Blocks:     int(t.index.pool.inUse.Load()),
		FreeBlocks: int(t.index.pool.idle.Load()),
		HighWater:  int(t.index.pool.high.Load()),
		Partitions: int(t.index.active.Load()),
	}
	s.Floor = t.Floor()
	head, position := t.head()
	s.Head = head
	for n := t.floorPosition.Load() >> t.ring.shift; n<<t.ring.shift < position; n++ {
		if c := t.ring.chunk(n); c != nil {
			s.Bytes += int64(t.ring.end(c, position))
		}
	}
	return s
}
