package raftlog

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/hashicorp/raft"
)

// TestReconcile walks through logs and snapshots as they may be found at a start.
//
//	log FIRST-LAST TERM [FIRST-LAST TERM ...]   what the log holds
//	snapshots INDEX/TERM ...                    what the store lists, oldest first
//	known INDEX/TERM                            the newest snapshot this node ever had
//	damage INDEX                                flips a bit of an entry
//	start                                       reconciles; prints what Raft would see
func TestReconcile(t *testing.T) {
	datadriven.Walk(t, "testdata/reconcile", func(t *testing.T, path string) {
		var inner *raft.InmemStore
		var list []*raft.SnapshotMeta
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "log":
				inner, list = raft.NewInmemStore(), nil
				for i := 0; i+1 < len(d.CmdArgs); i += 2 {
					var first, last, term uint64
					fmt.Sscanf(d.CmdArgs[i].String(), "%d-%d", &first, &last)
					fmt.Sscanf(d.CmdArgs[i+1].String(), "%d", &term)
					for j := first; j <= last; j++ {
						// Around the guard, which refuses a hole.
						if err := inner.StoreLog(seal(&raft.Log{Index: j, Term: term})); err != nil {
							t.Fatal(err)
						}
					}
				}
			case "snapshots":
				for _, a := range d.CmdArgs {
					var m raft.SnapshotMeta
					fmt.Sscanf(a.String(), "%d/%d", &m.Index, &m.Term)
					list = append([]*raft.SnapshotMeta{&m}, list...)
				}
			case "known":
				var m mark
				fmt.Sscanf(d.CmdArgs[0].String(), "%d/%d", &m.index, &m.term)
				if err := wrap(t, nopCloser{inner}).remember(m); err != nil {
					t.Fatal(err)
				}
			case "damage":
				var index uint64
				fmt.Sscanf(d.CmdArgs[0].String(), "%d", &index)
				var l raft.Log
				if err := inner.GetLog(index, &l); err != nil {
					t.Fatal(err)
				}
				l.Term ^= 4
				inner.StoreLog(&l)
			case "start":
				return start(t, inner, list)
			default:
				t.Fatalf("unknown command %q", d.Cmd)
			}
			return ""
		})
	})
}

func start(t *testing.T, inner *raft.InmemStore, list []*raft.SnapshotMeta) string {
	s := wrap(t, nopCloser{inner})
	snaps := s.Snapshots(listed{list: list})
	if err := s.Reconcile(snaps); err != nil {
		return fmt.Sprintf("refused: %v\n", err)
	}
	var b strings.Builder
	fit, _ := snaps.List()
	fmt.Fprint(&b, "snapshots:")
	for _, m := range fit {
		fmt.Fprintf(&b, " %d/%d", m.Index, m.Term)
	}
	first, last, _ := s.bounds()
	fmt.Fprintf(&b, "\nlog: %d-%d\n", first, last)
	if len(fit) > 0 {
		var l raft.Log
		if err := s.GetLog(fit[0].Index, &l); err != nil {
			fmt.Fprintf(&b, "entry %d: %v\n", fit[0].Index, err)
		} else {
			fmt.Fprintf(&b, "entry %d: term %d\n", l.Index, l.Term)
		}
	}
	return b.String()
}

// listed is a store of snapshots that only lists.
type listed struct {
	raft.SnapshotStore
	list []*raft.SnapshotMeta
}

func (l listed) List() ([]*raft.SnapshotMeta, error) { return l.list, nil }

// A hole cannot be written either.
func TestStoreRefusesHole(t *testing.T) {
	s := wrap(t, newFaulty())
	if err := s.StoreLogs([]*raft.Log{{Index: 1}, {Index: 2}}); err != nil {
		t.Fatal(err)
	}
	if err := s.StoreLog(&raft.Log{Index: 4}); !errors.Is(err, ErrDiscontinuous) || !errors.Is(err, ErrFailed) {
		t.Errorf("a hole: %v", err)
	}
}

// What stands behind the entries that are stored was given up.
func TestStoreReplacesTail(t *testing.T) {
	s := wrap(t, newFaulty())
	s.StoreLogs([]*raft.Log{{Index: 1, Term: 1}, {Index: 2, Term: 1}, {Index: 3, Term: 1}})
	if err := s.StoreLog(&raft.Log{Index: 2, Term: 2}); err != nil {
		t.Fatal(err)
	}
	if _, last, _ := s.bounds(); last != 2 {
		t.Errorf("the log ends at %d", last)
	}
}
