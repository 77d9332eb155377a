package merge

import "container/heap"

// boxedHeap is what one writes first.
type boxedHeap struct{ cursors cursorHeap }

type boxedCursor struct {
	entries []uint64
	at      int
}

type cursorHeap []*boxedCursor

func (h cursorHeap) Len() int { return len(h) }
func (h cursorHeap) Less(i, j int) bool {
	return uint32(h[i].entries[h[i].at]) < uint32(h[j].entries[h[j].at])
}
func (h cursorHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *cursorHeap) Push(x any)   { *h = append(*h, x.(*boxedCursor)) }
func (h *cursorHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func (b *boxedHeap) Merge(into []uint32, sources [][]uint64, _ uint32) []uint32 {
	b.cursors = b.cursors[:0]
	for _, s := range sources {
		if len(s) > 0 {
			b.cursors = append(b.cursors, &boxedCursor{entries: s})
		}
	}
	heap.Init(&b.cursors)
	for len(b.cursors) > 0 {
		c := b.cursors[0]
		into = append(into, uint32(c.entries[c.at]))
		if c.at++; c.at < len(c.entries) {
			heap.Fix(&b.cursors, 0)
		} else {
			heap.Pop(&b.cursors)
		}
	}
	return into
}

// dHeap is a heap of (position, source) pairs in one array, fan children a node.
type dHeap struct {
	fan   int
	nodes []uint64 // position<<32 | source
	at    []uint32 // next entry of each source
}

// load fills the heap with the first entry of each source.
func (h *dHeap) load(sources [][]uint64) {
	h.nodes, h.at = h.nodes[:0], h.at[:0]
	for i, s := range sources {
		h.at = append(h.at, 1)
		if len(s) > 0 {
			h.nodes = append(h.nodes, s[0]<<32|uint64(i))
		}
	}
	for i := len(h.nodes)/h.fan + 1; i >= 0; i-- {
		if i < len(h.nodes) {
			h.down(i)
		}
	}
}

func (h *dHeap) down(i int) {
	nodes := h.nodes
	node := nodes[i]
	for {
		first := i*h.fan + 1
		if first >= len(nodes) {
			break
		}
		least := first
		for c := first + 1; c < min(first+h.fan, len(nodes)); c++ {
			if nodes[c] < nodes[least] {
				least = c
			}
		}
		if nodes[least] >= node {
			break
		}
		nodes[i] = nodes[least]
		i = least
	}
	nodes[i] = node
}

// drop removes the root.
func (h *dHeap) drop() {
	last := len(h.nodes) - 1
	h.nodes[0] = h.nodes[last]
	h.nodes = h.nodes[:last]
	if last > 0 {
		h.down(0)
	}
}

func (h *dHeap) Merge(into []uint32, sources [][]uint64, _ uint32) []uint32 {
	h.load(sources)
	for len(h.nodes) > 0 {
		node := h.nodes[0]
		into = append(into, uint32(node>>32))
		i := uint32(node)
		if s := sources[i]; int(h.at[i]) < len(s) {
			h.nodes[0] = s[h.at[i]]<<32 | uint64(i)
			h.at[i]++
			h.down(0)
		} else {
			h.drop()
		}
	}
	return into
}

// gallop copies from the least source as long as it stays below the second least.
type gallop struct{ heap dHeap }

func (g *gallop) Merge(into []uint32, sources [][]uint64, _ uint32) []uint32 {
	h := &g.heap
	h.fan = 4
	h.load(sources)
	for len(h.nodes) > 0 {
		node := h.nodes[0]
		into = append(into, uint32(node>>32))
		second := ^uint64(0)
		for c := 1; c < min(1+h.fan, len(h.nodes)); c++ {
			second = min(second, h.nodes[c])
		}
		i, bound := uint32(node), uint32(second>>32)
		s := sources[i][h.at[i]:]
		n := runBelow(s, bound)
		for _, e := range s[:n] {
			into = append(into, uint32(e))
		}
		h.at[i] += uint32(n)
		if n < len(s) {
			h.nodes[0] = s[n]<<32 | uint64(i)
			h.at[i]++
			h.down(0)
		} else {
			h.drop()
		}
	}
	return into
}

// runBelow is how many entries lie below bound: by doubling steps, then by halves.
func runBelow(s []uint64, bound uint32) int {
	if len(s) == 0 || uint32(s[0]) >= bound {
		return 0
	}
	lo, step := 0, 1 // s[lo] < bound
	for lo+step < len(s) && uint32(s[lo+step]) < bound {
		lo += step
		step *= 2
	}
	hi := min(lo+step, len(s)) // s[hi] >= bound, if there is one
	for lo+1 < hi {
		if mid := (lo + hi) / 2; uint32(s[mid]) < bound {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}
