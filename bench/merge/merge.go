// Package merge is the contest of the n-way merges: every way to bring the entries
// of many partition indexes into one order that was tried, behind one interface.
// What won lives in the product (tip/radix); the others live here only, so that
// anyone can repeat the contest.
package merge

// Merger brings sorted sources into one order. Implementations keep what they need
// between calls, so that a steady run allocates nothing. For one goroutine.
type Merger interface {
	// Merge appends the lower halves of all entries to into, ascending. The entries
	// of a source ascend in their lower halves, which are below span and differ
	// between all entries.
	Merge(into []uint32, sources [][]uint64, span uint32) []uint32
}

// Entrant is a merge of the contest.
type Entrant struct {
	Name string
	// Idea is one line for the reader of the results.
	Idea string
	New  func() Merger
}

// Entrants are all merges of the contest.
func Entrants() []Entrant {
	return []Entrant{
		{Boxed, "the standard library's heap of boxed cursors", func() Merger { return new(boxedHeap) }},
		{"binary_heap", "unboxed binary heap, the root replaced in place", func() Merger { return &dHeap{fan: 2} }},
		{"quaternary_heap", "the same with four children: half the levels", func() Merger { return &dHeap{fan: 4} }},
		{"loser_tree", "a tournament: one comparison a level", func() Merger { return new(loserTree) }},
		{"gallop", "4-ary heap, but whole runs while one source is ahead", func() Merger { return new(gallop) }},
		{"pairwise", "lists merged two by two, in rounds", func() Merger { return new(pairwise) }},
		{"spread", "a window of positions placed by their expected rank, then repaired", func() Merger { return new(spread) }},
		{"bitmap", "a bit for each position of a window, then the bits in order", func() Merger { return new(bitmap) }},
		{Chosen, "a window of positions sorted by two or three 11-bit digits", func() Merger { return new(radixed) }},
	}
}

// Chosen is the entrant that is the product's.
const Chosen = "radix"

// Boxed is the standard library's, against which the others are measured.
const Boxed = "container_heap"
