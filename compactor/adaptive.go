package compactor

import (
	"cmp"
	"math"
	"slices"
)

// bundle is a growing store: topics that will lie together.
type bundle struct {
	readers    float64 // topics, and levels passed on the way up
	bytes      float64
	head, tail int32 // chain of topics through grouping.next
	sibling    int32 // next bundle that waits at the same node
}

// closeness are the shares of the price that nodes below the root may spend; see
// DESIGN.md. 1 keeps relatives together, small values leave topics free to meet
// their equals.
var closeness = [...]float64{1, 0.1, 0.01}

// precision is how far below the budget a split may stay: one part in this many.
const precision = 500

// Adaptive splits the tree into at most budget stores, budget >= 1.
func Adaptive(t *Tree, budget int) Split {
	if budget >= len(t.Topics) {
		return PerTopic(t)
	}
	var best Split
	bestWaste := math.Inf(1)
	g := newGrouping(t)
	price := 1e6
	for _, c := range closeness {
		var s Split
		s, price = g.search(budget, c, price)
		topics, subtrees := Look(t, s, WholeStores)
		if waste := topics.SumWaste + subtrees.SumWaste; waste < bestWaste {
			best, bestWaste = s, waste
		}
	}
	return best
}

// grouping holds the memory that the many tries of a search share.
type grouping struct {
	tree    *Tree
	least   float64 // bytes of the smallest topic: what a merge costs at least, a reader
	next    []int32 // topic → next topic of its bundle, -1
	waiting []int32 // node → first bundle waiting there, -1
	bundles []bundle
	closed  []bundle
	meet    []bundle // those that meet at the node at hand
	lws     partition
}

func newGrouping(t *Tree) *grouping {
	g := &grouping{
		tree: t, least: math.Inf(1),
		next: make([]int32, len(t.Topics)), waiting: make([]int32, len(t.parent)),
	}
	for _, v := range t.Topics {
		g.least = min(g.least, float64(v.Bytes))
	}
	return g
}

// search finds the lowest price of a store at which at most budget stores remain,
// starting near a price. The number of stores falls about as a power of the price:
// so it gallops, then interpolates, between logarithms. Every third step halves,
// which bounds the number of steps where the power law is far off.
func (g *grouping) search(budget int, closeness, near float64) (Split, float64) {
	var low, high probe // low.stores > budget >= high.stores, once set
	var found Split
	at, step := math.Log(near), 0.5
	for tries := 0; tries < 80; tries++ {
		p := probe{at, g.group(math.Exp(at), closeness)}
		if p.stores > budget {
			low = p
		} else {
			high, found = p, g.split()
		}
		switch {
		case p.stores <= budget && p.stores >= budget-budget/precision:
			return found, math.Exp(at)
		case high.stores == 0:
			at, step = low.logPrice+step, step*2
		case low.stores == 0:
			at, step = high.logPrice-step, step*2
		case high.logPrice-low.logPrice < 1e-9:
			return found, math.Exp(high.logPrice)
		default:
			at = between(low, high, budget, tries%3 == 0)
		}
	}
	return found, math.Exp(high.logPrice)
}

// probe is what one price gave.
type probe struct {
	logPrice float64
	stores   int
}

func between(low, high probe, budget int, halve bool) float64 {
	share := 0.5
	if !halve {
		top, bottom := math.Log(float64(low.stores)), math.Log(float64(high.stores))
		share = (top - math.Log(float64(budget)-float64(budget)/(2*precision))) / (top - bottom)
	}
	return low.logPrice + (high.logPrice-low.logPrice)*min(max(share, 0.02), 0.98)
}

// group builds the bundles for one price and returns how many there are.
func (g *grouping) group(price, closeness float64) int {
	t := g.tree
	g.bundles, g.closed = g.bundles[:0], g.closed[:0]
	for i := range g.next {
		g.next[i] = -1
	}
	for i := range g.waiting {
		g.waiting[i] = -1
	}
	for node := len(t.parent) - 1; node >= 0; node-- {
		g.gather(int32(node))
		if node == 0 {
			g.closed = append(g.closed, g.lws.solve(g.meet, price, g.next)...)
			break
		}
		if len(g.meet) > 1 {
			g.meet = g.lws.solve(g.meet, price*closeness, g.next)
		}
		g.rise(t.parent[node], price)
	}
	return len(g.closed)
}

// gather collects what meets at a node: the bundles of its children and the topic
// that ends there.
func (g *grouping) gather(node int32) {
	g.meet = g.meet[:0]
	for b := g.waiting[node]; b >= 0; b = g.bundles[b].sibling {
		g.meet = append(g.meet, g.bundles[b])
	}
	if topic := g.tree.topic[node]; topic >= 0 {
		g.meet = append(g.meet, bundle{
			readers: 1, bytes: float64(g.tree.Topics[topic].Bytes), head: topic, tail: topic,
		})
	}
}

// rise moves the bundles that met to the parent; those that can join nobody below
// the price stay as they are.
func (g *grouping) rise(parent int32, price float64) {
	for _, b := range g.meet {
		b.readers++
		if b.bytes+float64(b.readers*g.least) > price {
			g.closed = append(g.closed, b)
			continue
		}
		b.sibling = g.waiting[parent]
		g.waiting[parent] = int32(len(g.bundles))
		g.bundles = append(g.bundles, b)
	}
}

// split numbers the stores in the order of their first topic.
func (g *grouping) split() Split {
	s := Split{Stores: len(g.closed), StoreOf: make([]int32, len(g.tree.Topics))}
	for i, b := range g.closed {
		for topic := b.head; topic >= 0; topic = g.next[topic] {
			s.StoreOf[topic] = int32(i)
		}
	}
	return s.renumbered()
}

func (s Split) renumbered() Split {
	number := make([]int32, s.Stores)
	for i := range number {
		number[i] = -1
	}
	used := int32(0)
	for i, store := range s.StoreOf {
		if number[store] < 0 {
			number[store] = used
			used++
		}
		s.StoreOf[i] = number[store]
	}
	return s
}

// partition solves the least-weight partition of bundles: into consecutive groups
// in the order of bytes a reader, where a group costs the price of a store plus,
// for every reader, the bytes of the others. For single topics no other grouping is
// better (of two groups the one with fewer readers must hold the larger topics,
// otherwise swapping two of them helps); for bundles the order is a good one. The array of costs is Monge, so the
// best start of the group that ends at j never moves back, and a queue of
// candidates with the place from which each is best suffices (Hirschberg and
// Larmore, "The least weight subsequence problem", 1987).
type partition struct {
	readers, bytes, own, best []float64 // prefix sums, and cost of the first j bundles
	from                      []int32
	queue                     []candidate
	out                       []bundle
	price                     float64
}

type candidate struct{ start, since int32 }

// solve merges the bundles of each group, linking their topics through next, and
// returns the groups in the memory of in.
func (p *partition) solve(in []bundle, price float64, next []int32) []bundle {
	if len(in) < 2 {
		return in
	}
	slices.SortFunc(in, byBytesPerReader)
	p.prepare(in, price)
	n := int32(len(in))
	p.queue = append(p.queue[:0], candidate{0, 1})
	first := 0
	for j := int32(1); j <= n; j++ {
		for first+1 < len(p.queue) && p.queue[first+1].since <= j {
			first++
		}
		p.from[j] = p.queue[first].start
		p.best[j] = p.cost(p.from[j], j)
		if j < n {
			p.offer(j, n, first)
		}
	}
	return p.merge(in, next)
}

func byBytesPerReader(a, b bundle) int {
	x, y := float64(a.bytes*b.readers), float64(b.bytes*a.readers)
	if x != y {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(a.head, b.head)
}

func (p *partition) prepare(in []bundle, price float64) {
	n := len(in) + 1
	p.price = price
	p.readers = append(p.readers[:0], make([]float64, n)...)
	p.bytes = append(p.bytes[:0], make([]float64, n)...)
	p.own = append(p.own[:0], make([]float64, n)...)
	p.best = append(p.best[:0], make([]float64, n)...)
	p.from = append(p.from[:0], make([]int32, n)...)
	for i, b := range in {
		p.readers[i+1] = p.readers[i] + b.readers
		p.bytes[i+1] = p.bytes[i] + b.bytes
		p.own[i+1] = p.own[i] + float64(b.readers*b.bytes)
	}
}

// cost of the first j bundles if the last group is (start, j]. The conversions
// forbid fused multiply-add, which would make the split depend on the processor.
func (p *partition) cost(start, j int32) float64 {
	product := float64((p.readers[j] - p.readers[start]) * (p.bytes[j] - p.bytes[start]))
	return p.best[start] + p.price + product - (p.own[j] - p.own[start])
}

// offer enters j as a candidate start for groups that end behind j.
func (p *partition) offer(j, n int32, first int) {
	for len(p.queue) > first+1 {
		last := p.queue[len(p.queue)-1]
		since := max(last.since, j+1)
		if p.cost(j, since) > p.cost(last.start, since) {
			break
		}
		p.queue = p.queue[:len(p.queue)-1]
	}
	last := p.queue[len(p.queue)-1]
	lo, hi := max(last.since, j+1), n+1
	for lo < hi {
		middle := (lo + hi) / 2
		if p.cost(j, middle) <= p.cost(last.start, middle) {
			hi = middle
		} else {
			lo = middle + 1
		}
	}
	if lo <= n {
		p.queue = append(p.queue, candidate{j, lo})
	}
}

func (p *partition) merge(in []bundle, next []int32) []bundle {
	p.out = p.out[:0]
	for end := int32(len(in)); end > 0; {
		start := p.from[end]
		b := in[start]
		for _, other := range in[start+1 : end] {
			next[b.tail] = other.head
			b.tail = other.tail
			b.readers += other.readers
			b.bytes += other.bytes
		}
		p.out = append(p.out, b)
		end = start
	}
	return in[:copy(in, p.out)]
}
