package segments

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"chorale/disk"
)

// crashNode is a node whose disk loses power at its n-th operation. What Raft
// would keep (the entries, the committed edits, a snapshot) is kept outside of it.
type crashNode struct {
	*stream
	fsys     *disk.Mem
	edits    []FileMeta // committed: proposed once they were built, so durable here
	snapshot bool       // a restart begins with a snapshot, not with the first entry
	copies   map[Hash][]byte
}

const (
	crashEntries = 4
	entryLen     = 5
)

// run applies the log, as a restart does, until its end or until the disk fails.
func (n *crashNode) run() error {
	l, err := n.open(n.fsys.Mount())
	if err != nil {
		return err
	}
	n.log = l
	l.SetTarget(1)
	edits := n.edits
	if n.snapshot {
		if err := l.Restore(Manifest{Files: edits}, uint64(len(edits)*entryLen+1)); err != nil {
			return err
		}
		edits = nil
	}
	for e := len(l.Manifest().Files); e < crashEntries; e++ {
		for _, r := range n.all[e*entryLen : (e+1)*entryLen] {
			l.Append(n.table.Partition(r.Topic()), r)
		}
		l.Publish()
		if err := l.CutIfFull(); err != nil {
			return err
		}
		if len(edits) > 0 { // an edit of a former life comes back from the log
			if err := n.commit(edits[0]); err != nil {
				return err
			}
			edits = edits[1:]
			continue
		}
		if err := n.buildDue(); err != nil {
			return err
		}
	}
	n.upToDate()
	if err := n.buildDue(); err != nil {
		return err
	}
	return n.breakAndRepair()
}

// buildDue builds what is due, and commits it.
func (n *crashNode) buildDue() error {
	for {
		more, err := n.log.BuildOne()
		if err != nil || !more {
			return err
		}
		for _, m := range n.log.Proposals() {
			n.edits = append(n.edits, m)
			if err := n.commit(m); err != nil {
				return err
			}
		}
	}
}

func (n *crashNode) commit(m FileMeta) error {
	refused, mismatch := n.log.Install(Edit{Add: []FileMeta{m}})
	return errors.Join(refused, mismatch)
}

// breakAndRepair damages a file under the node, reads it and fetches it again.
func (n *crashNode) breakAndRepair() error {
	m := n.edits[1]
	name := "data/" + m.Name()
	if b, err := n.fsys.ReadFile(name); err == nil && n.copies[m.Hash] == nil {
		n.copies[m.Hash] = b
		if err := n.fsys.FlipBit(name, 100*8); err != nil {
			return err
		}
	}
	return n.repair()
}

func (n *crashNode) repair() error {
	for _, m := range n.log.Missing() {
		if b := n.copies[m.Hash]; b != nil { // else life has something to say
			err := importFile(n.log, m, b)
			if errors.Is(err, ErrBadCopy) { // what a crash tore costs one more copy
				err = importFile(n.log, m, b)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// TestCrashAtEveryStep: whatever was committed is here after a restart, nothing
// half is served, and nothing unfinished is left.
func TestCrashAtEveryStep(t *testing.T) {
	for seed := range uint64(8) {
		survived := false
		for step := 0; !survived; step++ {
			n := newCrashNode(t, seed)
			n.snapshot = seed%2 == 0
			check(t, n.fsys.Fault(fmt.Sprintf("on any * after %d crash", step)))
			err := n.life(t)
			if survived = err == nil; survived && step < 30 {
				t.Fatalf("the whole run took %d operations", step)
			} else if !survived && !errors.Is(err, disk.ErrPowerLost) {
				t.Fatal(err)
			}
			n.fsys.ClearFaults()
			for range 2 {
				check(t, n.life(t))
				n.noneUnfinished(t)
				n.fsys.Crash()
			}
		}
	}
}

func newCrashNode(t *testing.T, seed uint64) *crashNode {
	n := &crashNode{fsys: disk.NewMem(seed), copies: map[Hash][]byte{}}
	n.stream = newStream(t, disk.NewMem(0).Mount()) // makes the entries
	for range crashEntries {
		n.entry(entryLen, picker(rand.New(rand.NewPCG(1, 2)), 40))
	}
	return n
}

// life runs the node and reads all that it has, repairing the one file that was
// damaged on purpose. The error is the disk's.
func (n *crashNode) life(t *testing.T) error {
	t.Helper()
	if err := n.run(); err != nil {
		return err
	}
	for {
		if _, err := n.log.o.FS.List("data"); err != nil {
			return err // in a life that is over, files that cannot be read look damaged
		}
		for _, m := range n.log.Missing() {
			if m != n.edits[1] {
				t.Fatalf("%s is missing, only %s was damaged", m.Name(), n.edits[1].Name())
			}
		}
		got, err := n.read(t, filters(t, "**"), 0, 1000)
		if err == nil && len(got) != len(n.all) {
			t.Fatalf("%d of %d messages", len(got), len(n.all))
		}
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotHere) {
			return err
		}
		if err := n.repair(); err != nil {
			return err
		}
	}
}

func (n *crashNode) noneUnfinished(t *testing.T) {
	t.Helper()
	entries, err := n.fsys.List("data")
	check(t, err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), disk.TempSuffix) {
			t.Fatalf("%s is left", e.Name())
		}
	}
}

// TestFilesOfAFormerLifeAreNotWrittenAgain: after a restart the same stretches are
// cut again, their files are recognised by what they would hold.
func TestFilesOfAFormerLifeAreNotWrittenAgain(t *testing.T) {
	n := newCrashNode(t, 1)
	check(t, n.run())
	check(t, n.fsys.PutFile("data/"+n.edits[1].Name(), n.copies[n.edits[1].Hash]))
	n.edits = nil
	check(t, n.fsys.Fault("on create * fail EROFS"))
	check(t, n.run())
	n.fsys.ClearFaults()
	if len(n.edits) != crashEntries {
		t.Fatalf("%d files", len(n.edits))
	}
	// One that was damaged meanwhile is put aside and written anew.
	check(t, n.fsys.Truncate("data/"+n.edits[2].Name(), 70))
	n.edits, n.warns = nil, nil
	check(t, n.run())
	n.expect(t, 0, 1000, "**")
	if len(n.warns) != 1 {
		t.Fatalf("warnings: %v", n.warns)
	}
}

// TestDiskErrorsEndTheBuild: nothing of a file that could not be finished is ever
// named, and the error says which.
func TestDiskErrorsEndTheBuild(t *testing.T) {
	for _, fault := range []string{
		"on create *.tmp fail EACCES", "on write *.tmp limit 100 fail ENOSPC", "on sync *.tmp fail EIO",
		"on rename *.tmp fail EIO", "on syncdir data fail EIO",
	} {
		n := newCrashNode(t, 1)
		l, err := n.open(n.fsys.Mount())
		check(t, err)
		l.o.PendingStretches = 0 // the cut builds by itself
		l.SetTarget(1)
		l.Append(n.table.Partition(n.all[0].Topic()), n.all[0])
		l.Publish()
		check(t, n.fsys.Fault(fault))
		if err := l.CutIfFull(); err == nil || !strings.Contains(err.Error(), "data") {
			t.Fatalf("%s: %v", fault, err)
		}
		if len(l.Proposals()) > 0 || l.DurableEnd() > 0 {
			t.Fatalf("%s: proposed %v", fault, l.Proposals())
		}
	}
}
