package topic

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// BenchmarkMatch: the cost of a match must not follow the number of filters.
func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf("app/%d/orders/%d/**", i%100, i)
		}
		f, err := ParseFilters(list...)
		if err != nil {
			b.Fatal(err)
		}
		name := fmt.Sprintf("app/%d/orders/%d/created", (n-1)%100, n-1)
		b.Run(fmt.Sprintf("filters=%d", n), func(b *testing.B) {
			for b.Loop() {
				if !f.Match(name) {
					b.Fatal("no match")
				}
			}
		})
	}
}

func BenchmarkIntern(b *testing.B) {
	names := make([][]byte, 1<<17)
	for i := range names {
		names[i] = fmt.Appendf(nil, "app/%d/orders/%d", i%1000, i)
	}
	b.Run("new", func(b *testing.B) {
		for i := 0; b.Loop(); {
			table := NewTable()
			for _, n := range names {
				table.Intern(n)
			}
			i++
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(i)/float64(len(names)), "ns/topic")
		}
	})
	b.Run("known", func(b *testing.B) {
		table := NewTable()
		for _, n := range names {
			table.Intern(n)
		}
		for i := 0; b.Loop(); i++ {
			table.Intern(names[i%len(names)])
		}
	})
}

// BenchmarkLookup looks names up by chance, one after the other and many at a time, in a
// table that is larger than the processor's caches.
func BenchmarkLookup(b *testing.B) {
	const topics, batch = 1 << 20, 5000
	table := NewTable()
	for i := range topics {
		table.Intern(fmt.Appendf(nil, "app/%d/orders/%d", i/1000, i))
	}
	rng := rand.New(rand.NewPCG(1, 1))
	var batches [64][][]byte
	for i := range batches {
		for range batch {
			n := rng.IntN(topics)
			batches[i] = append(batches[i], fmt.Appendf(nil, "app/%d/orders/%d", n/1000, n))
		}
	}
	ids := make([]uint32, batch)
	run := func(look func(names [][]byte)) func(b *testing.B) {
		return func(b *testing.B) {
			i := 0
			for ; b.Loop(); i++ {
				look(batches[i%len(batches)])
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(i)/batch, "ns/name")
		}
	}
	b.Run("one", run(func(names [][]byte) {
		for i, name := range names {
			ids[i], _ = table.Lookup(unsafe.String(unsafe.SliceData(name), len(name)))
		}
	}))
	b.Run("all", run(func(names [][]byte) { table.LookupAll(names, ids) }))
}

// BenchmarkSelect is what a subscription pays before its first message.
func BenchmarkSelect(b *testing.B) {
	table := NewTable()
	for i := range 100_000 {
		table.Intern(fmt.Appendf(nil, "app/%d/c", i))
	}
	for _, filter := range []string{"app/77/**", "app/**"} {
		f, err := ParseFilters(filter)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(filter, func(b *testing.B) {
			for b.Loop() {
				if len(NewSelection(table, f).Partitions()) == 0 {
					b.Fatal("no partition")
				}
			}
		})
	}
}
