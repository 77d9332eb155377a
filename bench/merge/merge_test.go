package merge

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func make1(rnd *rand.Rand, k, n, run int, gap int) ([][]uint64, uint32) {
	sources := make([][]uint64, k)
	p := uint32(0)
	for done := 0; done < n; {
		s := rnd.IntN(k)
		l := 1
		if run > 1 {
			l = 1 + rnd.IntN(2*run)
		}
		for range l {
			sources[s] = append(sources[s], 7<<32|uint64(p))
			p += uint32(6 + rnd.IntN(2*gap-11))
		}
		done += l
	}
	return sources, p
}

func TestMergers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		k := 1 + rnd.IntN(70)
		src, span := make1(rnd, k, rnd.IntN(5000), 1+rnd.IntN(20), 20)
		src = append(src, nil)
		var want []uint32
		for _, s := range src {
			for _, e := range s {
				want = append(want, uint32(e))
			}
		}
		slices.Sort(want)
		for _, e := range Entrants() {
			m := e.New()
			for range 2 {
				if got := m.Merge(nil, src, span+1); !slices.Equal(got, want) {
					t.Fatalf("%s: %d sources: %d of %d", e.Name, k, len(got), len(want))
				}
			}
		}
	}
}

func BenchmarkMerge(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name      string
		k, n, run int
		gap       int
	}{
		{"k=1", 1, 100000, 1, 220}, {"k=4", 4, 100000, 1, 220}, {"k=10,1%", 10, 15000, 1, 2200}, {"k=64", 64, 100000, 1, 220}, {"k=1024", 1024, 150000, 1, 220}, {"k=1024,dense", 1024, 1000000, 1, 22}, {"k=10000", 10000, 1000000, 1, 220}, {"k=10000,dense", 10000, 1500000, 1, 22}, {"k=64,run50", 64, 100000, 50, 22},
	} {
		src, span := make1(rnd, c.k, c.n, c.run, c.gap)
		n := total(src)
		for _, e := range Entrants() {
			if c.k >= 10000 && e.Name == "container_heap" {
				continue
			}
			b.Run(c.name+"/"+e.Name, func(b *testing.B) {
				m := e.New()
				out := m.Merge(nil, src, span)
				b.ReportAllocs()
				for b.Loop() {
					out = m.Merge(out[:0], src, span)
				}
				b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(n), "ns/msg")
			})
		}
	}
}
