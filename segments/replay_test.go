package segments

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"chorale/disk"
)

// replaying is a history whose node has started again without a snapshot: built are the
// files that it had built before, for which no edit has come yet; what was published comes
// again by replay. replayed is to be closed at the end of the log.
func replaying(t *testing.T) (s *stream, built []FileMeta, replay func(), replayed chan struct{}) {
	fsys := disk.NewMem(1)
	s = newStream(t, fsys.Mount())
	s.log.SetTarget(5000)
	pick := picker(rand.New(rand.NewPCG(1, 2)), 100)
	var ends []int
	for len(built) < 6 {
		s.entry(5, pick)
		ends = append(ends, len(s.all))
		check(t, s.log.CutIfFull())
		_, err := s.log.BuildOne()
		check(t, err)
		built = s.log.Proposals()
	}
	replayed = make(chan struct{})
	l, err := Open(Options{FS: fsys.Mount(), Dir: "data", Topics: s.table, PendingStretches: 2, Replayed: replayed, Warn: func(err error) { s.warns = append(s.warns, err) }})
	check(t, err)
	s.log = l
	s.log.SetTarget(5000)
	return s, built, func() {
		at := 0
		for _, end := range ends {
			for _, r := range s.all[at:end] {
				s.log.Append(s.table.Partition(r.Topic()), r)
			}
			at = end
			s.log.Publish()
			check(t, s.log.CutIfFull())
		}
	}, replayed
}

func (s *stream) builds(t *testing.T, want bool) {
	t.Helper()
	if got, err := s.log.BuildOne(); err != nil || got != want {
		t.Fatalf("built one: %v, %v; want %v", got, err, want)
	}
}

func (s *stream) installs(t *testing.T, metas ...FileMeta) {
	t.Helper()
	refused, mismatch := s.log.Install(Edit{Add: metas})
	check(t, refused)
	check(t, mismatch)
}

// TestFormerFilesWaitForTheirEdits: what a node built in a former life is not built again
// while it replays its log, however many stretches that are, and each edit finds its file.
func TestFormerFilesWaitForTheirEdits(t *testing.T) {
	s, built, replay, replayed := replaying(t)
	replay()
	s.builds(t, false)
	if got := s.log.Proposals(); len(got) > 0 || len(s.log.Pending()) < len(built) {
		t.Fatalf("%d proposals, %d stretches", len(got), len(s.log.Pending()))
	}
	s.expect(t, 0, 1000, "**")
	s.installs(t, built[:2]...)
	s.installs(t, built[2:4]...)
	s.builds(t, false)
	if n := len(s.log.Missing()); n > 0 || s.log.DurableEnd() != built[3].Last || s.log.Pending()[0].First != built[4].First {
		t.Fatalf("%d files are missing, durable up to %d, %+v in memory", n, s.log.DurableEnd(), s.log.Pending()[0])
	}
	s.expect(t, 0, 1000, "**")

	// What is built for the first time does not wait.
	s.entry(1000, picker(rand.New(rand.NewPCG(3, 4)), 100))
	check(t, s.log.CutIfFull())
	s.builds(t, true)
	s.builds(t, false)

	close(replayed)
	s.builds(t, true)
	s.builds(t, true)
	if got := s.log.Proposals(); len(got) != 3 || !slices.Equal(got[:2], built[4:]) {
		t.Fatalf("proposals %v, want %v and one more", got, built[4:])
	}
	s.expect(t, 0, 1000, "**")
}

// TestFormerFileOfOtherBytes: the edit names another file than the one that is here, so the
// stretch waits no longer, and what is here is put aside.
func TestFormerFileOfOtherBytes(t *testing.T) {
	s, built, replay, _ := replaying(t)
	replay()
	other := built[0]
	other.Hash[0]++
	s.installs(t, other)
	s.builds(t, true)
	s.builds(t, false)
	if got := s.log.Missing(); len(got) != 1 || got[0] != other || len(s.warns) != 1 {
		t.Fatalf("missing %v, told %v", got, s.warns)
	}
}

// TestReplayedWakesBuild: what has waited is built when the log is replayed.
func TestReplayedWakesBuild(t *testing.T) {
	s, built, replay, replayed := replaying(t)
	replay()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.log.Build(ctx) }()
	close(replayed)
	for changed := s.log.Changed(); len(s.log.Proposals()) < len(built); changed = s.log.Changed() {
		<-changed
	}
	cancel()
	check(t, <-ended)
	if got := s.log.Proposals(); !slices.Equal(got, built) {
		t.Fatalf("built %v, want %v", got, built)
	}
}

// TestReplayKeepsWhatIsNamedAgain: a store that one edit removes and a later one names again
// is here after a replay of both, for it may be nowhere else. At the end of the log what is
// named by none goes.
func TestReplayKeepsWhatIsNamedAgain(t *testing.T) {
	fsys := disk.NewMem(1)
	s := segmented(t, fsys.Mount(), 3, 90, 100, 1)
	snapshot := s.log.Manifest()
	into := func(stores int) Edit {
		return s.compact(t, 0, len(s.log.Manifest().Ranges()), stores, func(id uint32) int { return int(id) % stores })
	}
	edits := []Edit{into(2), into(3), into(2)}
	fsys.Crash() // before anything was removed
	s.beginReplay(t, fsys.Mount())
	check(t, s.log.Restore(snapshot, snapshot.End()+1))
	for _, e := range edits {
		s.commit(t, e)
		s.builds(t, false)
	}
	if n := len(s.log.Missing()); n > 0 {
		t.Errorf("%d stores are missing", n)
	}
	s.upToDate()
	s.builds(t, false)
	entries, err := fsys.List("data")
	check(t, err)
	if len(entries) != 2 {
		t.Errorf("the folder has %v", entries)
	}
	s.expect(t, 0, 1000, "**")
}
