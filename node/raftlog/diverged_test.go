package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// nothing is a state machine that only counts.
type nothing struct{ applied []string }

func (n *nothing) Apply(l *raft.Log) any               { n.applied = append(n.applied, string(l.Data)); return nil }
func (n *nothing) Snapshot() (raft.FSMSnapshot, error) { return empty{}, nil }
func (n *nothing) Restore(io.ReadCloser) error         { n.applied = nil; return nil }

type empty struct{}

func (empty) Persist(s raft.SnapshotSink) error { return s.Close() }
func (empty) Release()                          {}

// follower is a Raft node whose leader is the test.
type follower struct {
	t      *testing.T
	raft   *raft.Raft
	fsm    *nothing
	log    raft.LogStore
	leader *raft.InmemTransport
}

func newFollower(t *testing.T, log raft.LogStore, stable raft.StableStore, snaps raft.SnapshotStore) *follower {
	c := raft.DefaultConfig()
	c.LocalID = "follower"
	c.Logger = hclog.NewNullLogger()
	c.TrailingLogs = 4
	c.HeartbeatTimeout, c.ElectionTimeout = time.Hour, time.Hour // it never becomes a leader
	_, own := raft.NewInmemTransport("follower")
	_, leader := raft.NewInmemTransport("leader")
	own.Connect("leader", leader)
	leader.Connect("follower", own)
	fsm := &nothing{}
	r, err := raft.NewRaft(c, fsm, log, stable, snaps, own)
	if err != nil {
		t.Fatal(err)
	}
	return &follower{t, r, fsm, log, leader}
}

func (f *follower) stop() {
	if err := f.raft.Shutdown().Error(); err != nil {
		f.t.Fatal(err)
	}
	f.leader.Close()
}

func header() raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("leader"), Addr: []byte("leader")}
}

// append sends the entries first..last of the given term behind an entry of term
// prevTerm, and reports whether they were taken.
func (f *follower) append(term, prevTerm, first, last, commit uint64) bool {
	f.t.Helper()
	req := raft.AppendEntriesRequest{
		RPCHeader: header(), Term: term,
		PrevLogEntry: first - 1, PrevLogTerm: prevTerm, LeaderCommitIndex: commit,
	}
	for i := first; i <= last; i++ {
		req.Entries = append(req.Entries, &raft.Log{Index: i, Term: term, Data: fmt.Appendf(nil, "%d.%d", term, i)})
	}
	var resp raft.AppendEntriesResponse
	if err := f.leader.AppendEntries("follower", "follower", &req, &resp); err != nil {
		f.t.Fatal(err)
	}
	return resp.Success
}

func (f *follower) install(term, index uint64) bool {
	req := raft.InstallSnapshotRequest{
		RPCHeader: header(), SnapshotVersion: raft.SnapshotVersionMax, Term: term,
		LastLogIndex: index, LastLogTerm: term, Configuration: raft.EncodeConfiguration(raft.Configuration{}),
		ConfigurationIndex: 1, Size: 4,
	}
	var resp raft.InstallSnapshotResponse
	err := f.leader.InstallSnapshot("follower", "follower", &req, &resp, bytes.NewReader([]byte("data")))
	return err == nil && resp.Success
}

// entries lists what the log holds as term.index.
func (f *follower) entries() string {
	first, _ := f.log.FirstIndex()
	last, _ := f.log.LastIndex()
	var b bytes.Buffer
	for i := first; i <= last && i > 0; i++ {
		var l raft.Log
		if err := f.log.GetLog(i, &l); err != nil {
			fmt.Fprintf(&b, " %v", err)
			continue
		}
		fmt.Fprintf(&b, " %d.%d", l.Term, l.Index)
	}
	return b.String()
}

// A follower that was the leader of term 1 has entries that nobody else has, far
// more than TrailingLogs. The cluster went on without it: its snapshot ends at
// seq 10 of term 2.
func diverge(f *follower, tail uint64) {
	if !f.append(1, 0, 1, tail, 2) {
		f.t.Fatal("the first entries were not taken")
	}
	if !f.install(2, 10) {
		f.t.Fatal("the snapshot was not installed")
	}
}

func TestFollowerThatDivergedConverges(t *testing.T) {
	for _, tail := range []uint64{6, 9, 11, 40} {
		t.Run(fmt.Sprint("tail to ", tail), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := raft.NewInmemStore()
				s := wrap(t, nopCloser{inner})
				f := newFollower(t, s, s, s.Snapshots(raft.NewInmemSnapshotStore()))
				defer f.stop()
				diverge(f, tail)
				if !f.append(2, 2, 11, 13, 12) {
					t.Fatalf("entries behind the snapshot are refused; the log holds%s", f.entries())
				}
				if got, want := f.entries(), " 2.11 2.12 2.13"; got != want {
					t.Errorf("the log holds%s, want%s", got, want)
				}
				synctest.Wait()
				if got, want := fmt.Sprint(f.fsm.applied), "[2.11 2.12]"; got != want {
					t.Errorf("applied %s, want %s", got, want)
				}
			})
		})
	}
}

// Where the log ends exactly at the snapshot's end, Raft's memory is wrong: the
// node ends, and the next start mends it.
func TestFollowerThatDivergedToTheSnapshotsEndStartsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, snaps := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
		s := wrap(t, nopCloser{inner})
		f := newFollower(t, s, s, s.Snapshots(snaps))
		f.append(1, 0, 1, 10, 2)
		if f.install(2, 10) {
			t.Error("the snapshot was installed")
		}
		if err := s.Err(); !errors.Is(err, ErrStartAgain) {
			t.Errorf("the store says %v", err)
		}
		f.stop()

		s = wrap(t, nopCloser{inner})
		if err := s.Reconcile(s.Snapshots(snaps)); err != nil {
			t.Fatal(err)
		}
		f = newFollower(t, s, s, s.Snapshots(snaps))
		defer f.stop()
		if !f.append(2, 2, 11, 13, 12) {
			t.Errorf("after the start the log holds%s", f.entries())
		}
	})
}

// A leader that has not heard how far a follower has come may send it a snapshot
// that ends before the follower's own. The follower stays where it is, and goes on
// when the leader has understood. (Found by the simulation.)
func TestOlderSnapshotIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := wrap(t, nopCloser{raft.NewInmemStore()})
		f := newFollower(t, s, s, s.Snapshots(raft.NewInmemSnapshotStore()))
		defer f.stop()
		f.append(1, 0, 1, 20, 20)
		synctest.Wait()
		if err := f.raft.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		if f.append(1, 1, 11, 12, 20) {
			t.Errorf("entries behind 10 were taken; the log holds%s", f.entries())
		}
		if f.install(1, 10) {
			t.Error("the state machine was put back to 10")
		}
		if !f.append(1, 1, 21, 22, 22) {
			t.Errorf("entries behind 20 are refused; the log holds%s", f.entries())
		}
		synctest.Wait()
		if n := len(f.fsm.applied); n != 22 {
			t.Errorf("%d entries are applied, want 22", n)
		}
	})
}

// A snapshot that ends where the follower has been for long may come all the same: from
// a leader that did not hear the answer to the first one, or from what it still has on
// the way to an earlier life at the same address. The entries behind it, which were
// acknowledged, stay. (Found by the simulation: they were deleted, and Raft panicked.)
func TestSnapshotThatIsPassedKeepsTheLog(t *testing.T) {
	for _, again := range []uint64{10, 11, 14, 16} {
		for _, own := range []bool{false, true} { // whether the log begins right behind the first snapshot
			t.Run(fmt.Sprint(again, " own ", own), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := wrap(t, nopCloser{raft.NewInmemStore()})
					f := newFollower(t, s, s, s.Snapshots(raft.NewInmemSnapshotStore()))
					defer f.stop()
					if own {
						f.append(1, 0, 1, 10, 10)
						synctest.Wait()
						if err := f.raft.Snapshot().Error(); err != nil {
							t.Fatal(err)
						}
					} else if !f.install(1, 10) {
						t.Fatal("the first snapshot was not installed")
					}
					if !f.append(1, 1, 11, 16, 14) {
						t.Fatalf("entries behind the snapshot are refused; the log holds%s", f.entries())
					}
					synctest.Wait()
					if !f.install(1, again) {
						t.Fatal("the second snapshot was not installed")
					}
					if !f.append(1, 1, 17, 18, 18) {
						t.Fatalf("entries behind 16 are refused; the log holds%s", f.entries())
					}
					synctest.Wait()
					if last := f.raft.AppliedIndex(); last != 18 {
						t.Errorf("applied to %d, want 18; the log holds%s", last, f.entries())
					}
					if got, want := len(f.fsm.applied), int(18-again); got != want {
						t.Errorf("applied %v behind the second snapshot, want %d entries", f.fsm.applied, want)
					}
				})
			})
		}
	}
}

// What Raft does without the guard, so that we notice when it mends itself.
func TestRaftAloneRefusesAfterSnapshot(t *testing.T) {
	for _, monotonic := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			inner := raft.NewInmemStore()
			var log raft.LogStore = inner
			if monotonic {
				log = monotonicStore{inner}
			}
			f := newFollower(t, log, inner, raft.NewInmemSnapshotStore())
			defer f.stop()
			diverge(f, 40)
			if f.append(2, 2, 11, 13, 12) {
				t.Errorf("monotonic %v: raft has mended issue 697: the guard's part of it can go", monotonic)
			}
		})
	}
}

type monotonicStore struct{ raft.LogStore }

func (monotonicStore) IsMonotonic() bool { return true }

type nopCloser struct{ *raft.InmemStore }

func (nopCloser) Close() error { return nil }

func wrap(t *testing.T, inner Inner) *Store {
	t.Helper()
	s, err := Wrap(inner, "test.db", 0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
