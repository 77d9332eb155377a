package radix

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkSort sorts windows of one ring: positions of many indexes, one index
// after the other.
func BenchmarkSort(b *testing.B) {
	for _, n := range []int{50, 200, 1500, 5000, 8192, 20_000} {
		for _, span := range []uint32{1 << 20, 1 << 24, 1 << 25} {
			b.Run(fmt.Sprintf("n=%d/span=%d", n, span), func(b *testing.B) {
				rnd := rand.New(rand.NewPCG(1, 2))
				list, a := make([]uint32, n), make([]uint32, n)
				for i := range list {
					list[i] = rnd.Uint32N(span/MinDistance) * MinDistance
				}
				var s Sorter
				for b.Loop() {
					copy(a, list)
					s.Sort(a, uint64(span))
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/position")
			})
		}
	}
}
