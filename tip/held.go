package tip

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"

	"chorale/message"
	"chorale/tip/pages"
)

// held is a ring with its partition indexes, and who waits for it.
type held struct {
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
	// retired: another one has taken its place.
	retired atomic.Bool

	// The writer's.
	nextSeq    uint64
	young, old retired // taken out since the last turn, and before it
}

// waiters is who waits for the next Publish.
type waiters struct{ done chan struct{} }

func newHeld(bytes int64) *held {
	t := &held{nextSeq: 1}
	t.ring.init(bytes)
	if mapped := t.ring.reserve(); mapped != nil {
		runtime.AddCleanup(t, pages.Release, mapped)
	}
	t.index.init(defaultSizes)
	t.floorSeq.Store(1)
	return t
}

func (t *held) append(partition uint32, r message.Record) {
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
func (t *held) roll(stride int) {
	size := max(t.ring.chunkBytes, stride)
	for t.ring.full(size) {
		t.evict()
	}
	t.settle()
	t.ring.open(stride, t.nextSeq)
}

// evict takes the oldest chunk out of the tip, with the blocks that end in it.
func (t *held) evict() {
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
func (t *held) settle() {
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

func (t *held) publish() {
	if t.nextSeq-1 == t.headEnd.Load() {
		return
	}
	t.index.publish()
	t.setHead(t.nextSeq-1, t.ring.position())
	t.wake()
}

func (t *held) setHead(seq, position uint64) {
	t.headBegin.Store(seq)
	t.headPosition.Store(position)
	t.headEnd.Store(seq)
}

// head returns the newest visible seq and the position behind its record.
func (t *held) head() (seq, position uint64) {
	for {
		seq = t.headEnd.Load()
		position = t.headPosition.Load()
		if t.headBegin.Load() == seq {
			return seq, position
		}
	}
}

func (t *held) reset(next uint64) {
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

func (t *held) wake() {
	if t.waiters.Load() != nil {
		close(t.waiters.Swap(nil).done)
	}
}

// wait returns when there may be something behind seq after, when ended says so, or
// with the context's error.
func (t *held) wait(ctx context.Context, after uint64, ended func() bool) error {
	w := t.waiters.Load()
	if w == nil {
		w = &waiters{make(chan struct{})}
		if !t.waiters.CompareAndSwap(nil, w) {
			return nil
		}
	}
	// The head moves, and the end comes, before waiters are looked for.
	if t.headEnd.Load() > after || ended() {
		return nil
	}
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *held) stats() Stats {
	side := t.grace.enter()
	defer t.grace.leave(side)
	s := Stats{
		Capacity:   t.ring.capacity,
		Blocks:     int(t.index.pool.inUse.Load()),
		FreeBlocks: int(t.index.pool.idle.Load()),
		HighWater:  int(t.index.pool.high.Load()),
		Partitions: int(t.index.active.Load()),
	}
	s.Floor = t.floorSeq.Load()
	head, position := t.head()
	s.Head = head
	for n := t.floorPosition.Load() >> t.ring.shift; n<<t.ring.shift < position; n++ {
		if c := t.ring.chunk(n); c != nil {
			s.Bytes += int64(t.ring.end(c, position))
		}
	}
	return s
}
