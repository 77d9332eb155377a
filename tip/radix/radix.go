// Package radix merges the positions of many partition indexes by sorting a window
// of them: digit by digit, from the lowest. A message costs the same few nanoseconds
// whatever the number of indexes and however they interleave, where a heap or a
// tournament pays for a mispredicted comparison a level.
package radix

const (
	// lowBits need not be sorted: no two positions are as near as that.
	lowBits = 2
	// MinDistance is how far apart positions must be.
	MinDistance = 1 << lowBits

	digitBits = 11
	digit     = 1<<digitBits - 1

	// TwoDigits is the longest window that is sorted by two digits instead of three.
	TwoDigits = 1 << (lowBits + 2*digitBits)

	// short is up to how many positions plain insertion is the fastest.
	short = 48
)

// Sorter holds what sorting needs beside the positions. The zero value is ready.
// For one goroutine.
type Sorter struct {
	counts [3][1 << digitBits]uint32
	half   []uint32
}

// Sort orders positions below span, which are MinDistance apart, ascending. It
// allocates only if there are more of them than ever before.
func (s *Sorter) Sort(a []uint32, span uint64) {
	if len(a) <= short {
		insertion(a)
		return
	}
	if cap(s.half) < len(a) {
		s.half = make([]uint32, len(a)+len(a)/4)
	}
	half := s.half[:len(a)]
	low, middle, high := &s.counts[0], &s.counts[1], &s.counts[2]
	clear(low[:])
	clear(middle[:])
	for _, p := range a {
		low[p>>lowBits&digit]++
		middle[p>>(lowBits+digitBits)&digit]++
	}
	place(half, a, low, lowBits)
	place(a, half, middle, lowBits+digitBits)
	if span <= TwoDigits {
		return
	}
	clear(high[:])
	for _, p := range a {
		high[p>>(lowBits+2*digitBits)]++
	}
	place(half, a, high, lowBits+2*digitBits)
	copy(a, half)
}

// place moves from to to in the order of one digit, whose values were counted.
func place(to, from []uint32, counts *[1 << digitBits]uint32, shift uint) {
	sum := uint32(0)
	for i, n := range counts {
		counts[i] = sum
		sum += n
	}
	for _, p := range from {
		at := &counts[p>>shift&digit]
		to[*at] = p
		*at++
	}
}

func insertion(a []uint32) {
	for i := 1; i < len(a); i++ {
		p, j := a[i], i
		for ; j > 0 && a[j-1] > p; j-- {
			a[j] = a[j-1]
		}
		a[j] = p
	}
}
