package radix

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSort holds Sort against the standard library, around every limit.
func TestSort(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var s Sorter
	for _, span := range []uint64{200, 1 << 13, TwoDigits, TwoDigits + MinDistance, 1 << 32} {
		for _, n := range []int{0, 1, 2, short, short + 1, 3000, 20_000} {
			seen := map[uint64]bool{span/MinDistance - 1: true} // the last place there is
			for range n {
				seen[rnd.Uint64N(span/MinDistance)] = true
			}
			var a []uint32
			for place := range seen {
				a = append(a, uint32(place*MinDistance+rnd.Uint64N(MinDistance)))
			}
			a = dropNear(a)
			want := slices.Sorted(slices.Values(a))
			if s.Sort(a, span); !slices.Equal(a, want) {
				t.Fatalf("%d positions below %d are not sorted", n, span)
			}
		}
	}
}

// dropNear leaves out what is too near to something else, and keeps the order.
func dropNear(a []uint32) []uint32 {
	sorted := slices.Sorted(slices.Values(a))
	near := map[uint32]bool{}
	for i := 1; i < len(sorted); i++ {
		if sorted[i]-sorted[i-1] < MinDistance {
			near[sorted[i]] = true
		}
	}
	return slices.DeleteFunc(a, func(p uint32) bool { return near[p] })
}

func TestSortAllocatesNothing(t *testing.T) {
	var s Sorter
	a := make([]uint32, 10_000)
	sort := func() {
		for i := range a {
			a[i] = uint32((i * 7919 % len(a)) * MinDistance)
		}
		s.Sort(a, 1<<32)
	}
	sort()
	if n := testing.AllocsPerRun(10, sort); n > 0 {
		t.Errorf("%g allocations", n)
	}
}
