package roster

import (
	"context"
	"sync"

	"github.com/hashicorp/raft"
)

// demands counts what Raft has still to answer. Raft that is shut down forgets what it has
// not handed to the state machine, and whoever waits for that would wait for ever. Safe for
// concurrent use; make with newDemands.
type demands struct {
	mu    sync.Mutex
	open  int
	ended bool
	none  chan struct{} // closed when ended and none is open
}

func newDemands() *demands { return &demands{none: make(chan struct{})} }

func (d *demands) begin() (ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended {
		d.open++
	}
	return !d.ended
}

func (d *demands) answered() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open--; d.ended && d.open == 0 {
		close(d.none)
	}
}

func (d *demands) end() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended && d.open == 0 {
		close(d.none)
	}
	d.ended = true
	return d.none
}

// End lets the roster ask nothing of Raft any more. What it returns is closed when all
// that it asked for was answered: then Raft may be shut down.
func (r *Roster) End() <-chan struct{} { return r.demands.end() }

// demand asks Raft for something and waits for the answer, or for ctx.
func (r *Roster) demand(ctx context.Context, what func(*raft.Raft) raft.Future) error {
	if !r.demands.begin() {
		return raft.ErrRaftShutdown
	}
	f := what(r.Raft())
	result := make(chan error, 1)
	go func() {
		result <- f.Error()
		r.demands.answered()
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
