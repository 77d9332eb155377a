package segments

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"chorale/disk"
	"chorale/message"
)

// buildLayer builds the stores of some neighbouring ranges, as a node does for a plan,
// and returns the edit that installs them.
func (s *stream) buildLayer(l *Log, ranges []Range, stores int, storeOf func(id uint32) int) (Edit, error) {
	a, z := ranges[0], ranges[len(ranges)-1]
	edit := Edit{Plan: 7}
	for _, x := range ranges {
		for _, m := range x.Files {
			edit.Remove = append(edit.Remove, m.Hash)
		}
	}
	b, err := l.NewStoreBuilder(a.First, z.Last, a.Files[0].FirstTime, z.Files[0].LastTime, a.Files[0].Level+1, stores, storeOf)
	if err != nil {
		return edit, err
	}
	defer b.Abort()
	r, err := l.NewRangeReader(a.First, z.Last)
	if err != nil {
		return edit, err
	}
	defer r.Close()
	for at := a.First - 1; at < z.Last; {
		out, p, err := r.Read(nil, 1<<16)
		if err != nil {
			return edit, err
		}
		if p.Scanned == at {
			return edit, fmt.Errorf("no progress at %d", at)
		}
		at = p.Scanned
		for len(out) > 0 {
			rec, rest, err := message.Split(out)
			if err != nil {
				return edit, err
			}
			if err := b.Add(rec); err != nil {
				return edit, err
			}
			out = rest
		}
	}
	edit.Add, err = b.Finish(nil)
	return edit, err
}

// compact replaces ranges from..to of the manifest by a layer.
func (s *stream) compact(t testing.TB, from, to, stores int, storeOf func(id uint32) int) Edit {
	t.Helper()
	edit, err := s.buildLayer(s.log, s.log.Manifest().Ranges()[from:to], stores, storeOf)
	check(t, err)
	s.commit(t, edit)
	return edit
}

func (s *stream) commit(t testing.TB, e Edit) {
	t.Helper()
	refused, mismatch := s.log.Install(e)
	check(t, refused)
	check(t, mismatch)
}

// segmented is a stream of n segments of entries.
func segmented(t testing.TB, fsys disk.FS, n, entry, payload int, seed uint64) *stream {
	s := newStream(t, fsys)
	s.log.SetTarget(1)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range n {
		for range 3 {
			s.entry(entry/3+1, picker(rng, payload))
		}
		check(t, s.log.Cut())
	}
	s.build(t)
	return s
}

var someFilters = [][]string{{"**"}, {"a/**"}, {"a"}, {"a-1", "x0/y/*"}, {"a/b1/**", "a/3"}, {"x2/**"}, {"nothing/**"}, {"a/*/c2"}}

func TestLayerOverSegments(t *testing.T) {
	for seed := range uint64(6) {
		s := segmented(t, disk.NewMem(seed).Mount(), 6, 90, 300, seed)
		s.log.scans.Window = 1 << (8 + seed*2)
		rng := rand.New(rand.NewPCG(seed, 2))
		before := s.log.Manifest()
		volumes, err := s.log.Volumes([]Hash{before.Files[1].Hash, before.Files[2].Hash, before.Files[3].Hash})
		check(t, err)
		stores := 1 + rng.IntN(9)
		salt := rng.Uint32()
		edit := s.compact(t, 1, 4, stores, func(id uint32) int { return int((id ^ salt) % uint32(stores)) })
		sums := make([]Hash, len(edit.Add))
		for i, m := range edit.Add {
			sums[i] = m.Hash
		}
		after, err := s.log.Volumes(sums)
		check(t, err)
		if !slices.Equal(volumes, after) {
			t.Fatalf("volumes %v, before %v", after, volumes)
		}
		for range 40 {
			s.expect(t, rng.Uint64N(uint64(len(s.all))+1), 1+rng.IntN(5000), someFilters[rng.IntN(len(someFilters))]...)
		}
		for at := int64(990); at < s.time+10; at++ {
			s.expectSeek(t, at)
		}
		if st := s.log.Stats(); st.Missing+st.Stray+st.Built+st.Replaced != 0 || st.DurableEnd != uint64(len(s.all)) {
			t.Fatalf("%+v", st)
		}
	}
}

// expectSeek compares a seek with the model.
func (s *stream) expectSeek(t testing.TB, at int64) {
	t.Helper()
	got, err := s.log.SeekTime(at)
	check(t, err)
	want := uint64(len(s.all))
	if i := slices.IndexFunc(s.all, func(r message.Record) bool { return r.Time() >= at }); i >= 0 {
		want = uint64(i)
	}
	if got != want {
		t.Fatalf("time %d: behind %d, want %d", at, got, want)
	}
}
