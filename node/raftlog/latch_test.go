package raftlog

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// faulty is a store below whose writes and reads fail, hang or panic when told so.
type faulty struct {
	*raft.InmemStore
	calls int           // of StoreLogs
	write error         // answer of the next writes; nil is success
	read  error         // of GetLog
	panic any           // of GetLog
	hang  chan struct{} // if set, a write waits until it is closed

	closed bool
}

func newFaulty() *faulty { return &faulty{InmemStore: raft.NewInmemStore()} }

func (f *faulty) Close() error { f.closed = true; return nil }

func (f *faulty) fault() error {
	if f.hang != nil {
		<-f.hang
	}
	return f.write
}

func (f *faulty) StoreLogs(logs []*raft.Log) error {
	f.calls++
	if err := f.fault(); err != nil {
		return err
	}
	return f.InmemStore.StoreLogs(logs)
}

func (f *faulty) DeleteRange(first, last uint64) error {
	if err := f.fault(); err != nil {
		return err
	}
	return f.InmemStore.DeleteRange(first, last)
}

func (f *faulty) SetUint64(key []byte, v uint64) error {
	if err := f.fault(); err != nil {
		return err
	}
	return f.InmemStore.SetUint64(key, v)
}

func (f *faulty) GetLog(index uint64, l *raft.Log) error {
	if f.panic != nil {
		panic(f.panic)
	}
	if f.read != nil {
		return f.read
	}
	return f.InmemStore.GetLog(index, l)
}

var errDisk = errors.New("input/output error")

// The first failed write is final: the same error for ever, and the store below is
// never asked again, although its disk has recovered.
func TestFirstFailureIsFinal(t *testing.T) {
	inner := newFaulty()
	s := wrap(t, inner)
	inner.write = errDisk
	first := s.StoreLog(&raft.Log{Index: 1, Term: 1})
	if !errors.Is(first, errDisk) || !errors.Is(first, ErrFailed) || !strings.Contains(first.Error(), "test.db: store") {
		t.Fatalf("the failure says %q", first)
	}
	inner.write = nil
	calls := inner.calls
	var l raft.Log
	for name, err := range map[string]error{
		"StoreLogs":   s.StoreLogs([]*raft.Log{{Index: 1}}),
		"DeleteRange": s.DeleteRange(1, 1),
		"GetLog":      s.GetLog(1, &l),
		"Set":         s.Set([]byte("k"), nil),
		"SetUint64":   s.SetUint64([]byte("k"), 1),
		"Err":         s.Err(),
		"Run":         s.Run(t.Context()),
	} {
		if err != first {
			t.Errorf("%s says %v", name, err)
		}
	}
	if _, err := s.FirstIndex(); err != first {
		t.Errorf("FirstIndex says %v", err)
	}
	if inner.calls != calls {
		t.Error("the store below was asked again")
	}
	select {
	case <-s.Failed():
	default:
		t.Error("Failed is not closed")
	}
}

// What is absent is an answer, as Raft knows it.
func TestAbsentIsNoFailure(t *testing.T) {
	s := wrap(t, newFaulty())
	var l raft.Log
	if err := s.GetLog(7, &l); err != raft.ErrLogNotFound {
		t.Errorf("a missing entry: %v", err)
	}
	if _, err := s.Get([]byte("k")); err == nil || err.Error() != "not found" {
		t.Errorf("a missing key: %v", err)
	}
	if err := s.Err(); err != nil {
		t.Error(err)
	}
}

func TestReadFailures(t *testing.T) {
	for name, break_ := range map[string]func(*faulty){
		"error": func(f *faulty) { f.read = errDisk },
		"panic": func(f *faulty) { f.panic = "page 7: bad magic" },
	} {
		t.Run(name, func(t *testing.T) {
			inner := newFaulty()
			s := wrap(t, inner)
			break_(inner)
			var l raft.Log
			if err := s.GetLog(1, &l); !errors.Is(err, ErrFailed) {
				t.Errorf("read says %v", err)
			}
			if s.Err() == nil {
				t.Error("not latched")
			}
		})
	}
}

// A write that hangs is a failure while it still hangs; what it says when it comes
// back does not count.
func TestHangingWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFaulty()
		s := wrap(t, inner)
		inner.hang = make(chan struct{})
		stored := make(chan error, 1)
		start := time.Now()
		go func() { stored <- s.StoreLog(&raft.Log{Index: 1}) }()
		err := s.Run(t.Context())
		if !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "more than 10s") {
			t.Errorf("Run says %v", err)
		}
		if d := time.Since(start); d < DefaultDeadline || d > DefaultDeadline*13/10 {
			t.Errorf("noticed after %v", d)
		}
		if got := s.Close(); got != err || inner.closed {
			t.Errorf("Close says %v; it would have waited for the write", got)
		}
		close(inner.hang)
		if got := <-stored; got != err {
			t.Errorf("the write came back with %v", got)
		}
		if got := s.Close(); got != nil || !inner.closed {
			t.Errorf("Close says %v", got)
		}
	})
}

func TestSlowWriteIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFaulty()
		s := wrap(t, inner)
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- s.Run(ctx) }()
		inner.hang = make(chan struct{})
		time.AfterFunc(DefaultDeadline-time.Second, func() { close(inner.hang) })
		if err := s.StoreLog(&raft.Log{Index: 1}); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}

// Overdue is the watch for who has no Run.
func TestOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFaulty()
		s := wrap(t, inner)
		inner.hang = make(chan struct{})
		done := make(chan error, 1)
		go func() { done <- s.DeleteRange(1, 2) }()
		synctest.Wait()
		if err := s.Overdue(time.Now().Add(DefaultDeadline)); err != nil {
			t.Errorf("at the deadline: %v", err)
		}
		err := s.Overdue(time.Now().Add(DefaultDeadline + 1))
		if !errors.Is(err, ErrFailed) {
			t.Errorf("behind the deadline: %v", err)
		}
		close(inner.hang)
		if got := <-done; got != err {
			t.Errorf("the call came back with %v", got)
		}
	})
}

// Raft panics where its term cannot be saved. While Run runs, its goroutine ends
// instead, and Shutdown returns.
func TestRaftEndsWithoutPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFaulty()
		s := wrap(t, inner)
		c := raft.DefaultConfig()
		c.LocalID, c.Logger = "a", hclog.NewNullLogger()
		_, trans := raft.NewInmemTransport("a")
		defer trans.Close()
		snaps := s.Snapshots(raft.NewInmemSnapshotStore())
		servers := raft.Configuration{Servers: []raft.Server{{ID: "a", Address: "a"}}}
		if err := raft.BootstrapCluster(c, s, s, snaps, trans, servers); err != nil {
			t.Fatal(err)
		}
		r, err := raft.NewRaft(c, &nothing{}, s, s, snaps, trans)
		if err != nil {
			t.Fatal(err)
		}
		inner.write = errDisk // the first election wants to save its term
		if err := s.Run(t.Context()); !errors.Is(err, errDisk) || !strings.Contains(err.Error(), "test.db: set") {
			t.Errorf("Run says %v", err)
		}
		if err := r.Shutdown().Error(); err != nil {
			t.Error(err)
		}
		// Nor does it panic in the time between the end of Run and its own.
		returned, ended := false, make(chan struct{})
		go func() {
			defer close(ended)
			_ = s.SetUint64([]byte("CurrentTerm"), 9)
			returned = true
		}()
		if <-ended; returned {
			t.Error("after the failure a call that Raft panics over came back")
		}
	})
}

// failingSnapshots gives sinks that cannot be made durable.
type failingSnapshots struct{ raft.SnapshotStore }

type failingSink struct{ raft.SnapshotSink }

func (s failingSnapshots) Create(v raft.SnapshotVersion, index, term uint64, c raft.Configuration, at uint64, t raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(v, index, term, c, at, t)
	return failingSink{sink}, err
}

func (s failingSink) Close() error { return errDisk }

// A snapshot that could not be synced is as final as an entry: the folder's next sync
// may promise nothing, and the log would be cut on its word. (Found by the simulation.)
func TestFailedSnapshotIsFinal(t *testing.T) {
	s := wrap(t, newFaulty())
	sink, err := s.Snapshots(failingSnapshots{raft.NewInmemSnapshotStore()}).Create(1, 10, 1, raft.Configuration{}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); !errors.Is(err, errDisk) || !errors.Is(err, ErrFailed) {
		t.Errorf("the snapshot's failure says %v", err)
	}
	if err := s.StoreLog(&raft.Log{Index: 1, Term: 1}); !errors.Is(err, errDisk) {
		t.Errorf("the log goes on: %v", err)
	}
}
