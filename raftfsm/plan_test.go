package raftfsm

import (
	"errors"
	"reflect"
	"testing"

	"chorale/segments"
)

// TestPlanWithChapters: it has a version of its own, which a snapshot takes along; without
// chapters an entry is what it was before there were any.
func TestPlanWithChapters(t *testing.T) {
	f := newFixture(t, 500)
	for _, e := range randomEntries(4, 4) {
		f.must(e)
	}
	f.build()
	want := Plan{Inputs: []segments.Hash{f.history.Manifest().Files[0].Hash}, Stores: 2, Chapter: 1 << 20}
	plain := want
	plain.Chapter = 0
	for version, p := range map[byte]Plan{1: plain, 2: want} {
		b := EncodePlan(p)
		if e, err := DecodeEntry(b); err != nil || b[1] != version || !reflect.DeepEqual(e.Plan, p) {
			t.Errorf("version %d of %+v: %+v, %v", b[1], p, e.Plan, err)
		}
	}
	bad := EncodePlan(want)
	clear(bad[8:12])
	if _, err := DecodeEntry(bad); !errors.Is(err, ErrCorrupt) {
		t.Errorf("chapters of no bytes: %v", err)
	}
	f.must(EncodePlan(want))
	other := newFixture(t, 0)
	if err := other.restore(f.snapshot()); err != nil {
		t.Fatal(err)
	}
	if p, _ := other.fsm.Plan(); !reflect.DeepEqual(p.Plan, want) {
		t.Errorf("restored %+v, want %+v", p, want)
	}
}
