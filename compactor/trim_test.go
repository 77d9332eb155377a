package compactor

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"chorale/retention"
	"chorale/segments"
	"chorale/topic"

	"pgregory.net/rapid"
)

// TestBuildLeavesOut: plans leave out what lies below their floors, on every node alike, but for
// the last message of a range; what is left is read, counted and found by its time, behind a
// restart too.
func TestBuildLeavesOut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		one, two := newHistory(rt, 1), newHistory(rt, 2)
		var there []bool // by seq - 1
		for _, h := range []*history{one, two} {
			rng := rand.New(rand.NewPCG(seed, 1))
			for range 6 {
				h.segment(rng, 1+rng.IntN(200))
			}
		}
		for range one.all {
			there = append(there, true)
		}
		var floors *retention.Floors
		for range rapid.IntRange(1, 4).Draw(rt, "plans") {
			for range rapid.IntRange(0, 3).Draw(rt, "rises") {
				floors = floors.With(retention.Floor{
					Filter: rapid.SampledFrom([]string{"p0/**", "p1/**", "p0/t0", "p1/t1", "p2/t0", "p2/t1/**"}).Draw(rt, "filter"),
					Seq:    rapid.Uint64Range(1, uint64(len(one.all)+1)).Draw(rt, "floor"),
				})
			}
			ranges := one.log.Manifest().Ranges()
			from := rapid.IntRange(0, len(ranges)-1).Draw(rt, "from")
			n := rapid.IntRange(1, len(ranges)-from).Draw(rt, "ranges")
			stores := rapid.Uint32Range(1, 9).Draw(rt, "stores")
			first, last := ranges[from].First, ranges[from+n-1].Last
			var built [2][]segments.FileMeta
			for i, h := range []*history{one, two} {
				p := h.plan(from, n, stores)
				files, err := Build(context.Background(), h.log, p, floors, func(context.Context, int64) error { return nil })
				h.check(err)
				h.install(h.log.Manifest().Replace(1, p.Inputs, files))
				built[i] = files
			}
			if !slices.Equal(built[0], built[1]) {
				rt.Fatalf("two nodes built %v and %v", built[0], built[1])
			}
			for seq := first; seq <= last; seq++ {
				if r := one.all[seq-1]; seq < floors.Of(one.topics.Name(r.Topic())) && seq != last {
					there[seq-1] = false
				}
			}
			one.holds(there)
			if rapid.Bool().Draw(rt, "a restart") {
				one.restart()
				one.holds(there)
			}
			if len(one.warned) > 0 {
				rt.Fatalf("warned of %v", one.warned)
			}
		}
	})
}

// holds compares what is read, counted and found with the messages that must be there.
func (h *history) holds(there []bool) {
	h.t.Helper()
	for _, filter := range []string{"**", "p1/**", "p0/t0", "*/t1"} {
		for _, after := range []uint64{0, h.log.End() / 2} {
			got, want := h.read(filter, after)
			want = slices.DeleteFunc(want, func(seq uint64) bool { return !there[seq-1] })
			if !slices.Equal(got, want) {
				h.t.Fatalf("%s behind %d: read %v, want %v", filter, after, got, want)
			}
			f, err := topic.ParseFilters(filter)
			h.check(err)
			var told segments.Amount
			h.check(h.log.Explain(topic.NewSelection(h.topics, f), segments.Floors{}, after, h.log.End(), func(p segments.Plan) error {
				told = told.Plus(p.Messages)
				return nil
			}))
			if n := uint64(len(want)); n < told.Low || n > told.High || after == 0 && !told.Exact() {
				h.t.Fatalf("%s behind %d: %d messages, explained as %+v", filter, after, n, told)
			}
		}
	}
	older, next := uint64(0), 0 // the newest that is older, and where the others begin
	for time := int64(0); time <= h.all[len(h.all)-1].Time()+1; time += 7 {
		after, err := h.log.SeekTime(time)
		h.check(err)
		for ; next < len(there) && (!there[next] || h.all[next].Time() < time); next++ {
			if there[next] {
				older = h.all[next].Seq()
			}
		}
		if after < older || next < len(there) && after >= h.all[next].Seq() {
			h.t.Fatalf("time %d is behind %d; %d is older, and the next one is at %d of %d", time, after, older, next, len(there))
		}
	}
}
