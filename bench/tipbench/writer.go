package tipbench

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"chorale/bench/meter"
	"chorale/tip"
	"chorale/topic"
)

// Appended is what appending costs alone, beside as many goroutines that only compute,
// and while the readers recover, again and again and as the product does it: medians of
// the rounds.
type Appended struct {
	Messages int     `json:"messages"` // in each third of a round
	Alone    float64 `json:"alone_cpu_ns_per_message"`
	Busy     float64 `json:"beside_computing_cpu_ns_per_message"`
	Nanos    float64 `json:"cpu_ns_per_message"`
	Ratio    float64 `json:"ratio"` // of Nanos to Alone, in one round
	// RatioLow and RatioHigh are the quartiles of Ratio: what the machine's other users
	// make of it.
	RatioLow  float64 `json:"ratio_lower_quartile"`
	RatioHigh float64 `json:"ratio_upper_quartile"`
	Allocs    float64 `json:"alone_allocs_per_message"`
}

// startWriter appends drawn messages until the returned function is called.
func (g *ring) startWriter() (stop func()) {
	return start(1, func(int) func() {
		return func() { g.write(g.drawn(batchMessages)) }
	})
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

// appendedRounds is how many rounds of appending there are for each one of the rest: they
// are short, so that each of their ways meets the same neighbours on the machine.
const appendedRounds = 4

// appended appends a quarter of the ring at a time, the same topics in each way, each round
// another way first. They are drawn before: to draw one costs as much as to append it, and
// is not what readers must leave alone.
func (g *ring) appended(ctx context.Context, filters []*topic.Filters, rounds int) *Appended {
	a := &Appended{Messages: g.messages / 4}
	g.warm(filters)
	var alone, busy, beside, ratio, allocs []float64
	for n := 0; n < rounds*appendedRounds && ctx.Err() == nil; n++ {
		topics := g.drawn(a.Messages)
		write := func() { g.write(topics) }
		ways := []func(){
			func() {
				c := meter.Of(write)
				alone = append(alone, meter.Per(c.CPU, a.Messages))
				allocs = append(allocs, float64(c.Allocs)/float64(a.Messages))
			},
			func() {
				stop := startComputing(len(filters))
				busy = append(busy, meter.Per(meter.Thread(write), a.Messages))
				stop()
			},
			func() {
				stop := g.startReaders(filters, runtime.Gosched)
				beside = append(beside, meter.Per(meter.Thread(write), a.Messages))
				stop()
			},
		}
		for i := range ways {
			ways[(n+i)%len(ways)]()
		}
		ratio = append(ratio, beside[n]/alone[n])
	}
	a.Alone, a.Busy, a.Nanos = quantile(alone, 0.5), quantile(busy, 0.5), quantile(beside, 0.5)
	a.RatioLow, a.Ratio, a.RatioHigh = quantile(ratio, 0.25), quantile(ratio, 0.5), quantile(ratio, 0.75)
	a.Allocs = quantile(allocs, 0.5)
	return a
}

// warmRounds is how often warm appends: enough for the ring to have taken all memory that
// it ever takes.
const warmRounds = 4

// warm takes the memory that the ring needs while readers are slow to leave, once: the
// system hands out each page at its first touch, and takes milliseconds to clear one.
// These readers never let others run, so they are stopped in the middle of the ring.
func (g *ring) warm(filters []*topic.Filters) {
	for range warmRounds {
		stop := g.startReaders(filters, func() {})
		g.write(g.drawn(g.messages / 2))
		stop()
	}
}

// startReaders lets all readers recover until the returned function is called. Behind each
// read they call sent: a node's readers wait there for the connection, and others run.
func (g *ring) startReaders(filters []*topic.Filters, sent func()) (stop func()) {
	return start(len(filters), func(i int) func() {
		buf := g.buffer(i)
		return func() { g.recover(filters[i], tip.Planned, buf, sent) }
	})
}

// startComputing is startReaders with work that needs no memory, and takes about as long
// between two stops.
func startComputing(n int) (stop func()) {
	var sum atomic.Uint64 // so that the work is not left out
	return start(n, func(i int) func() {
		x := uint64(i)
		return func() {
			for range 1 << 15 {
				x = x*6364136223846793005 + 1
			}
			sum.Add(x)
			runtime.Gosched()
		}
	})
}

// start repeats the work of n goroutines until the returned function is called.
func start(n int, work func(i int) func()) (stop func()) {
	var done atomic.Bool
	var wg sync.WaitGroup
	for i := range n {
		again := work(i)
		wg.Go(func() {
			for !done.Load() {
				again()
			}
		})
	}
	return func() {
		done.Store(true)
		wg.Wait()
	}
}

// quantile is 0 of an empty list.
func quantile(list []float64, q float64) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[int(q*float64(len(sorted)))]
}
