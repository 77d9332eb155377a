package segments

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"chorale/disk"
	"chorale/topic"

	"pgregory.net/rapid"
)

// TestWindowsAgainstModel reads files through windows of any size: blocks that are
// carried over, dense and sparse orders, starts in the middle of blocks.
func TestWindowsAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newStream(t, disk.NewMem(1).Mount())
		s.log.scans.Window = rapid.SampledFrom([]int{1, 20_000, 100_000, 1 << 30}).Draw(rt, "window")
		s.log.SetTarget(rapid.Int64Range(1, 1_000_000).Draw(rt, "target"))
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		partitions := rapid.IntRange(1, 40).Draw(rt, "partitions")
		skew := rapid.IntRange(1, 4).Draw(rt, "skew")
		payload := rapid.SampledFrom([]int{50, 1000, 20_000}).Draw(rt, "payload")
		for range rapid.IntRange(1, 8).Draw(rt, "entries") {
			s.entry(rapid.IntRange(1, 200).Draw(rt, "messages"), func() (string, int) {
				p := partitions
				for range skew {
					p = 1 + rng.IntN(p)
				}
				return fmt.Sprintf("p%d/x/t%d", p, rng.IntN(3)), rng.IntN(payload)
			})
			check(t, s.log.CutIfFull())
		}
		s.build(t)
		for range 4 {
			after := rapid.Uint64Range(0, s.log.End()).Draw(rt, "after")
			limit := rapid.IntRange(1, 1<<20).Draw(rt, "limit")
			s.expect(t, after, limit, rapid.SampledFrom([]string{"**", "p1/**", "p2/x/t1", "*/x/t2", "p9/**"}).Draw(rt, "filter"))
		}
	})
}

// TestHundredThousandPartitions: one sequential write, and one partition is read
// without the others.
func TestHundredThousandPartitions(t *testing.T) {
	const partitions = 100_000
	s := newStream(t, disk.NewMem(1).Mount())
	s.log.SetTarget(1)
	rng := rand.New(rand.NewPCG(4, 4))
	for i := range partitions * 3 / 2 { // each once, half of them twice
		s.publish(fmt.Sprintf("p%d/x/t", (i*7919+rng.IntN(2))%partitions), 20)
	}
	s.log.Publish()
	check(t, s.log.CutIfFull())
	s.build(t)
	r := s.log.NewReader(topic.NewSelection(s.table, filters(t, "p77/**")), 0)
	defer r.Close()
	b, p, err := r.Read(nil, 1<<20)
	check(t, err)
	if got, want := s.seqs(t, b, p.Count), s.want(filters(t, "p77/**"), 0); !slices.Equal(got, want) || len(want) == 0 {
		t.Fatalf("%v, want %v", got, want)
	}
	tables := r.scanTables()
	if blocks := r.BytesRead() - tables; blocks > 1000 {
		t.Fatalf("%d bytes of blocks read for %d delivered", blocks, len(b))
	}
	s.expect(t, 0, 1<<22, "**")
}

// scanTables is how many bytes of what a reader read were the block table of its
// only file.
func (r *Reader) scanTables() int64 {
	return r.log.view.Load().files[0].Trailer.Tables[0].Bytes
}

// TestOneBlockForOneMessage: who resumes in the middle of a large partition does
// not read what is before.
func TestOneBlockForOneMessage(t *testing.T) {
	s := newStream(t, disk.NewMem(1).Mount())
	s.log.SetTarget(1)
	s.entry(2000, func() (string, int) { return "a/b/c", 100 })
	check(t, s.log.CutIfFull())
	s.build(t)
	r := s.log.NewReader(topic.NewSelection(s.table, filters(t, "a/**")), 1990)
	defer r.Close()
	b, p, err := r.Read(nil, 1<<20)
	check(t, err)
	if p.Count != 10 || r.BytesRead()-r.scanTables() > 40<<10 {
		t.Fatalf("%d messages in %d bytes, %d bytes read", p.Count, len(b), r.BytesRead())
	}
}

// TestReadStopsAtItsBudget: a reader that finds nothing comes back to its caller
// now and then, and says how far it is.
func TestReadStopsAtItsBudget(t *testing.T) {
	s := newStream(t, disk.NewMem(1).Mount())
	s.log.SetTarget(4 << 20)
	for range 40 {
		s.entry(10, func() (string, int) { return "a", 100_000 })
		check(t, s.log.CutIfFull())
	}
	s.build(t)
	s.entry(1, func() (string, int) { return "b", 1 })
	for _, after := range []uint64{0, s.log.Manifest().End()} {
		r := s.log.NewReader(topic.NewSelection(s.table, filters(t, "a/*/**")), after)
		reads := 0
		for at := after; at < s.log.End(); reads++ {
			_, p, err := r.Read(nil, 1)
			check(t, err)
			if p.Scanned <= at || p.Count > 0 {
				t.Fatalf("from %d to %d with %d messages", at, p.Scanned, p.Count)
			}
			at = p.Scanned
		}
		r.Close()
		if reads > 10 {
			t.Fatalf("%d reads", reads)
		}
	}
}

func TestSeekTimeAgainstModel(t *testing.T) {
	s := newStream(t, disk.NewMem(1).Mount())
	s.log.SetTarget(3000)
	pick := picker(rand.New(rand.NewPCG(1, 2)), 100)
	for i := range 90 {
		if i%7 > 0 { // else with the time of the entry before
			s.time += int64(i % 5)
		}
		s.entry(1+i%5, pick)
		check(t, s.log.CutIfFull())
		if i%20 == 10 {
			s.build(t)
		}
	}
	for at := int64(990); at < s.time+20; at++ {
		want := uint64(0)
		for _, r := range s.all {
			if r.Time() < at {
				want++
			}
		}
		if got, err := s.log.SeekTime(at); err != nil || got != want {
			t.Fatalf("time %d: behind %d (%v), want %d", at, got, err, want)
		}
	}
}
