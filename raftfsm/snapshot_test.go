package raftfsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"chorale/disk"
	"chorale/message"
	"chorale/raftfsm/frames"
	"chorale/raftfsm/kept"
	"chorale/raftfsm/level"
	"chorale/raftfsm/members"
	"chorale/retention"
	"chorale/segments"

	"github.com/hashicorp/raft"
)

// randomEntries is a log of publishes by several producers, some of them retries.
func randomEntries(seed uint64, n int) [][]byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	next := map[string]uint64{"p": 1, "q": 1, "r": 1, "": 0}
	var entries [][]byte
	for i := range n {
		var batches [][]byte
		for range 1 + rng.IntN(3) {
			name := []string{"p", "q", "r", ""}[rng.IntN(4)]
			var b message.Builder
			number := next[name]
			if number > 3 && rng.IntN(5) == 0 {
				number -= uint64(rng.IntN(3))
			}
			for range 1 + rng.IntN(20) {
				b.Add(number, message.Entry{
					Topic: fmt.Sprintf("part%d/x%d/%d", rng.IntN(9), rng.IntN(3), rng.IntN(1+i)),
					Draft: message.Draft{Payload: make([]byte, rng.IntN(200))},
				})
				if name != "" {
					number++
				}
			}
			next[name] = number
			var id message.ProducerID
			copy(id[:], name)
			batches = append(batches, b.Encode(nil, id))
		}
		entries = append(entries, EncodePublish(int64(i), batches))
	}
	return entries
}

// Replicas that restart from a snapshot at different entries come to the same
// snapshot and to the same files, to the byte.
func TestReplicasAreIdentical(t *testing.T) {
	entries := randomEntries(1, 120)
	var want []byte
	var wantFiles map[string]string
	for _, restarts := range [][]int{{}, {0}, {119}, {40}, {1, 2, 3}, {10, 50, 51, 90}} {
		f := newFixture(t, 5_000)
		for i, e := range entries {
			f.must(e)
			for _, r := range restarts {
				if r != i {
					continue
				}
				s := f.snapshot()
				f.open()
				if err := f.restore(s); err != nil {
					t.Fatal(err)
				}
			}
		}
		for more := true; more; {
			var err error
			if more, err = f.history.BuildOne(); err != nil {
				t.Fatal(err)
			}
		}
		got, files := f.snapshot(), contents(t, f.disk)
		if want == nil {
			want, wantFiles = got, files
			if len(files) < 20 {
				t.Fatalf("only %d files", len(files))
			}
			continue
		}
		if !bytes.Equal(got, want) {
			t.Errorf("restarts %v: another snapshot", restarts)
		}
		for name, c := range wantFiles {
			if files[name] != c {
				t.Errorf("restarts %v: file %s differs", restarts, name)
			}
		}
	}
}

func contents(t *testing.T, fsys disk.FS) map[string]string {
	t.Helper()
	list, err := fsys.List("data")
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	for _, i := range list {
		file, err := fsys.Open("data/" + i.Name())
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, i.Size())
		if _, err := file.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
		out[i.Name()] = string(b)
		file.Close()
	}
	return out
}

// A snapshot is of the entry at which it was taken, however long it is written
// while Apply goes on. Views run beside both.
func TestPersistBesideApply(t *testing.T) {
	entries := randomEntries(2, 200)
	f, twin := newFixture(t, 20_000), newFixture(t, 20_000)
	var done sync.WaitGroup
	stop := make(chan struct{})
	done.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				f.fsm.View()
				f.fsm.Producer(message.ProducerID{'p'})
				f.fsm.EachTopic(0, 1<<30, func(uint32, TopicStats) {})
			}
		}
	})
	for i, e := range entries {
		f.must(e)
		twin.must(e)
		if i%20 != 7 {
			continue
		}
		s, err := f.fsm.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		want := twin.snapshot()
		done.Go(func() {
			defer s.Release()
			var to sink
			if err := s.Persist(&to); err != nil {
				t.Error(err)
			}
			if !bytes.Equal(to.Bytes(), want) {
				t.Errorf("the snapshot of entry %d has something of a later one", i)
			}
		})
	}
	if err := f.restore(f.snapshot()); err != nil {
		t.Error(err)
	}
	close(stop)
	done.Wait()
}

// brokenSink fails after so many bytes.
type brokenSink struct {
	sink
	left int
}

var errFull = errors.New("no space left")

func (b *brokenSink) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errFull
	}
	return b.sink.Write(p)
}

func TestPersistTellsErrors(t *testing.T) {
	f := newFixture(t, 1<<20)
	for _, e := range randomEntries(3, 20) {
		f.must(e)
	}
	size := len(f.snapshot())
	for _, left := range []int{0, 20, size / 2, size - 1} {
		s, err := f.fsm.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		to := &brokenSink{left: left}
		if err := s.Persist(to); !errors.Is(err, errFull) || !to.cancelled || to.closed {
			t.Errorf("room for %d of %d bytes: %v, cancelled %v, closed %v", left, size, err, to.cancelled, to.closed)
		}
		s.Release()
	}
}

// A snapshot with a flipped bit, cut short or with something behind its end is
// refused, and changes nothing.
func TestRestoreFindsDamage(t *testing.T) {
	f := newFixture(t, 2_000)
	for _, e := range randomEntries(4, 12) {
		f.must(e)
	}
	f.build()
	f.must(randomEntries(5, 1)[0])
	sound := f.snapshot()
	g := newFixture(t, 2_000)
	g.must(randomEntries(4, 12)[0])
	before := g.snapshot()
	refused := func(what string, b []byte) {
		t.Helper()
		if err := g.restore(b); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewer) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for bit := 0; bit < 8*len(sound); bit += 1 + bit%13 {
		damaged := bytes.Clone(sound)
		damaged[bit/8] ^= 1 << (bit % 8)
		refused(fmt.Sprint("bit ", bit), damaged)
	}
	for n := 0; n < len(sound); n += 1 + n%7 {
		refused(fmt.Sprint("cut at ", n), sound[:n])
	}
	refused("longer", append(bytes.Clone(sound), 0))
	refused("twice", append(bytes.Clone(sound), sound...))
	if !bytes.Equal(g.snapshot(), before) || len(g.halted) > 0 {
		t.Error("something was changed")
	}
	if err := g.restore(sound); err != nil {
		t.Errorf("the sound one: %v", err)
	}
}

// reseal makes the checksums of a snapshot fit again, where its frames can be told
// apart, so that what is behind them is tested.
func reseal(b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) < 16 {
		return b
	}
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Checksum(b[:12], castagnoli)
	binary.LittleEndian.PutUint32(b[12:], sum)
	for rest := b[16:]; len(rest) >= frames.HeadBytes; {
		n := min(int(binary.LittleEndian.Uint32(rest[4:])), len(rest)-frames.HeadBytes)
		sum = crc32.Update(sum, castagnoli, rest[:8])
		sum = crc32.Update(sum, castagnoli, rest[frames.HeadBytes:frames.HeadBytes+n])
		binary.LittleEndian.PutUint32(rest[8:], sum)
		rest = rest[frames.HeadBytes+n:]
	}
	return b
}

// Without a plan a snapshot is what the first version wrote; with one it is of the
// second, and as well protected.
func TestSnapshotVersions(t *testing.T) {
	f := newFixture(t, 2_000)
	for _, e := range randomEntries(4, 12) {
		f.must(e)
	}
	f.build()
	first := f.snapshot()
	f.must(EncodePlan(Plan{Inputs: []segments.Hash{f.history.Manifest().Files[0].Hash}, Stores: 2}))
	second := f.snapshot()
	if first[8] != 1 || second[8] != 2 {
		t.Errorf("versions %d and %d", first[8], second[8])
	}
	_, changed := f.fsm.Plan()
	if err := f.restore(first); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	default:
		t.Error("nobody is told that the plan is gone")
	}
	for at := range len(second) - len(first) + 100 {
		damaged := bytes.Clone(second)
		damaged[at] ^= 0x41
		f.open()
		if err := f.restore(reseal(damaged)); err == nil && !bytes.Equal(f.snapshot(), reseal(damaged)) {
			t.Errorf("byte %d: what was restored is not what was read", at)
		}
	}
}

// Rules for the topics of randomEntries, and a floor by the first of them.
var (
	someRules  = kept.Change{Rules: []retention.Rule{{Filter: "part1/**", Age: 5}, {Filter: "part2/x1/3", Bytes: 7}}}
	someFloors = kept.Rise{Rules: 1, Time: 1 << 40, Floors: []kept.RuleFloor{{Rule: 0, Seq: 9}}}
)

// Whatever the state has is in its snapshot: a machine that was restored from it
// looks alike in every view, and not only in its own next snapshot.
func TestSnapshotHoldsEveryView(t *testing.T) {
	f := newFixture(t, 2_000)
	for _, e := range randomEntries(4, 12) {
		f.must(e)
	}
	f.build()
	more := map[string][]byte{
		"plan":      EncodePlan(Plan{Inputs: []segments.Hash{f.history.Manifest().Files[0].Hash}, Stores: 2}),
		"retention": EncodeRetain(Retention{Age: 7, Bytes: 1 << 40}),
		"member":    EncodeMember(members.Change{Op: members.Join, ID: "n1", Incarnation: 7, Voter: true}),
		"removal":   EncodeMember(members.Change{Op: members.Remove, ID: "n2"}),
		"level":     EncodeLevel(level.Mark{Level: level.Logged, By: "v1"}),
		"rules":     EncodeRules(someRules),
	}
	view := func() string {
		plan, _ := f.fsm.Plan()
		list, _ := f.fsm.Members()
		return fmt.Sprintf("%+v %+v %+v %+v %+v", f.fsm.View(), plan, list, f.fsm.Kept().Rules, f.fsm.Floors().List())
	}
	bare := f.snapshot()
	for bits := range 1 << len(more) { // every set of them
		f.open()
		if err := f.restore(bare); err != nil {
			t.Fatal(err)
		}
		for i, what := range slices.Sorted(maps.Keys(more)) {
			if bits&(1<<i) != 0 {
				f.must(more[what])
			}
			if bits&(1<<i) != 0 && what == "rules" {
				f.must(EncodeFloors(someFloors))
			}
		}
		want, s := view(), f.snapshot()
		f.open()
		if err := f.restore(s); err != nil {
			t.Fatal(err)
		}
		if got := view(); got != want {
			t.Errorf("set %b: restored is\n%s\nand was\n%s", bits, got, want)
		}
	}
}

// Behind right checksums everything is checked again: what a wrong writer wrote is
// refused or taken, without a panic, and what is taken can be gone on from.
func FuzzRestore(f *testing.F) {
	x := newFixture(f, 2_000)
	f.Add(x.snapshot())
	for _, e := range randomEntries(4, 12) {
		x.must(e)
	}
	f.Add(x.snapshot())
	x.build()
	x.must(randomEntries(5, 1)[0])
	f.Add(x.snapshot())
	x.must(EncodeRetain(Retention{Age: 7, Bytes: 9}))
	f.Add(x.snapshot())
	x.must(EncodeMember(members.Change{Op: members.Join, ID: "n1", Incarnation: 7, Voter: true}))
	f.Add(x.snapshot())
	x.must(EncodeLevel(level.Mark{Level: level.Logged, By: "v1"}))
	f.Add(x.snapshot())
	x.must(EncodeRules(someRules))
	x.must(EncodeFloors(someFloors))
	f.Add(x.snapshot())
	entry := randomEntries(6, 1)[0]
	f.Fuzz(func(t *testing.T, b []byte) {
		g := newFixture(t, 0)
		if g.restore(reseal(b)) != nil {
			return
		}
		if s := g.snapshot(); g.restore(s) != nil || !bytes.Equal(g.snapshot(), s) {
			t.Error("a snapshot of what was restored is not like itself")
		}
		g.fsm.Apply(&raft.Log{Index: g.fsm.View().Index + 1, Data: entry})
	})
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add(EncodeGenesis(Genesis{Cluster: testCluster, SegmentBytes: 1}))
	f.Add(randomEntries(1, 1)[0])
	f.Add([]byte{3, 1, 0, 0, 0, 0, 0, 0})
	f.Add(EncodePlan(Plan{Inputs: []segments.Hash{{1}, {2}}, Stores: 3}))
	f.Add(EncodeAbandon(7))
	f.Add(EncodeRetain(Retention{Age: 1, Bytes: 2}))
	f.Add(EncodeExpire(Expiry{Time: 5, Oldest: 9}))
	f.Add(EncodeMember(members.Change{Op: members.Join, ID: "n1", Incarnation: 7, Voter: true}))
	f.Add(EncodeLevel(level.Mark{Level: level.Logged, By: "v1"}))
	f.Add(EncodeRules(someRules))
	f.Add(EncodeFloors(someFloors))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := DecodeEntry(b)
		if err != nil {
			return
		}
		var again []byte
		switch e.Kind {
		case KindGenesis:
			again = EncodeGenesis(e.Genesis)
		case KindPublish:
			again = EncodePublish(e.Time, e.Batches)
		case KindEdit:
			again = EncodeEdit(e.Edit)
		case KindPlan:
			again = EncodePlan(e.Plan)
		case KindAbandon:
			again = EncodeAbandon(e.Abandon)
		case KindRetain:
			again = EncodeRetain(e.Retain)
		case KindRules:
			again = EncodeRules(e.Rules)
		case KindFloors:
			again = EncodeFloors(e.Floors)
		case KindExpire:
			again = EncodeExpire(e.Expire)
		case KindMember:
			again = EncodeMember(e.Member)
		case KindLevel:
			again = EncodeLevel(e.Level)
		}
		if !bytes.Equal(again, b) {
			t.Errorf("%x is decoded and encoded as %x", b, again)
		}
		g := newFixture(t, 1000)
		g.fsm.Apply(&raft.Log{Index: 2, Data: b})
	})
}

// The first disk error stops the state machine for good.
func TestDiskErrorHalts(t *testing.T) {
	f := newFixture(t, 1_000)
	if err := f.disk.Fault(`on sync "*.tmp" fail EIO`); err != nil {
		t.Fatal(err)
	}
	var stopped Result
	for _, e := range randomEntries(7, 60) {
		if stopped = f.apply(e); stopped.Err != nil {
			break
		}
	}
	if !errors.Is(stopped.Err, ErrHalted) || len(f.halted) != 1 {
		t.Fatalf("result %v, halted %v", stopped.Err, f.halted)
	}
	before := f.fsm.View()
	if r := f.apply(randomEntries(8, 1)[0]); !errors.Is(r.Err, ErrHalted) || r.Outcomes != nil {
		t.Errorf("after it: %+v", r)
	}
	if f.fsm.View() != before || len(f.halted) != 1 {
		t.Error("something changed after it")
	}
	if _, err := f.fsm.Snapshot(); !errors.Is(err, ErrHalted) {
		t.Errorf("a snapshot after it: %v", err)
	}
}

// The same with a wrong writer that is wrong in one byte, which the fuzzer meets
// too rarely.
func TestRestoreBehindRightChecksums(t *testing.T) {
	x := newFixture(t, 2_000)
	for _, e := range randomEntries(4, 12) {
		x.must(e)
	}
	x.build()
	x.must(randomEntries(5, 1)[0])
	x.must(EncodeMember(members.Change{Op: members.Join, ID: "n1", Incarnation: 7, Voter: true}))
	x.must(EncodeMember(members.Change{Op: members.Remove, ID: "n2"}))
	sound := x.snapshot()
	entry := randomEntries(6, 1)[0]
	rng := rand.New(rand.NewPCG(9, 9))
	taken := 0
	for range 2_000 {
		b := bytes.Clone(sound)
		b[rng.IntN(len(b))] = byte(rng.Uint32())
		g := newFixture(t, 0)
		if err := g.restore(reseal(b)); err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewer) {
				t.Fatal(err)
			}
			continue
		}
		taken++
		if s := g.snapshot(); !bytes.Equal(s, reseal(b)) {
			t.Fatal("a snapshot of what was restored is not what was restored")
		}
		g.fsm.Apply(&raft.Log{Index: g.fsm.View().Index + 1, Data: entry})
	}
	if taken == 0 || taken == 2_000 {
		t.Errorf("%d were taken: the test does nothing", taken)
	}
}
