// Package machine stands between Raft and the state machine. It adds what the state machine
// must not know: turns, the watchdog, how much was applied since the last snapshot, and that
// a node makes a snapshot or takes one in, and never both at a time.
package machine

import (
	"io"
	"sync/atomic"

	"chorale/node/watchdog"
	"chorale/raftfsm"
	"chorale/segments/data"

	"github.com/hashicorp/raft"
)

// Machine implements raft.FSM. It does not implement raft.BatchingFSM, since entries are
// batches already. Views are those of the state machine, and for any goroutine.
type Machine struct {
	*raftfsm.FSM
	turn     data.IOLock // held for an entry, a capture or a restore
	dog      *watchdog.Dog
	applying atomic.Bool
	// bytes and entries were applied since the last snapshot.
	bytes, entries atomic.Int64
	passage        passage
	restored       func()
}

// New wraps a state machine. restored is told of each restore.
func New(fsm *raftfsm.FSM, dog *watchdog.Dog, restored func()) *Machine {
	return &Machine{FSM: fsm, dog: dog, turn: data.NewIOLock(), restored: restored}
}

// Apply implements raft.FSM.
func (m *Machine) Apply(l *raft.Log) any {
	m.turn.Lock()
	defer m.turn.Unlock()
	defer m.dog.Begin("applying an entry")()
	m.applying.Store(true)
	defer m.applying.Store(false)
	m.bytes.Add(int64(len(l.Data)))
	m.entries.Add(1)
	return m.FSM.Apply(l)
}

// Applying reports whether an entry is being applied. Any goroutine.
func (m *Machine) Applying() bool { return m.applying.Load() }

// Drained reports whether everything known to be committed is applied. The commit
// index is 0 until a leader has told it. Any goroutine.
func (m *Machine) Drained(r *raft.Raft) bool {
	commit := r.CommitIndex()
	return commit > 0 && r.AppliedIndex() >= commit && r.Stats()["fsm_pending"] == "0" && !m.Applying()
}

// Replayed reports whether all is applied that this node may have applied in a former
// life: its log up to former, the last index at the start, but for what a leader has cut
// off since. The state machine does not see the entries of Raft's own, which may be the last
// ones there; under load, when all that is committed is seldom applied, it sees later ones.
// Any goroutine.
func (m *Machine) Replayed(r *raft.Raft, former uint64) bool {
	index := m.FSM.View().Index
	if m.Drained(r) {
		index = max(index, r.AppliedIndex())
	}
	return index >= min(former, r.LastIndex())
}

// Applied is how much was applied since the last snapshot. Any goroutine.
func (m *Machine) Applied() (bytes, entries int64) { return m.bytes.Load(), m.entries.Load() }

// Snapshot implements raft.FSM.
func (m *Machine) Snapshot() (raft.FSMSnapshot, error) {
	s, err := m.passage.make(m.Capture)
	if err == nil {
		m.bytes.Store(0)
		m.entries.Store(0)
	}
	return s, err
}

// Capture is the state between two entries. Any goroutine.
func (m *Machine) Capture() (raft.FSMSnapshot, error) {
	m.turn.Lock()
	defer m.turn.Unlock()
	return m.FSM.Snapshot()
}

// Restore implements raft.FSM.
func (m *Machine) Restore(r io.ReadCloser) error {
	defer m.passage.taken()
	m.turn.Lock()
	defer m.turn.Unlock()
	err := m.FSM.Restore(r)
	if err == nil {
		m.restored()
	}
	return err
}

// Still runs f while nothing is applied. Any goroutine.
func (m *Machine) Still(f func()) {
	m.turn.Lock()
	defer m.turn.Unlock()
	f()
}

// Snapshots wraps the store of snapshots that Raft is given with this machine.
func (m *Machine) Snapshots(inner raft.SnapshotStore) raft.SnapshotStore {
	return &store{inner, &m.passage}
}

// Trailing is how many entries of their mean size make so many bytes, within bounds: they
// stay in the log behind a snapshot, so that a follower that was away for a moment is
// sent entries and not a snapshot.
func Trailing(bytes, entries, keep, least, most int64) uint64 {
	mean := max(bytes/max(entries, 1), 1)
	return uint64(min(max(keep/mean, least), most))
}
