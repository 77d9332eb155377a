package tip

import "slices"

// sketch tells which topics a full block may hold, so that a reader of a few topics
// in a busy partition passes over most blocks without looking at their entries.
//
// The writer knows nothing of it: the first reader that would have to look at a
// block makes its sketch on the way, for those that come after it and for itself in
// a later recovery. It costs an eighth of the block, and only where readers ask for it.
type sketch []uint64

// sketchBits for each entry of a block, and two probes for each topic, let through
// about one block in 20 of those that hold other topics only.
const sketchBits = 8

// probes are the two bits of a topic, by their numbers.
func (s sketch) probes(topic uint32) (a, b uint32) {
	h := uint64(topic) * 0x9e3779b97f4a7c15
	h = (h ^ h>>32) * 0xbf58476d1ce4e5b9
	mask := uint32(len(s)*64 - 1)
	return uint32(h>>40) & mask, uint32(h>>16) & mask
}

func (s sketch) may(topic uint32) bool {
	a, b := s.probes(topic)
	return s[a/64]>>(a%64)&1 != 0 && s[b/64]>>(b%64)&1 != 0
}

// newSketch is the sketch of a power of two of entries.
func newSketch(entries []uint64) sketch {
	s := make(sketch, max(len(entries)*sketchBits/64, 1))
	for _, e := range entries {
		a, b := s.probes(uint32(e >> 32))
		s[a/64] |= 1 << (a % 64)
		s[b/64] |= 1 << (b % 64)
	}
	return s
}

// may reports whether a full block may hold one of some topics. Inside the grace.
func (b *block) may(topics []uint32) bool {
	s := b.sketch.Load()
	if s == nil {
		made := newSketch(b.entries)
		s = &made
		b.sketch.Store(s)
	}
	return slices.ContainsFunc(topics, s.may)
}

const (
	// maxNamed is how many topics a reader looks for by their ids.
	maxNamed = 16
	// sketchEntries is how many entries could be looked at instead of a sketch.
	sketchEntries = 40
)
