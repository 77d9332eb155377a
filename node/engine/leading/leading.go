// Package leading is who leads a cluster, as one node knows it.
package leading

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// State is who leads. Safe for concurrent use.
type State struct {
	mu      sync.Mutex
	leader  raft.ServerID // "" if not known
	serving bool          // this node leads and has applied all that was committed before
	changed chan struct{} // closed at the next change
}

// New is the state in which no leader is known.
func New() *State { return &State{changed: make(chan struct{})} }

// Now is the leader's id, and whether it is this node and serves.
func (l *State) Now() (leader raft.ServerID, local bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leader, l.serving
}

// Set changes it.
func (l *State) Set(leader raft.ServerID, serving bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leader == leader && l.serving == serving {
		return
	}
	l.leader, l.serving = leader, serving
	close(l.changed)
	l.changed = make(chan struct{})
}

// Await is Now, but waits for a leader to be known: at most that long.
func (l *State) Await(ctx context.Context, atMost time.Duration) (leader raft.ServerID, local bool) {
	var expired <-chan time.Time
	for {
		l.mu.Lock()
		leader, local, changed := l.leader, l.serving, l.changed
		l.mu.Unlock()
		if leader != "" {
			return leader, local
		}
		if expired == nil {
			t := time.NewTimer(atMost)
			defer t.Stop()
			expired = t.C
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", false
		case <-expired:
			return "", false
		}
	}
}
