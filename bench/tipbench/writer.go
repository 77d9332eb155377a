package tipbench

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"chorale/bench/meter"
	"chorale/tip"
	"chorale/topic"
)

// Appended is what appending costs alone and while the readers recover, again and
// again and as the product does it: medians of the rounds, in each of which one follows
// the other.
type Appended struct {
	Messages int     `json:"messages"` // in each half of a round
	Alone    float64 `json:"alone_cpu_ns_per_message"`
	Nanos    float64 `json:"cpu_ns_per_message"`
	Ratio    float64 `json:"ratio"` // of Nanos to Alone, in one round
	Allocs   float64 `json:"alone_allocs_per_message"`
}

// startWriter appends drawn messages until the returned function is called.
func (g *ring) startWriter() (stop func()) {
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !done.Load() {
			g.write(g.drawn(batchMessages))
		}
	})
	return func() {
		done.Store(true)
		wg.Wait()
	}
}

// drawn are the topics of the next n messages.
func (g *ring) drawn(n int) []uint32 {
	list := make([]uint32, n)
	for i := range list {
		list[i] = g.draw()
	}
	return list
}

func (g *ring) write(topics []uint32) {
	for _, id := range topics {
		g.append(id, g.plain)
	}
}

// appended appends half a ring at a time, the same topics alone and beside readers. They
// are drawn before: to draw one costs as much as to append it, and is not what readers
// must leave alone.
func (g *ring) appended(ctx context.Context, filters []*topic.Filters, rounds int) *Appended {
	a := &Appended{Messages: g.messages / 2}
	// What the ring takes of memory while readers are slow to leave is touched once.
	stop := g.startReaders(filters)
	g.write(g.drawn(a.Messages))
	stop()
	var alone, beside, ratio, allocs []float64
	for n := 0; n < rounds && ctx.Err() == nil; n++ {
		topics := g.drawn(a.Messages)
		one := meter.Of(func() { g.write(topics) })
		stop := g.startReaders(filters)
		two := meter.Thread(func() { g.write(topics) })
		stop()
		alone, beside = append(alone, meter.Per(one.CPU, a.Messages)), append(beside, meter.Per(two, a.Messages))
		ratio = append(ratio, float64(two)/float64(one.CPU))
		allocs = append(allocs, float64(one.Allocs)/float64(a.Messages))
	}
	a.Alone, a.Nanos, a.Ratio, a.Allocs = median(alone), median(beside), median(ratio), median(allocs)
	return a
}

// startReaders lets all readers recover until the returned function is called.
func (g *ring) startReaders(filters []*topic.Filters) (stop func()) {
	var done atomic.Bool
	var wg sync.WaitGroup
	for i, f := range filters {
		buf := g.buffer(i)
		wg.Go(func() {
			for !done.Load() {
				g.recover(f, tip.Planned, buf)
			}
		})
	}
	return func() {
		done.Store(true)
		wg.Wait()
	}
}

func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}
