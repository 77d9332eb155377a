package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
	"github.com/oklog/run"
)

const (
	// drainWait bounds the wait for entries in flight when a node ends: a leader
	// without a majority answers within its lease, a healthy one at once.
	drainWait = 2 * time.Second
	// endWait bounds the whole end. What hangs longer waits for a dead disk.
	endWait = 6 * time.Second
)

// errHung is joined to what Run returns when it left goroutines behind.
var errHung = errors.New("raft did not end in time and was left behind: a write or a call to a peer hangs")

// Run runs until ctx ends (graceful: leadership is handed over; nil) or until
// something fails for good (the error says what: disk, damage, halt). Where a
// write hangs for ever, Run returns all the same and leaves its goroutine behind:
// the process is expected to end. Run may be called once.
func (e *Engine) Run(ctx context.Context) error {
	r, err := e.start()
	if err != nil {
		return err
	}
	var (
		g               run.Group
		cause           error
		collected       = make(chan struct{})
		work, endOfWork = context.WithCancel(context.Background())
	)
	defer endOfWork()
	g.Add(func() error {
		select {
		case <-ctx.Done():
			return nil
		case err := <-e.halted:
			return err
		case <-e.life.Done():
			return nil
		}
	}, func(err error) {
		cause = err
		e.end(err)
	})
	g.Add(func() error {
		<-e.life.Done()
		e.stop(r, collected, cause == nil)
		return nil
	}, func(error) {})
	g.Add(e.committer.cut, func(error) { e.committer.close() })
	g.Add(func() error {
		defer close(collected)
		return e.committer.collect()
	}, func(error) {})
	for _, actor := range []func(context.Context) error{
		e.lead, e.history.Build, e.upkeep.Repair, e.upkeep.Scrub, e.snapshot, e.dog.Run, e.catchUp, e.compact, e.roster.Watch, e.filler.Run,
	} {
		g.Add(func() error { return actor(work) }, func(error) { endOfWork() })
	}
	ended := make(chan error, 1)
	go func() { ended <- g.Run() }()

	<-e.life.Done()
	select {
	case err := <-ended:
		return err
	case <-time.After(endWait):
		e.committer.abandon()
		return errors.Join(cause, errHung)
	}
}

// start starts Raft, which restores the state machine from the newest snapshot.
func (e *Engine) start() (*raft.Raft, error) {
	e.starting.Lock()
	defer e.starting.Unlock()
	if e.running() != nil {
		panic("an engine runs once")
	}
	type outcome struct {
		raft *raft.Raft
		err  error
	}
	// A log store may end the goroutine that reads damage from it (package raftlog
	// does, so that Raft does not panic): this one must live on to say so.
	started := make(chan outcome, 1)
	go func() {
		defer close(started)
		r, err := raft.NewRaft(e.raftConfig(), e.machine, e.seams.Logs, e.seams.Stable, e.machine.Snapshots(e.seams.Snapshots), e.seams.Transport)
		started <- outcome{r, err}
	}()
	o, ok := <-started
	if !ok {
		return nil, errors.New("start raft: its log failed")
	}
	r, err := o.raft, o.err
	if err != nil {
		select {
		case err = <-e.halted: // of a snapshot; Raft has told its log alone
		default:
		}
		return nil, fmt.Errorf("start raft: %w", err)
	}
	e.committer.raft = r
	e.former = r.LastIndex()
	e.raft.Store(r)
	return r, nil
}

// stop ends Raft: first the entries in flight and changes of members, so that their outcomes
// are known; then leadership, if it can be handed over; then Raft, whose calls to peers that
// do not answer would otherwise be waited for as long as a snapshot may take.
func (e *Engine) stop(r *raft.Raft, collected <-chan struct{}, graceful bool) {
	late, cancel := context.WithTimeout(context.Background(), drainWait)
	defer cancel()
	for _, answered := range []<-chan struct{}{collected, e.roster.End()} {
		select {
		case <-answered:
		case <-late.Done():
		}
	}
	if graceful && r.State() == raft.Leader && len(r.GetConfiguration().Configuration().Servers) > 1 {
		if err := r.LeadershipTransfer().Error(); err != nil {
			e.log.Warn("leadership was not handed over", "error", err)
		}
	}
	ended := r.Shutdown()
	if t, ok := e.seams.Transport.(raft.WithClose); ok {
		if err := t.Close(); err != nil {
			e.log.Warn("the transport did not close well", "error", err)
		}
	}
	if err := ended.Error(); err != nil {
		e.log.Warn("raft did not end well", "error", err)
	}
	close(e.committer.dead)
}
