package raftfsm

// pageItems is the number of items of a page: small, because the first change of
// a page after a capture copies it whole.
const pageItems = 256

// paged is an array that grows without moving its items and that can be captured
// at the cost of one pointer a page: a captured page is copied before its next
// change, so a capture is immutable and safe for another goroutine.
type paged[T any] struct {
	pages []*page[T]
	count uint32
	epoch uint64 // pages of an older epoch belong to a capture
}

type page[T any] struct {
	epoch uint64
	items [pageItems]T
}

// grow appends n zero items.
func (p *paged[T]) grow(n uint32) {
	p.count += n
	for uint64(len(p.pages))*pageItems < uint64(p.count) {
		p.pages = append(p.pages, &page[T]{epoch: p.epoch})
	}
}

// at is for reading only.
func (p *paged[T]) at(i uint32) *T { return &p.pages[i/pageItems].items[i%pageItems] }

// edit is for reading and writing, until the next capture.
func (p *paged[T]) edit(i uint32) *T {
	g := p.pages[i/pageItems]
	if g.epoch != p.epoch {
		g = &page[T]{epoch: p.epoch, items: g.items}
		p.pages[i/pageItems] = g
	}
	return &g.items[i%pageItems]
}

// capture returns the array as it is now; it is never written to.
func (p *paged[T]) capture() paged[T] {
	p.epoch++
	return paged[T]{pages: append([]*page[T](nil), p.pages...), count: p.count}
}
