package topic

import (
	"fmt"
	"sync/atomic"
)

// entry is one topic. All but next is written before the topic is published.
type entry struct {
	name      string
	partition uint32
	// next is the next topic of the same partition; 0 is none, for ids ascend and
	// so 0 is nobody's next.
	next atomic.Uint32
}

// partition is one topic partition. last is the writer's alone.
type partition struct {
	name        string
	first, last uint32
}

// pageLen balances the first page's size (12 KiB) against the number of pages.
const pageLen = 512

// list is append-only, for one writer and any number of readers. Elements never
// move: a reader's page stays valid.
type list[T any] struct {
	pages atomic.Pointer[[]*[pageLen]T]
	n     atomic.Uint32
}

func (l *list[T]) len() uint32 { return l.n.Load() }

// at is element i without the check of get: for the writer, and for readers that
// hold proof of i < len.
func (l *list[T]) at(i uint32) *T { return &(*l.pages.Load())[i/pageLen][i%pageLen] }

// get is element i of a reader.
func (l *list[T]) get(i uint32) *T {
	if n := l.len(); i >= n {
		panic(fmt.Sprintf("topic: id %d is asked for, %d are interned", i, n))
	}
	return l.at(i)
}

// grow is the place behind the last element; publish makes it the last one.
func (l *list[T]) grow() *T {
	i := l.n.Load()
	if i%pageLen == 0 {
		// Appending may write behind the length that readers see, never before it.
		var pages []*[pageLen]T
		if p := l.pages.Load(); p != nil {
			pages = *p
		}
		pages = append(pages, new([pageLen]T))
		l.pages.Store(&pages)
	}
	return l.at(i)
}

func (l *list[T]) publish() { l.n.Add(1) }

// index is a hash table of ids by open addressing: a slot holds id+1, 0 is empty.
// Nothing is ever removed, so a probe ends at the first empty slot. One writer,
// any number of readers; a reader that meets a full table finds the old slots
// as they were when the new ones replaced them.
type index struct {
	slots atomic.Pointer[[]atomic.Uint32]
}

func (x *index) init() {
	slots := make([]atomic.Uint32, 64)
	x.slots.Store(&slots)
}

// find returns the id under this hash for which same is true.
func (x *index) find(hash uint64, same func(id uint32) bool) (uint32, bool) {
	slots := *x.slots.Load()
	mask := uint64(len(slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		v := slots[i].Load()
		if v == 0 {
			return 0, false
		}
		if same(v - 1) {
			return v - 1, true
		}
	}
}

// insert adds id, which is not there and is the number of those that are. Before
// that it makes room, keeping the slots at most 3/4 full; hashOf tells the hash of
// an id.
func (x *index) insert(hash uint64, id uint32, hashOf func(id uint32) uint64) {
	x.reserve(id, 1, hashOf)
	place(*x.slots.Load(), hash, id)
}

// reserve makes room for some more than the n ids that are there: it replaces the slots
// by twice as many, or more.
func (x *index) reserve(n, more uint32, hashOf func(id uint32) uint64) {
	now := len(*x.slots.Load())
	size := now
	for uint64(size)/4*3 < uint64(n)+uint64(more) {
		size *= 2
	}
	if size == now {
		return
	}
	slots := make([]atomic.Uint32, size)
	for id := range n {
		place(slots, hashOf(id), id)
	}
	x.slots.Store(&slots)
}

func place(slots []atomic.Uint32, hash uint64, id uint32) {
	mask := uint64(len(slots) - 1)
	i := hash & mask
	for slots[i].Load() != 0 {
		i = (i + 1) & mask
	}
	slots[i].Store(id + 1)
}
