package merge

import (
	"math/bits"

	"chorale/tip/radix"
)

// windows walks the sources window by window; at is the next entry of each.
type windows struct{ at []int }

func (w *windows) start(sources [][]uint64) {
	w.at = append(w.at[:0], make([]int, len(sources))...)
}

// unitsFor is how many positions a window has so that it holds about want of n
// positions below span.
func unitsFor(span uint32, n, want int) uint32 {
	units := uint32(1 << 12)
	for units < span && units < 1<<31 && uint64(units)*uint64(n) < uint64(want)*uint64(span) {
		units *= 2
	}
	return units
}

func total(sources [][]uint64) int {
	n := 0
	for _, s := range sources {
		n += len(s)
	}
	return n
}

// collect appends to raw what is below end, less lo.
func (w *windows) collect(raw []uint32, sources [][]uint64, lo, units uint32) []uint32 {
	for i, s := range sources {
		n := w.at[i]
		for ; n < len(s); n++ {
			p := uint32(s[n]) - lo
			if p >= units {
				break
			}
			raw = append(raw, p)
		}
		w.at[i] = n
	}
	return raw
}

// radixed is what the product does.
type radixed struct {
	windows
	sorter radix.Sorter
}

func (r *radixed) Merge(into []uint32, sources [][]uint64, span uint32) []uint32 {
	r.start(sources)
	units := unitsFor(span, total(sources), max(8192, 8*len(sources)))
	for lo := uint64(0); lo < uint64(span); lo += uint64(units) {
		first := len(into)
		into = r.collect(into, sources, uint32(lo), units)
		window := into[first:]
		if len(sources) > 1 {
			r.sorter.Sort(window, uint64(units))
		}
		for i := range window {
			window[i] += uint32(lo)
		}
	}
	return into
}

// bitmap has a bit for each position of a window, and one above for each word that
// is not zero.
type bitmap struct {
	windows
	words, tops []uint64
}

const topSpan = 64 * 64

func (b *bitmap) Merge(into []uint32, sources [][]uint64, span uint32) []uint32 {
	b.start(sources)
	units := min(max(unitsFor(span, total(sources), 16*len(sources)), 1<<19), 1<<22)
	if len(b.tops) == 0 {
		b.words, b.tops = make([]uint64, 1<<22/64), make([]uint64, 1<<22/topSpan)
	}
	for lo := uint64(0); lo < uint64(span); lo += uint64(units) {
		for i, s := range sources {
			b.at[i] += b.set(s[b.at[i]:], uint32(lo), units)
		}
		into = b.drain(into, uint32(lo))
	}
	return into
}

func (b *bitmap) set(entries []uint64, lo, units uint32) int {
	words, tops := b.words, b.tops
	for n, e := range entries {
		p := uint32(e) - lo
		if p >= units {
			return n
		}
		words[p/64] |= 1 << (p % 64)
		tops[p/topSpan] |= 1 << (p / 64 % 64)
	}
	return len(entries)
}

func (b *bitmap) drain(into []uint32, lo uint32) []uint32 {
	for t := range b.tops {
		for top := b.tops[t]; top != 0; top &= top - 1 {
			at := t*64 + bits.TrailingZeros64(top)
			base := lo + uint32(at*64)
			for word := b.words[at]; word != 0; word &= word - 1 {
				into = append(into, base+uint32(bits.TrailingZeros64(word)))
			}
			b.words[at] = 0
		}
		b.tops[t] = 0
	}
	return into
}

// spread counts the positions of small ranges, places each position where its
// range starts, and repairs the order by insertion.
type spread struct {
	windows
	raw    []uint32
	counts []uint32
}

func (s *spread) Merge(into []uint32, sources [][]uint64, span uint32) []uint32 {
	s.start(sources)
	n := total(sources)
	units := unitsFor(span, n, 8192)
	shift := 0
	for uint64(n)<<shift < 2*uint64(span) {
		shift++
	}
	if ranges := int(units>>shift) + 1; len(s.counts) < ranges {
		s.counts = make([]uint32, ranges)
	}
	for lo := uint64(0); lo < uint64(span); lo += uint64(units) {
		s.raw = s.collect(s.raw[:0], sources, uint32(lo), units)
		into = s.place(into, s.counts[:units>>shift+1], shift, uint32(lo))
	}
	return into
}

func (s *spread) place(into []uint32, counts []uint32, shift int, lo uint32) []uint32 {
	clear(counts)
	for _, p := range s.raw {
		counts[p>>shift]++
	}
	sum := uint32(0)
	for i, n := range counts {
		counts[i] = sum
		sum += n
	}
	first := len(into)
	into = append(into, s.raw...)
	out := into[first:]
	for _, p := range s.raw {
		at := &counts[p>>shift]
		out[*at] = p + lo
		*at++
	}
	for i := 1; i < len(out); i++ {
		p, j := out[i], i
		for ; j > 0 && out[j-1] > p; j-- {
			out[j] = out[j-1]
		}
		out[j] = p
	}
	return into
}
