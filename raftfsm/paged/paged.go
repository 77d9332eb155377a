// Package paged is an array that a snapshot captures for next to nothing.
package paged

// PageItems is the number of items of a page: small, because the first change of
// a page after a capture copies it whole.
const PageItems = 256

// Array grows without moving its items and can be captured at the cost of two
// words a page: a captured page is copied before its next change, so a capture is
// immutable and safe for another goroutine. The zero value is empty.
type Array[T any] struct {
	pages []page[T]
	count uint32
	epoch uint64 // pages of an older epoch belong to a capture
}

// page has its epoch beside its items, so that whoever edits items by chance waits for
// memory once.
type page[T any] struct {
	epoch uint64
	items *[PageItems]T
}

// Len is the number of items.
func (p *Array[T]) Len() uint32 { return p.count }

// Grow appends n zero items.
func (p *Array[T]) Grow(n uint32) {
	p.count += n
	for uint64(len(p.pages))*PageItems < uint64(p.count) {
		p.pages = append(p.pages, page[T]{p.epoch, new([PageItems]T)})
	}
}

// At is for reading only.
func (p *Array[T]) At(i uint32) *T { return &p.pages[i/PageItems].items[i%PageItems] }

// Edit is for reading and writing, until the next capture.
func (p *Array[T]) Edit(i uint32) *T {
	g := &p.pages[i/PageItems]
	if g.epoch != p.epoch {
		items := *g.items
		*g = page[T]{p.epoch, &items}
	}
	return &g.items[i%PageItems]
}

// Capture returns the array as it is now; it is never written to.
func (p *Array[T]) Capture() Array[T] {
	p.epoch++
	return Array[T]{pages: append([]page[T](nil), p.pages...), count: p.count}
}
