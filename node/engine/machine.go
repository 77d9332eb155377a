package engine

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"chorale/raftfsm"

	"github.com/hashicorp/raft"
)

// applyDeadline is how long one entry may take to apply. A leader whose Apply
// hangs would keep its followers quiet with heartbeats for ever, and a follower
// would drop out of the quorum without a word: so the node ends instead.
const applyDeadline = 10 * time.Second

// machine stands between Raft and the state machine. It adds what needs a clock:
// the time of the running call, and the bytes applied since the last snapshot. It
// does not implement raft.BatchingFSM, since entries are batches already.
type machine struct {
	fsm *raftfsm.FSM
	// since is when the running Apply began, in ns since 1970; 0 while none runs.
	since atomic.Int64
	// bytes and entries were applied since the last snapshot.
	bytes, entries atomic.Int64
}

// Apply implements raft.FSM.
func (m *machine) Apply(l *raft.Log) any {
	m.since.Store(time.Now().UnixNano())
	defer m.since.Store(0)
	m.bytes.Add(int64(len(l.Data)))
	m.entries.Add(1)
	return m.fsm.Apply(l)
}

// Snapshot implements raft.FSM.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	m.bytes.Store(0)
	m.entries.Store(0)
	return m.fsm.Snapshot()
}

// Restore implements raft.FSM.
func (m *machine) Restore(r io.ReadCloser) error { return m.fsm.Restore(r) }

// watch returns an error when an Apply runs for longer than applyDeadline, nil
// when ctx ends.
func (m *machine) watch(ctx context.Context) error {
	tick := time.NewTicker(applyDeadline / 10)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		since := m.since.Load()
		if since == 0 {
			continue
		}
		if d := time.Since(time.Unix(0, since)); d > applyDeadline {
			return fmt.Errorf("applying one entry has taken %v, at most %v is allowed: the disk hangs", d.Round(time.Second), applyDeadline)
		}
	}
}
