package merge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"unsafe"

	"chorale/bench/meter"
	"chorale/tip/pages"
	"chorale/tip/prefetch"
)

// Options of a contest. Zero values mean the defaults.
type Options struct {
	// Sources are the numbers of partition indexes to merge.
	Sources []int
	// Messages is how many entries all sources of one round hold.
	Messages int
	// Density is the wanted part of the ring's messages, above 0 and up to 1.
	Density float64
	// Rounds is how often each merge runs; the median counts.
	Rounds int
	Seed   uint64
	// Step is told what is about to be measured, and how far the contest is.
	Step func(what string, done, total int)
}

func (o *Options) complete() error {
	if len(o.Sources) == 0 {
		o.Sources = []int{1, 4, 16, 64, 256, 1024, 4096, 10_000}
	}
	if o.Messages == 0 {
		o.Messages = 200_000
	}
	if o.Density == 0 {
		o.Density = 0.1
	}
	if o.Rounds == 0 {
		o.Rounds = 5
	}
	if o.Step == nil {
		o.Step = func(string, int, int) {}
	}
	for _, k := range o.Sources {
		if k < 1 || k > o.Messages {
			return fmt.Errorf("%d sources: 1 to as many as messages (%d) are allowed", k, o.Messages)
		}
	}
	if o.Density < 0.0001 || o.Density > 1 || o.Rounds < 1 {
		return errors.New("density must be 0.0001 to 1, rounds at least 1")
	}
	if span := float64(o.Messages) / o.Density * strideUnits; span > math.MaxUint32/2 {
		return fmt.Errorf("%d messages at density %g do not fit a ring: lower the one or raise the other", o.Messages, o.Density)
	}
	return nil
}

// strideUnits is the mean distance of the messages of the ring: 176 bytes, which is
// a payload of 128.
const strideUnits = 22

// Shape is how the sources lie in the ring.
type Shape struct {
	Name string
	// run is the mean number of neighbours of one source; skew draws sources by 1/rank.
	run  int
	skew bool
}

// Interleaved is the hard case: each message from any source.
const Interleaved = "interleaved"

// Shapes are those of the contest.
func Shapes() []Shape {
	return []Shape{
		{Name: Interleaved, run: 1},
		{Name: "skewed", run: 1, skew: true},
		{Name: "runs of 16", run: 16},
		{Name: "runs of 256", run: 256},
	}
}

// sources draws entries; their positions ascend over all sources together.
func (s Shape) sources(o Options, k int) (sources [][]uint64, span uint32) {
	rnd := rand.New(rand.NewPCG(o.Seed, uint64(k)))
	sources = make([][]uint64, k)
	gap := int(strideUnits / o.Density)
	position := uint32(0)
	for n := 0; n < o.Messages; {
		at := rnd.IntN(k)
		if s.skew {
			at = int(math.Pow(float64(k), rnd.Float64())) - 1
		}
		length := 1
		if s.run > 1 {
			length = 1 + rnd.IntN(2*s.run-1)
		}
		for range min(length, o.Messages-n) {
			sources[at] = append(sources[at], uint64(at)<<32|uint64(position))
			position += uint32(strideUnits + rnd.IntN(2*(gap-strideUnits)+1))
			n++
		}
	}
	return sources, position
}

// Run holds the contest.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	r := &Report{Chosen: Chosen, Messages: o.Messages, Density: o.Density, Rounds: o.Rounds}
	entrants, shapes := Entrants(), Shapes()
	total := len(entrants) * len(shapes) * len(o.Sources)
	done := 0
	for _, shape := range shapes {
		for _, k := range o.Sources {
			sources, span := shape.sources(o, k)
			for _, e := range entrants {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				o.Step(fmt.Sprintf("%s, %d sources: %s", shape.Name, k, e.Name), done, total)
				done++
				r.add(shape, e.measure(o, k, sources, span))
			}
			if shape.Name == Interleaved {
				r.Floor = append(r.Floor, floor(o, k, sources, span))
			}
		}
	}
	return r, nil
}

func (e Entrant) measure(o Options, k int, sources [][]uint64, span uint32) Result {
	m := e.New()
	into := m.Merge(nil, sources, span) // what it allocates once is not counted
	costs := make([]meter.Cost, o.Rounds)
	for i := range costs {
		costs[i] = meter.Of(func() { into = m.Merge(into[:0], sources, span) })
	}
	c := meter.Median(costs)
	return Result{Name: e.Name, Sources: k, Nanos: meter.Per(c.CPU, len(into)), Allocs: float64(c.Allocs) / float64(len(into))}
}

// floor compares the chosen merge, copying included, with copying the same records
// from a list that was prepared before: no merge can be faster than that.
func floor(o Options, k int, sources [][]uint64, span uint32) Floor {
	size := int(span)*8 + strideUnits*8
	ring, mapped := pages.Reserve(int64(size)) // as the tip's
	if mapped == nil {
		ring = make([]byte, size)
	} else {
		defer pages.Release(mapped)
	}
	for i := 0; i < len(ring); i += 512 { // memory that was never written costs nothing to read
		ring[i] = 1
	}
	dst := make([]byte, 256<<10)
	m := new(radixed)
	list := m.Merge(nil, sources, span)
	var prepared, merged []meter.Cost
	into := make([]uint32, 0, len(list))
	for range o.Rounds {
		prepared = append(prepared, meter.Of(func() { copyRecords(dst, ring, list) }))
		merged = append(merged, meter.Of(func() {
			into = m.Merge(into[:0], sources, span)
			copyRecords(dst, ring, into)
		}))
	}
	return Floor{
		Sources:  k,
		Prepared: meter.Per(meter.Median(prepared).CPU, len(list)),
		Merged:   meter.Per(meter.Median(merged).CPU, len(list)),
	}
}

// copyRecords copies as the product does: the next records are asked for while the
// last ones are copied.
func copyRecords(dst, ring []byte, list []uint32) {
	const ahead, group, stride = 48, 4, strideUnits * 8
	base := uintptr(unsafe.Pointer(&ring[0]))
	from := func(i int) []uint32 { return list[min(i, len(list)):min(i+group, len(list))] }
	at := 0
	for i := 0; i < len(list); i += group {
		prefetch.Far(base, from(i+ahead), stride)
		prefetch.Records(base, from(i+group), stride)
		for _, p := range list[i:min(i+group, len(list))] {
			if at+stride > len(dst) {
				at = 0
			}
			at += copy(dst[at:], ring[int(p)*8:int(p)*8+stride])
		}
	}
}
