package tip

// sketch tells which topics a full block may hold, so that a reader of a few topics
// in a busy partition passes over most blocks without looking at their entries.
//
// The writer knows nothing of it: the first reader that would have to look at a
// block makes its sketch on the way, for those that come after it and for itself in
// a later recovery. It costs an eighth of the block, where readers ask for it only.
type sketch [sketchBits / 64]uint64

// sketchBits and the two probes of a topic let through about one block in 20 of
// those that hold 900 topics, none of them the wanted one.
const sketchBits = 8192

// probes are the two bits of a topic.
func probes(topic uint32) (a, b uint32) {
	h := uint64(topic) * 0x9e3779b97f4a7c15
	h = (h ^ h>>32) * 0xbf58476d1ce4e5b9
	return uint32(h>>40) % sketchBits, uint32(h>>16) % sketchBits
}

func (s *sketch) may(topic uint32) bool {
	a, b := probes(topic)
	return s[a/64]>>(a%64)&1 != 0 && s[b/64]>>(b%64)&1 != 0
}

// may reports whether a full block may hold one of some topics. Inside the grace.
func (b *block) may(topics []uint32) bool {
	s := b.sketch.Load()
	if s == nil {
		s = new(sketch)
		for _, e := range b.entries[:b.filled] {
			x, y := probes(uint32(e >> 32))
			s[x/64] |= 1 << (x % 64)
			s[y/64] |= 1 << (y % 64)
		}
		b.sketch.Store(s)
	}
	for _, topic := range topics {
		if s.may(topic) {
			return true
		}
	}
	return false
}

const (
	// maxNamed is how many topics a reader looks for by their ids.
	maxNamed = 16
	// sketchEntries is how many entries could be looked at instead of a sketch.
	sketchEntries = 40
)
