package engine

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"chorale/node/engine/roster"
	"chorale/raftfsm"
	"chorale/segments"

	"github.com/hashicorp/raft"
	"golang.org/x/sync/errgroup"
)

const (
	// leaderWait is how long a submission waits for a leader to be known: a little
	// longer than an election, so that one failover does not become an error at
	// every client.
	leaderWait = time.Second
	// dutyPause is the pause after a duty that did not succeed.
	dutyPause = 200 * time.Millisecond
)

// lead follows who leads and, while this node does, runs its duties. It returns
// nil when ctx ends.
func (e *Engine) lead(ctx context.Context) error {
	r := e.running()
	news := make(chan raft.Observation, 16)
	observer := raft.NewObserver(news, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	})
	r.RegisterObserver(observer)
	defer r.DeregisterObserver(observer)
	// A leader that was known before the observer was there is no news.
	e.leading.Set(e.otherLeader(r), false)

	endTerm := func() {}
	defer func() {
		endTerm()
		e.leading.Set("", false)
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case up := <-r.LeaderCh():
			// A second "up" means that leadership was lost in between.
			endTerm()
			endTerm = func() {}
			e.leading.Set(e.otherLeader(r), false)
			if up {
				endTerm = e.beginTerm(ctx)
			}
		case <-news:
			if leader := e.otherLeader(r); r.State() != raft.Leader {
				e.leading.Set(leader, false)
			}
		}
	}
}

// beginTerm starts the duties of a term: to take over, to propose built segments, to
// direct compaction, to keep the members in line. The function it returns ends them and
// waits for that.
func (e *Engine) beginTerm(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var g errgroup.Group
	g.Go(func() error {
		if e.takeOver(ctx) {
			for _, duty := range []func(context.Context){e.direct, e.roster.Lead} {
				g.Go(func() error {
					duty(ctx)
					return nil
				})
			}
			e.proposeBuilt(ctx)
		}
		return nil
	})
	return func() {
		cancel()
		_ = g.Wait()
	}
}

// otherLeader is the leader's id, or "" if none is known or it is this node,
// which says so by itself once it serves.
func (e *Engine) otherLeader(r *raft.Raft) raft.ServerID {
	if _, id := r.LeaderWithID(); id != e.settings.ID {
		return id
	}
	return ""
}

// takeOver is what a leader does first: bring the state machine up to date, and found
// the cluster if nobody has. Then it serves. False if ctx ended before.
func (e *Engine) takeOver(ctx context.Context) bool {
	for _, err := e.command(ctx, nil); err != nil; _, err = e.command(ctx, nil) {
		if !pause(ctx, dutyPause) {
			return false
		}
	}
	e.replayed.Set()
	e.caughtUp.Set()
	// A publish needs a genesis before it in the log: so nothing is served before.
	for e.machine.FSM.View().Genesis.Cluster == (raftfsm.ClusterID{}) {
		if err := e.found(ctx); err != nil && !pause(ctx, dutyPause) {
			return false
		}
	}
	e.leading.Set(e.settings.ID, true)
	e.log.Info("leading", "seq", e.machine.FSM.View().LastSeq)
	return true
}

// proposeBuilt proposes the segments that are built here and on a majority, until ctx
// ends.
func (e *Engine) proposeBuilt(ctx context.Context) {
	for {
		changed := e.history.Changed()
		files := e.history.Proposals()
		if len(files) > 0 {
			built := func(h roster.Health) int { return h.Has(files) }
			propose := func(n int) error { return e.proposeFiles(ctx, files[:n]) }
			if e.roster.WithMajority(ctx, built, propose) != nil && !pause(ctx, dutyPause) {
				return
			}
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// found proposes the genesis of the cluster. A refusal means that another leader
// was first.
func (e *Engine) found(ctx context.Context) error {
	g := raftfsm.Genesis{SegmentBytes: e.settings.SegmentBytes}
	rand.Read(g.Cluster[:])
	result, err := e.command(ctx, raftfsm.EncodeGenesis(g))
	if err == nil && result.Err == nil {
		e.log.Info("founded the cluster", "cluster", fmt.Sprintf("%x", g.Cluster))
	}
	return err
}

// proposeFiles proposes files that are built here for the manifest. An error means
// that they are still to be proposed.
func (e *Engine) proposeFiles(ctx context.Context, files []segments.FileMeta) error {
	result, err := e.command(ctx, raftfsm.EncodeEdit(segments.Edit{Add: files}))
	if err != nil {
		return err
	}
	if result.Err != nil {
		// An earlier leader's edit came first; if so, the files are off the list.
		e.log.Debug("edit refused", "error", result.Err)
	}
	return result.Err
}

// command puts a command (nil: a barrier) through the log and waits for its result, if
// all members understand it.
func (e *Engine) command(ctx context.Context, command []byte) (raftfsm.Result, error) {
	if command != nil {
		if err := e.roster.Permit(ctx, command); err != nil {
			return raftfsm.Result{}, err
		}
	}
	return e.put(ctx, command)
}

// put is command for what was looked at already.
func (e *Engine) put(ctx context.Context, command []byte) (raftfsm.Result, error) {
	type answer struct {
		result raftfsm.Result
		err    error
	}
	answered := make(chan answer, 1)
	ok := e.committer.put(proposal{command: command, done: func(_ []raftfsm.Outcome, r raftfsm.Result, err error) {
		answered <- answer{r, err}
	}})
	if !ok {
		return raftfsm.Result{}, errShuttingDown
	}
	select {
	case a := <-answered:
		return a.result, a.err
	case <-ctx.Done():
		return raftfsm.Result{}, ctx.Err()
	}
}

// pause waits; false if ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
