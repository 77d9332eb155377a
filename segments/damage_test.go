package segments

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"chorale/disk"
	"chorale/message"
	"chorale/segments/data"
	"chorale/topic"
)

// damaged is a node with three files and a peer's copies of them; the tests below
// break the middle one.
type damaged struct {
	*stream
	fsys   *disk.Mem
	files  []FileMeta
	copies map[string][]byte
}

func newDamaged(t testing.TB) *damaged { return fillDamaged(t, 0) }

func fillDamaged(t testing.TB, fill byte) *damaged {
	d := &damaged{fsys: disk.NewMem(1), copies: map[string][]byte{}}
	d.stream = newStream(t, d.fsys.Mount())
	d.fill = fill
	d.log.SetTarget(1)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		d.entry(6, picker(rng, 30))
		check(t, d.log.CutIfFull())
	}
	d.build(t)
	return d.keep(t)
}

// newDamagedLayer has a layer of stores for the second file.
func newDamagedLayer(t testing.TB) *damaged {
	d := newDamaged(t)
	d.compact(t, 1, 2, 2, func(id uint32) int { return int(id % 2) })
	_, err := d.log.BuildOne()
	check(t, err)
	return d.keep(t)
}

func (d *damaged) keep(t testing.TB) *damaged {
	d.files, d.copies = d.log.Manifest().Files, map[string][]byte{}
	for _, m := range d.files {
		b, err := d.fsys.ReadFile("data/" + m.Name())
		check(t, err)
		d.copies[m.Name()] = b
	}
	return d
}

// reset is the folder as it was, before anything was broken, and a log that was
// restarted on it.
func (d *damaged) reset(t testing.TB) {
	entries, err := d.fsys.List("data")
	check(t, err)
	for _, e := range entries {
		check(t, d.fsys.Lose("data/"+e.Name()))
	}
	for name, b := range d.copies {
		check(t, d.fsys.PutFile("data/"+name, b))
	}
	d.restart(t)
}

func (d *damaged) restart(t testing.TB) {
	d.warns = nil
	d.reopen(t, d.fsys.Mount())
	check(t, d.log.Restore(Manifest{Files: d.files}, uint64(len(d.all)+1)))
}

// verify reads everything with the middle file broken: what comes is right, up to
// the damage at most; the damage has a name; and a peer's copy heals it.
func (d *damaged) verify(t *testing.T, what string, offset int) {
	t.Helper()
	everything := filters(t, "**")
	bad := d.files[1]
	var got []uint64
	for range 2 { // the first error may find the damage, the second says it is missing
		var err error
		got, err = d.read(t, everything, 0, 1<<20)
		if err == nil || errors.Is(err, io.EOF) {
			t.Fatalf("%s at %d: read as if nothing had happened: %v", what, offset, err)
		}
		if want := d.want(everything, 0)[:len(got)]; !slices.Equal(got, want) || len(got) >= int(bad.Last) {
			t.Fatalf("%s at %d: %v was delivered", what, offset, got)
		}
		if errors.Is(err, ErrNotHere) {
			break
		}
		if !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%s at %d: %v", what, offset, err)
		}
	}
	if uint64(len(got)) != bad.First-1 {
		t.Fatalf("%s at %d: %d messages before the damage, want %d", what, offset, len(got), bad.First-1)
	}
	if m := d.log.Missing(); len(m) != 1 || m[0] != bad {
		t.Fatalf("%s at %d: missing %v", what, offset, m)
	}
	if len(d.warns) > 0 && !strings.Contains(d.warns[0].Error(), bad.Name()) {
		t.Fatalf("%s at %d: warning without the file's name: %v", what, offset, d.warns)
	}
	check(t, importFile(d.log, bad, d.copies[bad.Name()]))
	d.expect(t, 0, 1<<20, "**")
	if entries, _ := d.fsys.List("data"); len(entries) != len(d.files) {
		t.Fatalf("%s at %d: left behind: %v", what, offset, entries)
	}
}

// TestEveryFlippedBit: a bit of any byte, found at the start or when it is read.
func TestEveryFlippedBit(t *testing.T) {
	for name, d := range map[string]*damaged{"segment": newDamaged(t), "store": newDamagedLayer(t)} {
		t.Run(name, d.everyFlippedBit)
	}
}

func (d *damaged) everyFlippedBit(t *testing.T) {
	name := "data/" + d.files[1].Name()
	for i := range d.copies[d.files[1].Name()] {
		d.reset(t)
		check(t, d.fsys.FlipBit(name, int64(i)*8+int64(i%8)))
		d.restart(t)
		d.verify(t, "flip before the start", i)

		d.reset(t)
		check(t, d.fsys.FlipBit(name, int64(i)*8+int64(i%8)))
		if touched, err := d.whileRunning(t); touched {
			d.verify(t, "flip while running", i)
		} else {
			check(t, err)
		}
	}
}

// whileRunning reads everything: the bytes that a running node reads are blocks
// and their table; the rest of the file was proven when it started.
func (d *damaged) whileRunning(t *testing.T) (touched bool, err error) {
	_, err = d.read(t, filters(t, "**"), 0, 1<<20)
	if errors.Is(err, ErrCorrupt) && !errors.Is(err, io.EOF) {
		return true, nil
	}
	return false, err
}

// TestEveryLength cuts the file at any length, before and after the start.
func TestEveryLength(t *testing.T) {
	for name, d := range map[string]*damaged{"segment": newDamaged(t), "store": newDamagedLayer(t)} {
		t.Run(name, d.everyLength)
	}
}

func (d *damaged) everyLength(t *testing.T) {
	name := "data/" + d.files[1].Name()
	for n := range d.copies[d.files[1].Name()] {
		d.reset(t)
		check(t, d.fsys.Truncate(name, int64(n)))
		if _, err := d.whileRunning(t); errors.Is(err, io.EOF) {
			t.Fatalf("cut at %d while running: %v is how a subscription ends well", n, err)
		}
		d.reset(t)
		check(t, d.fsys.Truncate(name, int64(n)))
		d.restart(t)
		d.verify(t, "cut", n)
	}
	d.reset(t)
	check(t, d.fsys.PutFile(name, append(bytes.Clone(d.copies[d.files[1].Name()]), 0)))
	d.restart(t)
	d.verify(t, "a byte too many", 0)
}

func TestRemovedAndSwapped(t *testing.T) {
	d := newDamaged(t)
	name := "data/" + d.files[1].Name()
	d.reset(t)
	check(t, d.fsys.Lose(name))
	d.restart(t)
	d.verify(t, "removed before the start", 0)

	d.reset(t)
	check(t, d.fsys.Lose(name))
	d.verify(t, "removed while running", 0)

	d.reset(t)
	check(t, d.fsys.PutFile(name, d.copies[d.files[2].Name()]))
	d.restart(t)
	d.verify(t, "another file of the stream", 0)

	other := fillDamaged(t, 1) // the same but for the bytes of the payloads
	b := other.copies[other.files[1].Name()]
	if int64(len(b)) != d.files[1].Bytes {
		t.Fatal("the test wants a file of the same size")
	}
	d.reset(t)
	check(t, d.fsys.PutFile(name, b))
	d.restart(t)
	d.verify(t, "the same seqs of another stream", 0)
}

// readFile copies a file as a peer would.
func readFile(t testing.TB, l *Log, h Hash) []byte {
	t.Helper()
	f, m, err := l.OpenFile(h)
	check(t, err)
	b := make([]byte, m.Bytes)
	_, err = f.ReadAt(b, 0)
	check(t, err)
	check(t, f.Close())
	return b
}

// TestReadErrorIsDamage: what the disk cannot give back is repaired like any other
// damage; a disk that cannot open files is not mistaken for one.
func TestReadErrorIsDamage(t *testing.T) {
	d := newDamaged(t)
	d.reset(t)
	check(t, d.fsys.Fault("on open *.seg fail EMFILE"))
	if _, err := d.read(t, filters(t, "**"), 0, 1000); err == nil || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNotHere) {
		t.Fatalf("out of handles: %v", err)
	}
	d.fsys.ClearFaults()
	if len(d.log.Missing()) > 0 {
		t.Fatal("a file is missing for want of handles")
	}
	check(t, d.fsys.Fault("on read "+d.files[1].Name()+" times 1 fail EIO"))
	d.verify(t, "unreadable", 0)
}

func TestBadCopies(t *testing.T) {
	d := newDamaged(t)
	bad := d.files[1]
	good := d.copies[bad.Name()]
	check(t, d.fsys.Lose("data/"+bad.Name()))
	d.restart(t)
	flipped := bytes.Clone(good)
	flipped[100] ^= 1
	for _, b := range [][]byte{nil, good[:50], append(bytes.Clone(good), 0), flipped, d.copies[d.files[0].Name()]} {
		if err := importFile(d.log, bad, b); !errors.Is(err, ErrBadCopy) {
			t.Fatalf("a bad copy of %d bytes: %v", len(b), err)
		}
	}
	if len(d.log.Missing()) != 1 {
		t.Fatal("a bad copy was taken")
	}
	check(t, d.fsys.Fault("on sync *.part times 1 fail EIO"))
	if err := importFile(d.log, bad, good); err == nil || errors.Is(err, ErrBadCopy) {
		t.Fatalf("the disk's error: %v", err)
	}
	foreign := bad
	foreign.Hash[0]++
	if err := importFile(d.log, foreign, good); err == nil {
		t.Fatal("a file that the manifest does not name was taken")
	}
	check(t, importFile(d.log, bad, good))
	check(t, importFile(d.log, bad, nil)) // it is here: nothing is looked at
	d.expect(t, 0, 1000, "**")
}

// TestReplicaWithOtherBytes: a node whose memory went bad before the build notices
// when the cluster's hash comes, and repairs.
func TestReplicaWithOtherBytes(t *testing.T) {
	for _, builtFirst := range []bool{true, false} {
		d := newDamaged(t)
		n := newStream(t, disk.NewMem(3).Mount()) // the node in question
		n.table, n.log.o.Topics = d.table, d.table
		n.log.SetTarget(1)
		for i, r := range d.all {
			if r.Seq() == 8 {
				bad := message.NewRecord(message.Draft{Payload: []byte("flipped")}, r.Topic(), r.Seq(), r.Prev(), r.Time())
				n.log.Append(d.table.Partition(r.Topic()), bad)
			} else {
				n.log.Append(d.table.Partition(r.Topic()), r)
			}
			n.all = append(n.all, r)
			if i%6 == 5 {
				n.log.Publish()
				check(t, n.log.CutIfFull())
			}
		}
		n.install(t, d.files, builtFirst)
		if m := n.log.Missing(); len(m) != 1 || m[0] != d.files[1] {
			t.Fatalf("missing %v", m)
		}
		if len(n.log.Proposals()) > 0 {
			t.Fatal("the deviating file is proposed")
		}
		check(t, importFile(n.log, d.files[1], d.copies[d.files[1].Name()]))
		n.expect(t, 0, 1000, "**")
		if n.log.DurableEnd() != 18 || n.log.Stats().Stretches != 0 {
			t.Fatalf("%+v", n.log.Stats())
		}
	}
}

// install builds, and applies the cluster's edits, in this order or in the other;
// of the three files only the second deviates.
func (s *stream) install(t *testing.T, files []FileMeta, builtFirst bool) {
	t.Helper()
	build := func() {
		for {
			more, err := s.log.BuildOne()
			check(t, err)
			if !more {
				return
			}
		}
	}
	if builtFirst {
		build()
	}
	mismatches := 0
	for _, m := range files {
		refused, mismatch := s.log.Install(Edit{Add: []FileMeta{m}})
		check(t, refused)
		if mismatch != nil {
			mismatches++
			if !strings.Contains(mismatch.Error(), "7 to 12") {
				t.Fatal(mismatch)
			}
		}
	}
	if !builtFirst {
		if len(s.log.Missing()) > 0 {
			t.Fatal("what is in memory and will be built is not missing")
		}
		build()
		mismatches = len(s.warns)
	}
	if mismatches != 1 {
		t.Fatalf("%d mismatches: %v", mismatches, s.warns)
	}
}

// TestDroppedFileIsNotAcquired: a reader with an old view asks again, and does not
// take a removed file for a lost one.
func TestDroppedFileIsNotAcquired(t *testing.T) {
	d := newDamaged(t)
	f := d.log.view.Load().files[0]
	check(t, f.Drop())
	if _, err := f.Acquire(); !errors.Is(err, data.ErrGone) {
		t.Fatal(err)
	}
}

// TestRestoreForgetsWhatEditsRemoved: files that went while this node was away go
// here too; a manifest that is older than the present one costs nothing.
func TestRestoreForgetsWhatEditsRemoved(t *testing.T) {
	d := newDamaged(t)
	d.reset(t)
	check(t, d.log.Restore(Manifest{Files: d.files[:1]}, 7))
	if st := d.log.Stats(); st.Stray != 2 {
		t.Fatalf("%+v", st)
	}
	check(t, d.log.Restore(Manifest{Files: d.files}, 19))
	d.expect(t, 0, 1000, "**")
	check(t, d.log.Restore(Manifest{Files: d.files[1:]}, 19))
	_, err := d.log.BuildOne()
	check(t, err)
	if _, err := d.fsys.ReadFile("data/" + d.files[0].Name()); err == nil || d.log.Stats().Stray > 0 {
		t.Fatal("a removed file is still here")
	}
	d.expect(t, 6, 1000, "**")
}

// TestReaderOutlivesRemoval: a file that an edit removes stays until its last
// reader has left.
func TestReaderOutlivesRemoval(t *testing.T) {
	d := newDamaged(t)
	d.reset(t)
	r := d.log.NewReader(topic.NewSelection(d.table, filters(t, "**")), 0)
	_, p, err := r.Read(nil, 1)
	check(t, err)
	f, _, err := d.log.OpenFile(d.files[0].Hash)
	check(t, err)
	refused, mismatch := d.log.Install(Edit{Remove: []Hash{d.files[0].Hash}})
	check(t, errors.Join(refused, mismatch))
	_, err = d.log.BuildOne()
	check(t, err)
	b, p2, err := r.Read(nil, 1<<20)
	check(t, err)
	if got := d.seqs(t, b, p2.Count); got[0] != p.Scanned+1 || got[len(got)-1] != 18 {
		t.Fatalf("read %v behind %d", got, p.Scanned)
	}
	r.Close()
	name := "data/" + d.files[0].Name()
	if _, err := d.fsys.ReadFile(name); err != nil {
		t.Fatal("removed under a peer's hands")
	}
	check(t, f.Close())
	if _, err := d.fsys.ReadFile(name); err == nil {
		t.Fatal("not removed behind the last reader")
	}
	if _, err := d.read(t, filters(t, "**"), 0, 1000); !errors.Is(err, ErrExpired) {
		t.Fatalf("before the oldest: %v", err)
	}
	d.expect(t, 6, 1000, "**")
	if after, err := d.log.SeekTime(0); err != nil || after != 6 || d.log.Oldest() != 7 {
		t.Fatalf("time 0 is behind %d, oldest %d (%v)", after, d.log.Oldest(), err)
	}
}
