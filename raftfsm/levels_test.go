package raftfsm

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"chorale/raftfsm/kept"
	"chorale/raftfsm/level"
	"chorale/raftfsm/members"
	"chorale/retention"
	"chorale/segments"

	"pgregory.net/rapid"
)

// TestLevelsHold: a build of a level reads each command of that level and of those before,
// and each snapshot of a log that had no others, however they follow on each other; and
// stops at the first command that came later, without a change, at every one of them.
func TestLevelsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		older := level.Level(rapid.IntRange(1, int(level.Built().Highest)).Draw(t, "older"))
		f := newFixture(t, 500)
		for _, e := range randomEntries(4, 4) {
			f.must(e)
		}
		f.build()
		files := f.history.Manifest().Files
		entries := [][]byte{
			randomEntries(9, 1)[0],
			EncodePlan(Plan{Inputs: []segments.Hash{files[0].Hash}, Stores: 2}),
			EncodeEdit(segments.Edit{Plan: 1, Remove: []segments.Hash{files[0].Hash}}),
			EncodeAbandon(9),
			EncodeRetain(Retention{Age: 1 << 60}),
			EncodeExpire(Expiry{Oldest: 1}),
			EncodeMember(members.Change{Op: members.Invite, ID: "n1"}),
			EncodeLevel(level.Mark{Level: level.Logged, By: "v"}),
			EncodeRules(kept.Change{Rules: []retention.Rule{{Filter: "part1/**", Age: 1}}}),
			EncodeFloors(kept.Rise{Rules: 1, Time: 1 << 50, Floors: []kept.RuleFloor{{Seq: 3}}}),
			EncodeEdit(segments.Edit{Plan: 1, Remove: []segments.Hash{files[0].Hash}, Trims: true}),
			EncodePlan(Plan{Inputs: []segments.Hash{files[0].Hash}, Stores: 2, Chapter: 1 << 20}),
			EncodeDrop(Drop{Files: []segments.Hash{files[0].Hash}}),
		}
		old := newFixture(t, 0)
		old.reads = level.Range{Lowest: 1, Highest: older}
		old.open()
		if err := old.restore(f.snapshot()); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 12).Draw(t, "entries") {
			e := entries[rapid.IntRange(0, len(entries)-1).Draw(t, "entry")]
			late := level.Of(e) > older
			before := old.snapshot()
			got := old.apply(e)
			if late {
				if !errors.Is(got.Err, ErrHalted) || !errors.Is(got.Err, ErrNewer) || len(old.halted) != 1 {
					t.Fatalf("a build of level %d says of an entry of level %d: %v", older, level.Of(e), got.Err)
				}
				again := newFixture(t, 0)
				if err := again.restore(before); err != nil {
					t.Fatal(err)
				}
				return // the newer build goes on from there
			}
			if want := f.apply(e); errors.Is(got.Err, ErrHalted) || (got.Err == nil) != (want.Err == nil) {
				t.Fatalf("a build of level %d answers %v, a newer one %v", older, got.Err, want.Err)
			}
			s := f.snapshot()
			if !bytes.Equal(s, old.snapshot()) {
				t.Fatalf("two builds have two states")
			}
			fresh := newFixture(t, 0)
			fresh.reads = old.reads
			fresh.open()
			if err := fresh.restore(s); err != nil {
				t.Fatalf("a build of level %d cannot read a snapshot of a log of no other: %v", older, err)
			}
		}
	})
}

// TestEveryKindHasALevel: the table knows each kind that is decoded, and its order is that
// of time.
func TestEveryKindHasALevel(t *testing.T) {
	last := level.First
	for k := KindGenesis; k <= KindDrop; k++ {
		since, known := k.Since()
		if !known || since < last || k.String() == "" {
			t.Errorf("%v came with level %d, the one before it with %d", k, since, last)
		}
		last = since
	}
	if plan := level.Of(EncodePlan(Plan{Chapter: 1})); plan != level.Chapters {
		t.Errorf("a plan with chapters came with level %d, want %d", plan, level.Chapters)
	}
	if last != level.Built().Highest {
		t.Errorf("the newest command came with level %d, this build reads %d", last, level.Built().Highest)
	}
	if _, err := DecodeEntry([]byte{byte(KindDrop) + 1, 1, 0, 0, 0, 0, 0, 0}); !errors.Is(err, ErrNewer) {
		t.Errorf("a further kind: %v", err)
	}
}

// TestLevelInBackup: a state with a level is founded anew with it, without members.
func TestLevelInBackup(t *testing.T) {
	f := newFixture(t, 500)
	f.must(EncodeMember(members.Change{Op: members.Invite, ID: "n1"}))
	f.must(EncodeLevel(level.Mark{Level: level.Logged, By: "v"}))
	saved, err := ReadSaved(bytes.NewReader(f.snapshot()))
	if err != nil {
		t.Fatal(err)
	}
	var to sink
	if err := saved.Refound(ClusterID{9}).Persist(&to); err != nil {
		t.Fatal(err)
	}
	f.open()
	if err := f.fsm.Restore(io.NopCloser(&to)); err != nil {
		t.Fatal(err)
	}
	if v := f.fsm.View(); v.Level.Level != level.Logged || v.Genesis.Cluster != (ClusterID{9}) {
		t.Errorf("%+v", v)
	}
}
