package segments

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"chorale/disk"
	"chorale/message"
	"chorale/segments/format"
	"chorale/topic"
)

// buildLayer builds the stores of some neighbouring ranges, as a node does for a plan, without
// what lies below floors but for the last message, and returns the edit that installs them.
func (s *stream) buildLayer(l *Log, ranges []Range, stores int, storeOf func(id uint32) int) (Edit, error) {
	a, z := ranges[0], ranges[len(ranges)-1]
	edit := Edit{Plan: 7}
	for _, x := range ranges {
		for _, m := range x.Files {
			edit.Remove = append(edit.Remove, m.Hash)
		}
	}
	b, err := l.NewStoreBuilder(a.First, z.Last, a.Files[0].FirstTime, z.Files[0].LastTime, a.Files[0].Level+1, s.chapter, stores, storeOf)
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
			if out = rest; !s.left(rec) && rec.Seq() != z.Last {
				continue
			}
			if err := b.Add(rec); err != nil {
				return edit, err
			}
		}
	}
	add, err := b.Finish(nil)
	return l.Manifest().Replace(edit.Plan, edit.Remove, add), err
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
	s.chapter = []uint32{0, format.ChapterBytes, 1000, 8 << 10}[seed%4]
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

// TestRestoreGoesBack: to a manifest from before a compaction. The layer is read in
// place of the segments, which are gone, until the edit comes again.
func TestRestoreGoesBack(t *testing.T) {
	s := segmented(t, disk.NewMem(1).Mount(), 4, 30, 50, 1)
	before := s.log.Manifest()
	edit := s.compact(t, 1, 3, 3, func(id uint32) int { return int(id % 3) })
	sweep := func() {
		_, err := s.log.BuildOne()
		check(t, err)
		s.expect(t, 0, 1000, "**")
	}
	sweep()
	check(t, s.log.Restore(before, before.End()+1))
	if n := len(s.log.Missing()); n != 2 {
		t.Fatalf("%d files are missing", n)
	}
	sweep()
	s.commit(t, edit)
	for range 2 {
		sweep()
	}
	if st := s.log.Stats(); st.Missing+st.Replaced+st.Stray != 0 || st.Files != 5 {
		t.Fatalf("%+v", st)
	}
}

// TestRangeReaderKeepsItsFiles: what it reads stays, whatever edits do; and it ends
// where it should.
func TestRangeReaderKeepsItsFiles(t *testing.T) {
	m := disk.NewMem(1)
	s := segmented(t, m.Mount(), 5, 30, 50, 1)
	ranges := s.log.Manifest().Ranges()
	first, last := ranges[1].First+3, ranges[3].Last-3
	r, err := s.log.NewRangeReader(first, last)
	check(t, err)
	s.compact(t, 0, 4, 2, func(id uint32) int { return int(id % 2) })
	s.commit(t, Edit{Remove: hashes(s.log.Manifest().Ranges()[:1])})
	_, err = s.log.BuildOne()
	check(t, err)
	var got []uint64
	for at := first - 1; at < last; {
		out, p, err := r.Read(nil, 500)
		check(t, err)
		at = p.Scanned
		got = append(got, s.seqs(t, out, p.Count)...)
	}
	if uint64(len(got)) != last-first+1 || got[0] != first || got[len(got)-1] != last {
		t.Fatalf("%d messages from %d to %d, want %d to %d", len(got), got[0], got[len(got)-1], first, last)
	}
	if out, p, err := r.Read(nil, 500); len(out) > 0 || p.Scanned != last || err != nil {
		t.Fatalf("behind its end: %d bytes, %d, %v", len(out), p.Scanned, err)
	}
	r.Close()
	entries, err := m.List("data")
	check(t, err)
	if len(entries) != 1 {
		t.Fatalf("%v are left", entries)
	}
	if _, err := s.log.NewRangeReader(first, last); !errors.Is(err, ErrExpired) {
		t.Fatal(err)
	}
	if _, err := s.log.NewRangeReader(last+10, uint64(len(s.all))+1); !errors.Is(err, ErrNotHere) {
		t.Fatal(err)
	}
}

// TestOnlyWhatIsWantedIsRead: stores that have nothing wanted are not even opened, and
// what a reader has unpacked the next one finds.
func TestOnlyWhatIsWantedIsRead(t *testing.T) {
	m := disk.NewMem(1)
	s := segmented(t, m.Mount(), 3, 400, 900, 1)
	tops := map[string]int{}
	s.compact(t, 0, 3, 100, func(id uint32) int {
		top, _, _ := strings.Cut(s.table.Name(id), "/")
		if _, ok := tops[top]; !ok {
			tops[top] = len(tops)
		}
		return tops[top]
	})
	read := func(list ...string) (delivered, read int64) {
		r := s.log.NewReader(topic.NewSelection(s.table, filters(t, list...)), 0)
		defer r.Close()
		for at := uint64(0); at < s.log.End(); {
			out, p, err := r.Read(nil, 1<<20)
			check(t, err)
			delivered += int64(len(out))
			at = p.Scanned
		}
		return delivered, r.BytesRead()
	}
	for _, f := range s.log.Manifest().Files {
		if !strings.HasPrefix(f.Ancestor, "x1") {
			check(t, m.Fault("on open "+f.Name()+" fail EMFILE"))
		}
	}
	delivered, cold := read("x1/**")
	if _, warm := read("x1/**"); delivered == 0 || cold == 0 || warm != 0 {
		t.Fatalf("%d bytes delivered, %d read, then %d", delivered, cold, warm)
	}
	m.ClearFaults()
	if delivered, got := read("nothing/**"); delivered+got != 0 {
		t.Fatalf("%d bytes delivered, %d read for nothing", delivered, got)
	}
	_, first := read("a/b1/c1")
	if _, rest := read("a/**"); first == 0 || rest >= 3*first && rest > 300_000 {
		t.Fatalf("%d bytes read for a topic, %d more for its tree", first, rest)
	}
}
