package raftfsm

import (
	"bytes"
	"testing"

	"chorale/raftfsm/level"
	"chorale/raftfsm/members"
)

// A state under its own cluster's id is what it was, but for the members; under another
// one it can be restored, and differs in nothing else.
func TestRefound(t *testing.T) {
	f := newFixture(t, 2_000)
	for _, e := range randomEntries(4, 12) {
		f.must(e)
	}
	f.build()
	f.must(EncodeRetain(Retention{Age: 7, Bytes: 1 << 40}))
	f.must(EncodeMember(members.Change{Op: members.Join, ID: "n1", Incarnation: 7, Voter: true}))
	full, want := f.snapshot(), f.fsm.View()
	f.fsm.setMembers(nil)
	bare := f.snapshot()

	saved, err := ReadSaved(bytes.NewReader(full))
	if err != nil {
		t.Fatal(err)
	}
	if saved.View != want || saved.Topics != f.topics.Len() || len(saved.Manifest.Files) != len(f.history.Manifest().Files) {
		t.Errorf("read %+v, %d topics, %d files; want %+v", saved.View, saved.Topics, len(saved.Manifest.Files), want)
	}
	refound := func(c ClusterID) []byte {
		var to sink
		if err := saved.Refound(c).Persist(&to); err != nil {
			t.Fatal(err)
		}
		return to.Bytes()
	}
	if !bytes.Equal(refound(testCluster), bare) {
		t.Error("under the same id the state differs from one without members")
	}
	other := ClusterID{9}
	copied := newFixture(t, 0)
	if err := copied.restore(refound(other)); err != nil {
		t.Fatal(err)
	}
	want.Genesis.Cluster = other
	want.Proven = level.Retention // no members, so nothing that came with them
	if got := copied.fsm.View(); got != want {
		t.Errorf("restored %+v, want %+v", got, want)
	}
	if list, _ := copied.fsm.Members(); len(list) != 0 {
		t.Errorf("members %v came along", list)
	}
	if _, err := ReadSaved(bytes.NewReader(full[:len(full)-1])); err == nil {
		t.Error("a cut state was taken")
	}
}
