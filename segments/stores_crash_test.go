package segments

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"chorale/disk"
)

// planNode is a node that compacts twice, drops a store and lets the oldest range expire, on a disk
// that loses power at its n-th operation. What Raft would keep is kept outside of it:
// entries, committed edits, and whether a restart begins with a snapshot.
type planNode struct {
	*stream
	fsys     *disk.Mem
	edits    []Edit
	snapshot bool
}

const planEntries = 5

func newPlanNode(t *testing.T, seed uint64) *planNode {
	n := &planNode{fsys: disk.NewMem(seed), snapshot: seed%2 == 0}
	n.stream = newStream(t, disk.NewMem(0).Mount()) // makes the entries
	for range planEntries {
		n.entry(entryLen, picker(rand.New(rand.NewPCG(1, 2)), 40))
	}
	return n
}

// start opens the folder and applies what the log has.
func (n *planNode) start() error {
	l, err := n.open(n.fsys.Mount())
	if err != nil {
		return err
	}
	n.log, n.warns = l, nil
	l.SetTarget(1)
	edits := n.edits
	if n.snapshot {
		var m Manifest
		for _, e := range edits {
			if m, err = m.Apply(e); err != nil {
				return err
			}
		}
		if err := l.Restore(m, m.End()+1); err != nil {
			return err
		}
		edits = nil
	}
	for i := int(l.Manifest().End()) / entryLen; i < planEntries; i++ {
		for _, r := range n.all[i*entryLen : (i+1)*entryLen] {
			l.Append(n.table.Partition(r.Topic()), r)
		}
		l.Publish()
		if err := l.CutIfFull(); err != nil {
			return err
		}
	}
	for _, e := range edits {
		if err := n.install(e); err != nil {
			return err
		}
	}
	n.upToDate()
	return nil
}

func (n *planNode) install(e Edit) error {
	refused, mismatch := n.log.Install(e)
	return errors.Join(refused, mismatch)
}

func (n *planNode) commit(e Edit) error {
	n.edits = append(n.edits, e)
	return n.install(e)
}

// run goes on until all edits are committed and nothing is left to be done.
func (n *planNode) run() error {
	if err := n.start(); err != nil {
		return err
	}
	for len(n.edits) < planEntries+4 {
		if err := n.next(); err != nil {
			return err
		}
	}
	for {
		more, err := n.log.BuildOne()
		if err != nil {
			return err
		}
		if !more {
			return n.log.Tidy(0, 0)
		}
	}
}

// next does what leads to the next edit.
func (n *planNode) next() error {
	ranges := n.log.Manifest().Ranges()
	switch done := len(n.edits); {
	case done < planEntries:
		if _, err := n.log.BuildOne(); err != nil {
			return err
		}
		if p := n.log.Proposals(); len(p) > 0 {
			return n.commit(Edit{Add: p[:1]})
		}
		return nil
	case done == planEntries:
		return n.compactRanges(ranges[1:4])
	case done == planEntries+1:
		return n.compactRanges(ranges[1:])
	case done == planEntries+2:
		for _, m := range ranges[1].Files {
			_, topics, err := n.log.topicsOf(m.Hash)
			if err != nil {
				return err
			}
			if !hasLast(m, topics) {
				return n.commit(n.drop(m, topics))
			}
		}
	}
	return n.commit(Edit{Remove: []Hash{ranges[0].Files[0].Hash}})
}

func (n *planNode) compactRanges(ranges []Range) error {
	e, err := n.buildLayer(n.log, ranges, 3, func(id uint32) int { return int(id+uint32(len(ranges))) % 3 })
	if err != nil {
		return err
	}
	return n.commit(e)
}

// TestCrashAtEveryStepOfAPlan: whatever was committed is here after a restart, nothing
// half is served, and nothing is left that the manifest does not name.
func TestCrashAtEveryStepOfAPlan(t *testing.T) {
	for seed := range uint64(2) {
		survived := false
		steps := 0
		for ; !survived; steps++ {
			n := newPlanNode(t, seed)
			check(t, n.fsys.Fault(fmt.Sprintf("on any * after %d crash", steps)))
			err := n.run()
			if survived = err == nil; !survived && !errors.Is(err, disk.ErrPowerLost) {
				t.Fatal(err)
			}
			n.fsys.ClearFaults()
			for range 2 {
				check(t, n.run())
				n.whole(t, fmt.Sprintf("seed %d, step %d", seed, steps))
				n.fsys.Crash()
			}
		}
		if steps < 60 {
			t.Fatalf("the whole run took %d operations", steps)
		}
	}
}

// whole compares the folder with the manifest, and all messages with the model.
func (n *planNode) whole(t *testing.T, when string) {
	t.Helper()
	n.expect(t, entryLen, 1000, "**")
	if len(n.warns) > 0 {
		t.Fatalf("%s: %v", when, n.warns)
	}
	entries, err := n.fsys.List("data")
	check(t, err)
	var got, want []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	for _, m := range n.log.Manifest().Files {
		want = append(want, m.Name())
	}
	if len(got) != len(want) {
		t.Fatalf("%s: the folder has %v, the manifest %v", when, got, want)
	}
}

// TestStoresOfAFormerLifeAreNotWrittenAgain: what was finished before a crash is
// recognised by what it would hold.
func TestStoresOfAFormerLifeAreNotWrittenAgain(t *testing.T) {
	n := newPlanNode(t, 2)
	for len(n.edits) < planEntries {
		if n.log.Manifest().End() == 0 && len(n.edits) == 0 {
			check(t, n.start())
		}
		check(t, n.next())
	}
	ranges := n.log.Manifest().Ranges()
	build := func() Edit {
		e, err := n.buildLayer(n.log, ranges[1:4], 3, func(id uint32) int { return int(id) % 3 })
		check(t, err)
		return e
	}
	first := build()
	n.fsys.Crash()
	check(t, n.start())
	check(t, n.log.Tidy(ranges[1].First, ranges[3].Last)) // spares what the plan has built
	check(t, n.fsys.Fault("on create * fail EROFS"))
	second := build()
	n.fsys.ClearFaults()
	if !bytes.Equal(first.Encode(), second.Encode()) {
		t.Fatalf("%v, then %v", first, second)
	}
	if s := n.log.Stats(); s.Built != 3 || s.Stray != 0 {
		t.Fatalf("%+v", s)
	}
	check(t, n.commit(second))
	n.expect(t, 0, 1000, "**")
}

// TestDiskErrorsEndTheBuildOfALayer: nothing that could not be finished is named.
func TestDiskErrorsEndTheBuildOfALayer(t *testing.T) {
	for _, fault := range []string{
		"on create *.tmp fail EACCES", "on write *.tmp limit 100 fail ENOSPC", "on sync *.tmp fail EIO",
		"on rename *.tmp after 1 fail EIO", "on syncdir data fail EIO",
	} {
		n := newPlanNode(t, 2)
		check(t, n.start())
		for len(n.edits) < planEntries {
			check(t, n.next())
		}
		check(t, n.fsys.Fault(fault))
		if err := n.compactRanges(n.log.Manifest().Ranges()); err == nil || !strings.Contains(err.Error(), "data") {
			t.Fatalf("%s: %v", fault, err)
		}
		n.fsys.ClearFaults()
		if s := n.log.Stats(); s.Built != 0 || len(n.edits) != planEntries {
			t.Fatalf("%s: %+v", fault, s)
		}
		check(t, n.run())
		n.whole(t, fault)
	}
}
