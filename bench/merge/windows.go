package merge

import "chorale/tip/window"

// spans walks the sources window by window: collect calls take with what each
// source has below the end of the window.
type spans struct{ at []int }

func (w *spans) start(sources [][]uint64) {
	w.at = append(w.at[:0], make([]int, len(sources))...)
}

// windowUnits is how many positions a window has so that it holds about want of n
// positions below span.
func windowUnits(span uint32, n, want int) uint32 {
	units := uint32(1 << 12)
	for units < span && uint64(units)*uint64(n) < uint64(want)*uint64(span) {
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

// windowed is the product's merge.
type windowed struct {
	spans
	bits window.Window
}

func (w *windowed) Merge(into []uint32, sources [][]uint64, span uint32) []uint32 {
	w.start(sources)
	units := min(max(windowUnits(span, total(sources), 16*len(sources)), 1<<19), 1<<22)
	w.bits.Grow(int(units))
	for lo := uint32(0); lo < span; lo += units {
		for i, s := range sources {
			w.at[i] += w.bits.SetAll(s[w.at[i]:], -lo, units)
		}
		first := len(into)
		into = w.bits.Drain(into, int(units))
		for i := range into[first:] {
			into[first+i] += lo
		}
	}
	return into
}

// radix sorts a window's positions by their lower and then their upper 11 bits.
type radix struct {
	spans
	raw, half  []uint32
	low, upper [1 << 11]uint32
}

func (r *radix) Merge(into []uint32, sources [][]uint64, span uint32) []uint32 {
	r.start(sources)
	units := min(windowUnits(span, total(sources), max(8192, 16*len(sources))), 1<<22)
	for lo := uint32(0); lo < span; lo += units {
		raw := r.raw[:0]
		for i, s := range sources {
			n := r.at[i]
			for ; n < len(s); n++ {
				p := uint32(s[n]) - lo
				if p >= units {
					break
				}
				raw = append(raw, p)
				r.low[p%(1<<11)]++
				r.upper[p>>11]++
			}
			r.at[i] = n
		}
		r.raw = raw
		into = r.sort(into, lo)
	}
	return into
}

func (r *radix) sort(into []uint32, lo uint32) []uint32 {
	n := len(r.raw)
	if cap(r.half) < n {
		r.half = make([]uint32, n+n/4)
	}
	half := r.half[:n]
	first := len(into)
	into = append(into, half...)
	out := into[first:]
	sumUp(&r.low)
	sumUp(&r.upper)
	for _, p := range r.raw {
		at := &r.low[p%(1<<11)]
		half[*at] = p
		*at++
	}
	for _, p := range half {
		at := &r.upper[p>>11&(1<<11-1)]
		out[*at] = p + lo
		*at++
	}
	clear(r.low[:])
	clear(r.upper[:])
	return into
}

func sumUp(counts *[1 << 11]uint32) {
	sum := uint32(0)
	for i, n := range counts {
		counts[i] = sum
		sum += n
	}
}

// spread counts the positions of small ranges, places each position where its
// range starts, and repairs the order by insertion.
type spread struct {
	spans
	raw    []uint32
	counts []uint32
}

func (s *spread) Merge(into []uint32, sources [][]uint64, span uint32) []uint32 {
	s.start(sources)
	n := total(sources)
	units := windowUnits(span, n, max(4096, 16*len(sources)))
	shift := 0
	for uint64(n)<<shift < 2*uint64(span) {
		shift++
	}
	ranges := int(units>>shift) + 1
	if len(s.counts) < ranges {
		s.counts = make([]uint32, ranges)
	}
	counts := s.counts[:ranges]
	for lo := uint32(0); lo < span; lo += units {
		raw := s.raw[:0]
		for i, src := range sources {
			n := s.at[i]
			for ; n < len(src); n++ {
				p := uint32(src[n]) - lo
				if p >= units {
					break
				}
				raw = append(raw, p)
				counts[p>>shift]++
			}
			s.at[i] = n
		}
		s.raw = raw
		into = s.place(into, counts, shift, lo)
	}
	return into
}

func (s *spread) place(into []uint32, counts []uint32, shift int, lo uint32) []uint32 {
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
	clear(counts)
	return into
}
