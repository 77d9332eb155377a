package tipbench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"chorale/bench/meter"
	"chorale/tip"
	"chorale/topic"
)

// readBytes is how much a reader takes at a time, about what a node sends at once.
const readBytes = 256 << 10

// Run measures all scenarios.
func Run(ctx context.Context, o Options) (*Report, error) {
	list, err := o.scenarios()
	if err != nil {
		return nil, err
	}
	if o.Rounds == 0 {
		o.Rounds = 5
	}
	if o.Rounds < 1 {
		return nil, errors.New("at least one round is needed")
	}
	if o.Step == nil {
		o.Step = func(string, int, int) {}
	}
	report := &Report{Rounds: o.Rounds}
	var g *ring
	for i, s := range list {
		if g == nil || i == 0 || list[i-1].Ring != s.Ring {
			g = nil // before the next takes as much again
			g, err = fill(ctx, s.Ring, func(done, total int64) {
				o.Step(fmt.Sprintf("filling a ring of %d MiB, %d partitions", s.RingBytes>>20, s.Partitions), i, len(list))
			})
			if err != nil {
				return nil, err
			}
		}
		r, err := g.measure(ctx, s, o.Rounds, func(what string) {
			o.Step(fmt.Sprintf("%d partitions, %d bytes, %g wanted, %d readers: %s", g.Partitions, s.MessageBytes, s.Selectivity, s.Readers, what), i, len(list))
		})
		if errors.Is(err, errNoShare) {
			report.Skipped = append(report.Skipped, fmt.Sprintf("scenario %d: %g wanted: %v", i+1, s.Selectivity, err))
			continue
		}
		if err != nil {
			return nil, err
		}
		report.Scenarios = append(report.Scenarios, r)
	}
	return report, nil
}

// measure runs one scenario. In a round two linear passes come first, then the product's
// way, cold: they leave nothing of the recovery in the processor's cache. Behind it
// come the warm ones, each round another of them first, since what was read more often
// stays in the caches the better.
func (g *ring) measure(ctx context.Context, s Scenario, rounds int, note func(string)) (Result, error) {
	r := Result{Scenario: s}
	r.Partitions, r.Topics = g.Partitions, g.Topics
	filters := make([]*topic.Filters, s.Readers)
	var err error
	for i := range filters {
		if filters[i], err = g.choose(s.Selectivity, i); err != nil {
			return r, err
		}
	}
	writes := s.Writer && g.draw != nil
	stop := func() {}
	if writes {
		stop = g.startWriter()
	}
	var p passes
	for n := range rounds {
		if err := ctx.Err(); err != nil {
			stop()
			return r, err
		}
		note(fmt.Sprintf("round %d of %d", n+1, rounds))
		p.round(g, filters, n)
	}
	stop()
	if writes {
		note("appending alone, beside a busy processor, and beside them")
		r.Appended = g.appended(ctx, filters, rounds)
	}
	r.set(p)
	r.Stats = statsOf(g.tip.Stats())
	return r, nil
}

// pass is one recovery by all readers.
type pass struct {
	meter.Cost // CPU is the sum of all readers
	delivered  int
	evicted    int
}

// passes are those of all rounds.
type passes struct{ linear, cold, planned, turns, indexed []pass }

// round adds a pass of each kind.
func (p *passes) round(g *ring, filters []*topic.Filters, n int) {
	p.linear = append(p.linear, g.pass(filters, tip.Linear, false), g.pass(filters, tip.Linear, false))
	p.cold = append(p.cold, g.pass(filters, tip.Planned, false))
	warm := []func(){
		func() { p.planned = append(p.planned, g.pass(filters, tip.Planned, false)) },
		func() { p.indexed = append(p.indexed, g.pass(filters, tip.Indexed, false)) },
	}
	if len(filters) > 1 {
		warm = append(warm, func() { p.turns = append(p.turns, g.pass(filters, tip.Planned, true)) })
	}
	for i := range warm {
		warm[(n+i)%len(warm)]()
	}
}

// pass lets all readers recover at once, or one after the other: then they differ in nothing
// else, since what happens between two of them, such as counting allocations, leaves the
// next one another processor.
func (g *ring) pass(filters []*topic.Filters, method tip.Method, inTurn bool) pass {
	var cpu, delivered, evicted atomic.Int64
	var wg sync.WaitGroup
	p := pass{}
	start := time.Now()
	p.Allocs, p.Bytes = meter.Allocations(func() {
		for i, f := range filters {
			buf := g.buffer(i)
			wg.Go(func() {
				cpu.Add(int64(meter.Thread(func() {
					n, fell := g.recover(f, method, buf, func() {})
					delivered.Add(int64(n))
					evicted.Add(int64(fell))
				})))
			})
			if inTurn {
				wg.Wait()
			}
		}
		wg.Wait()
	})
	p.CPU, p.Wall = time.Duration(cpu.Load()), time.Since(start)
	p.delivered, p.evicted = int(delivered.Load()), int(evicted.Load())
	return p
}

// buffer is the send buffer of a reader, kept as a node keeps its own.
func (g *ring) buffer(reader int) []byte {
	for len(g.buffers) <= reader {
		g.buffers = append(g.buffers, make([]byte, readBytes))
	}
	return g.buffers[reader][:0]
}

// recover reads from the floor to where the head was at the start. One who is
// overtaken goes on at the floor, as if the history had given the rest. It calls sent
// behind each read.
func (g *ring) recover(f *topic.Filters, method tip.Method, buf []byte, sent func()) (delivered, evicted int) {
	head := g.tip.Head()
	r := g.tip.NewReader(topic.NewSelection(g.table, f), g.tip.Floor()-1)
	r.Force(method)
	for {
		_, p, err := r.Read(buf, cap(buf))
		delivered += p.Count
		sent()
		if p.Scanned >= head {
			return delivered, evicted
		}
		if errors.Is(err, tip.ErrEvicted) {
			evicted++
			r.Seek(g.tip.Floor() - 1)
		}
	}
}
