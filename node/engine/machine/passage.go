package machine

import (
	"errors"
	"io"
	"sync"

	"github.com/hashicorp/raft"
)

// ErrBusy refuses a snapshot that would be made while another one comes in, or the other way
// round. Raft tries again.
var ErrBusy = errors.New("another snapshot is under way on this node")

// passage lets one snapshot through at a time, from the moment at which the state is looked
// at until Raft has cut its log, or from the first byte that comes in until the state is
// replaced.
//
// hashicorp/raft (v1.8.0) does both side by side. If the one that comes in is older, which it
// is where the leader has not heard yet how far this node is, the state goes back to it, and
// the entries up to the one that is made here are gone from the log: Raft panics at the
// first of them.
type passage struct {
	mu             sync.Mutex
	making, taking bool
}

// make captures a state, if no snapshot comes in.
func (p *passage) make(capture func() (raft.FSMSnapshot, error)) (raft.FSMSnapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taking {
		return nil, ErrBusy
	}
	s, err := capture()
	if err != nil {
		return nil, err
	}
	p.making = true
	return &snapshot{s, p}, nil
}

// take lets a snapshot come in, if none is made.
func (p *passage) take() (ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taking = p.taking || !p.making
	return p.taking
}

func (p *passage) taken() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taking = false
}

func (p *passage) finished() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.making = false
}

// snapshot is one that is made here.
type snapshot struct {
	raft.FSMSnapshot
	passage *passage
}

// Persist implements raft.FSMSnapshot. Raft does not say, when it creates a sink, whether
// the snapshot is made here; this is where it turns out.
func (s *snapshot) Persist(to raft.SnapshotSink) error {
	if own, ok := to.(*sink); ok {
		own.made = true
	}
	return s.FSMSnapshot.Persist(to)
}

// Release implements raft.FSMSnapshot. Raft calls it after it has cut its log.
func (s *snapshot) Release() {
	s.FSMSnapshot.Release()
	s.passage.finished()
}

type store struct {
	raft.SnapshotStore
	passage *passage
}

// Create implements raft.SnapshotStore.
func (s *store) Create(version raft.SnapshotVersion, index, term uint64, c raft.Configuration, at uint64, t raft.Transport) (raft.SnapshotSink, error) {
	comes := s.passage.take()
	inner, err := s.SnapshotStore.Create(version, index, term, c, at, t)
	if err != nil {
		if comes {
			s.passage.taken()
		}
		return nil, err
	}
	return &sink{SnapshotSink: inner, passage: s.passage, comes: comes}, nil
}

// Open implements raft.SnapshotStore. What came in and cannot be opened is not restored.
func (s *store) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	m, r, err := s.SnapshotStore.Open(id)
	if err != nil {
		s.passage.taken()
	}
	return m, r, err
}

// sink is a snapshot that comes in, or one that was begun while one was made here: that one,
// or another that is refused in the end. One that came in completely is restored next.
type sink struct {
	raft.SnapshotSink
	passage     *passage
	comes, made bool
}

// Close implements raft.SnapshotSink.
func (s *sink) Close() error {
	if !s.comes && !s.made {
		return errors.Join(ErrBusy, s.SnapshotSink.Cancel())
	}
	err := s.SnapshotSink.Close()
	if s.comes && err != nil {
		s.passage.taken()
	}
	return err
}

// Cancel implements raft.SnapshotSink.
func (s *sink) Cancel() error {
	if s.comes {
		defer s.passage.taken()
	}
	return s.SnapshotSink.Cancel()
}
