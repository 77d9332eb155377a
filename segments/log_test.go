package segments

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"chorale/disk"
	"chorale/message"
)

func TestReadAcrossFilesAndMemory(t *testing.T) {
	s := newStream(t, disk.NewMem(1).Mount())
	s.log.SetTarget(20_000)
	pick := picker(rand.New(rand.NewPCG(1, 2)), 200)
	for i := range 200 {
		s.entry(7, pick)
		check(t, s.log.CutIfFull())
		if i%50 == 20 {
			s.build(t)
		}
	}
	if len(s.log.Manifest().Files) == 0 || s.log.Manifest().End() == s.log.End() {
		t.Fatal("the test wants files and memory")
	}
	for _, after := range []uint64{0, 1, 100, 777, 1399, 1400} {
		for _, limit := range []int{1, 1000, 1 << 20} {
			for _, list := range [][]string{{"**"}, {"a"}, {"a/**"}, {"a/*/c1", "x2/**"}, {"nothing/here"}} {
				s.expect(t, after, limit, list...)
			}
		}
	}
}

// TestReplicasBuildTheSameBytes: two nodes that build and restart at other times
// end with the same folder.
func TestReplicasBuildTheSameBytes(t *testing.T) {
	disks := [2]*disk.Mem{disk.NewMem(1), disk.NewMem(2)}
	var folders [2]string
	for i, d := range disks {
		s := newStream(t, d.Mount())
		s.log.SetTarget(5000)
		pick := picker(rand.New(rand.NewPCG(1, 2)), 100)
		for e := range 200 {
			s.entry(1+e%9, pick)
			check(t, s.log.CutIfFull())
			if e%(3+20*i) == 0 {
				s.build(t)
			}
		}
		s.build(t)
		for _, m := range s.log.Manifest().Files {
			folders[i] += m.Name() + "\n" + string(readFile(t, s.log, m.Hash))
		}
	}
	if folders[0] != folders[1] || strings.Count(folders[0], ".seg") < 10 {
		t.Fatal("the folders differ")
	}
}

// TestCutFollowsTheLogAlone: a stretch ends with the entry that fills it.
func TestCutFollowsTheLogAlone(t *testing.T) {
	s := newStream(t, disk.NewMem(1).Mount())
	s.log.SetTarget(480) // ten records of 48 bytes
	for _, n := range []int{9, 1, 4, 5, 1, 30, 1} {
		s.entry(n, func() (string, int) { return "a", 7 })
		check(t, s.log.CutIfFull())
	}
	var got []string
	for _, p := range s.log.Pending() {
		got = append(got, fmt.Sprintf("%d-%d %v", p.First, p.Last, p.Closed))
	}
	if want := []string{"1-10 true", "11-20 true", "21-50 true", "51-51 false"}; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

// TestPendingIsAllThatIsNotInFiles: a snapshot's bytes, chunk borders and records
// larger than a chunk included.
func TestPendingIsAllThatIsNotInFiles(t *testing.T) {
	s := newStream(t, disk.NewMem(1).Mount())
	s.log.SetTarget(60_000)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		s.entry(5, func() (string, int) { return "a", rng.IntN(9000) })
		check(t, s.log.CutIfFull())
	}
	seq := uint64(1)
	for _, p := range s.log.Pending() {
		if p.First != seq {
			t.Fatalf("stretch starts at %d, want %d", p.First, seq)
		}
		for _, chunk := range p.Chunks {
			for _, got := range s.seqs(t, chunk, -1) {
				if got != seq {
					t.Fatalf("seq %d, want %d", got, seq)
				}
				seq++
			}
		}
	}
	if seq != uint64(len(s.all))+1 {
		t.Fatalf("pending ends before %d, the stream at %d", seq, len(s.all))
	}
}

// TestBackPressure: without a builder the cut builds what is too much, so that
// memory stays bounded.
func TestBackPressure(t *testing.T) {
	s := newStream(t, disk.NewMem(1).Mount())
	s.log.SetTarget(1)
	for range 10 {
		s.entry(3, func() (string, int) { return "a/b", 10 })
		check(t, s.log.CutIfFull())
		if n := len(s.log.due()); n > 2 {
			t.Fatalf("%d unbuilt stretches, 2 are allowed", n)
		}
	}
	s.expect(t, 0, 1000, "**")
}

// TestBuildRunsUntilItsContextEnds, and tells of each file by Changed.
func TestBuildRunsUntilItsContextEnds(t *testing.T) {
	s := newStream(t, disk.NewMem(1).Mount())
	s.log.SetTarget(1)
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.log.Build(ctx); err != nil {
			t.Error(err)
		}
	})
	for range 20 {
		s.entry(2, func() (string, int) { return "a", 5 })
		check(t, s.log.CutIfFull())
		for {
			changed := s.log.Changed()
			if list := s.log.Proposals(); len(list) > 0 {
				refused, mismatch := s.log.Install(Edit{Add: list})
				check(t, errors.Join(refused, mismatch))
				break
			}
			<-changed
		}
	}
	stop()
	wg.Wait()
	if st := s.log.Stats(); st.DurableEnd != 40 || st.Files != 20 || st.Stretches != 0 {
		t.Fatalf("%+v", st)
	}
}

// TestBuildEndsWithTheDisk: the error ends the node, and nothing is tried again.
func TestBuildEndsWithTheDisk(t *testing.T) {
	m := disk.NewMem(1)
	s := newStream(t, m.Mount())
	s.log.SetTarget(1)
	s.entry(2, func() (string, int) { return "a", 5 })
	check(t, s.log.CutIfFull())
	check(t, m.Fault("on sync *.tmp fail EIO"))
	if err := s.log.Build(context.Background()); err == nil {
		t.Fatal("a failed sync went by")
	}
}

func TestNamesInTheFolder(t *testing.T) {
	good := meta(1, 3).Name()
	for _, c := range []struct {
		name, want string
	}{
		{good, ""},
		{good + damagedSuffix, ""},
		{good + disk.TempSuffix, ""},
		{"anything" + disk.TempSuffix, ""},
		{"notes.txt", "data/notes.txt"},
		{"1-3-00.seg", "data/1-3-00.seg"},
		{strings.ToUpper(good), "FIRST-LAST-HASH.seg"},
		{"x" + damagedSuffix, "data/x.damaged"},
	} {
		m := disk.NewMem(1)
		check(t, m.MkdirAll("data"))
		check(t, m.PutFile("data/"+c.name, []byte("x")))
		_, err := Open(Options{FS: m.Mount(), Dir: "data"})
		if c.want == "" {
			check(t, err)
		} else if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		_, err = m.ReadFile("data/" + c.name)
		if gone := errors.Is(err, fs.ErrNotExist); gone != strings.HasSuffix(c.name, disk.TempSuffix) {
			t.Errorf("%s: gone is %v", c.name, gone)
		}
	}
	m := disk.NewMem(1)
	check(t, m.MkdirAll("data/sub"))
	if _, err := Open(Options{FS: m.Mount(), Dir: "data"}); !errors.Is(err, ErrForeign) {
		t.Errorf("a folder: %v", err)
	}
}

// TestRestoreRefuses what cannot be a snapshot's, and changes nothing.
func TestRestoreRefuses(t *testing.T) {
	s := newStream(t, disk.NewMem(1).Mount())
	s.entry(3, func() (string, int) { return "a", 5 })
	for _, c := range []struct {
		files []FileMeta
		next  uint64
	}{
		{[]FileMeta{meta(1, 3), meta(5, 6)}, 7},
		{[]FileMeta{meta(1, 3)}, 5},
		{nil, 2},
		{nil, 0},
	} {
		if err := s.log.Restore(Manifest{Files: c.files}, c.next); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%v, next %d: %v", c.files, c.next, err)
		}
	}
	s.expect(t, 0, 1000, "**")
	refused, _ := s.log.Install(Edit{Add: []FileMeta{meta(1, 4)}})
	if refused == nil || !strings.Contains(refused.Error(), "the newest is 3") {
		t.Errorf("an edit from the future: %v", refused)
	}
}

// TestFileOfANewerVersion is kept, reported and missing: another program may want
// it.
func TestFileOfANewerVersion(t *testing.T) {
	d := newDamaged(t)
	b := bytes.Clone(d.copies[d.files[1].Name()])
	b[8] = 2
	binary.LittleEndian.PutUint32(b[60:], message.Sum(b[:60]))
	name := "data/" + d.files[1].Name()
	d.reset(t)
	check(t, d.fsys.PutFile(name, b))
	d.restart(t)
	if len(d.log.Missing()) != 1 || len(d.warns) != 1 || !errors.Is(d.warns[0], ErrNewer) {
		t.Fatalf("missing %v, warnings %v", d.log.Missing(), d.warns)
	}
	if after, err := d.fsys.ReadFile(name); err != nil || !bytes.Equal(after, b) {
		t.Fatal("the file was touched")
	}
}
