package engine

import (
	"io"
	"sync/atomic"

	"chorale/node/watchdog"
	"chorale/raftfsm"
	"chorale/segments/data"

	"github.com/hashicorp/raft"
)

// machine stands between Raft and the state machine. It adds what the state machine
// must not know: the watchdog, and how much was applied since the last snapshot. It
// does not implement raft.BatchingFSM, since entries are batches already.
type machine struct {
	fsm      *raftfsm.FSM
	turn     data.IOLock // held for an entry, a capture or a restore
	dog      *watchdog.Dog
	applying atomic.Bool
	// bytes and entries were applied since the last snapshot.
	bytes, entries atomic.Int64
}

// Apply implements raft.FSM.
func (m *machine) Apply(l *raft.Log) any {
	m.turn.Lock()
	defer m.turn.Unlock()
	defer m.dog.Begin("applying an entry")()
	m.applying.Store(true)
	defer m.applying.Store(false)
	m.bytes.Add(int64(len(l.Data)))
	m.entries.Add(1)
	return m.fsm.Apply(l)
}

// Snapshot implements raft.FSM.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	m.bytes.Store(0)
	m.entries.Store(0)
	return m.capture()
}

// capture is the state between two entries, on any goroutine.
func (m *machine) capture() (raft.FSMSnapshot, error) {
	m.turn.Lock()
	defer m.turn.Unlock()
	return m.fsm.Snapshot()
}

// Restore implements raft.FSM.
func (m *machine) Restore(r io.ReadCloser) error {
	m.turn.Lock()
	defer m.turn.Unlock()
	return m.fsm.Restore(r)
}
