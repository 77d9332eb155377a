// Package roster is what a node does about who belongs to its cluster: when it leads,
// it lets nodes in, learns how far each of them is, and brings Raft's configuration in
// line with the replicated list of members, a server at a time; on any node, it ends
// what was removed.
package roster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"chorale/raftfsm"
	"chorale/raftfsm/level"
	"chorale/raftfsm/members"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"golang.org/x/sync/errgroup"
)

const (
	// lookEvery is how often a leader asks every node how far it is.
	lookEvery = 500 * time.Millisecond
	// askWait bounds one of these questions.
	askWait = time.Second
	// moment is how long a removal waits for others to have all files.
	moment = 5 * time.Second
	// beginWait bounds the wait of a change for the first look around of a leader.
	beginWait = 2 * askWait
	// heardWait is how old an answer may be, and its node still counts as alive.
	heardWait = 3 * time.Second
	// lagAllowed is how many committed entries a node may not have applied yet, and
	// still counts as caught up: some are always on their way.
	lagAllowed = 256
	// DefaultSteady is how long a node must have been caught up before it votes: a new
	// voter that falls behind at once would slow every commit.
	DefaultSteady = 3 * time.Second
	// transferTries bounds the tries of a transfer of leadership behind the first one.
	transferTries = 3
	// filesWait is how long a node that has just started waits for the next missing file.
	filesWait = 2 * time.Minute
	// farewell is how long a removed node waits to see itself gone from Raft's
	// configuration, or for another leader, before it ends.
	farewell = 5 * time.Second
	// farewellCheck is how often it looks.
	farewellCheck = 50 * time.Millisecond
)

// Options wires a roster.
type Options struct {
	ID raft.ServerID
	// Incarnation of the node's folder; 0 where nodes have none, as in tests.
	Incarnation members.Incarnation
	// Raft is nil until it has started.
	Raft    func() *raft.Raft
	Members func() (members.List, <-chan struct{})
	// Reads is what of the log this build understands.
	Reads level.Range
	// View is of the state machine.
	View func() raftfsm.View
	// Command puts an entry through the log and gives its result, whatever Permit says.
	Command func(ctx context.Context, entry []byte) (raftfsm.Result, error)
	// Serves is nil where this node leads and serves, else why it cannot change
	// anything.
	Serves func() error
	// Health is this node's own, Ask another one's.
	Health func() Health
	Ask    func(ctx context.Context, id raft.ServerID) (Health, error)
	// Steady is how long a node must be caught up before it may vote.
	Steady time.Duration
	// RemoveDead is for how long a member may be silent before it is removed; 0 is for ever.
	RemoveDead time.Duration
	Log        hclog.Logger
}

// Roster is safe for concurrent use.
type Roster struct {
	Options

	// changing is held while members change, by request or by duty: what a change was
	// checked against stays true until it is made. Capacity 1.
	changing chan struct{}
	demands  *demands

	mu      sync.Mutex
	reports map[raft.ServerID]Report
	looked  chan struct{} // closed when everybody was asked once in this term
}

// ErrOld is the answer of Options.Ask for a node of a build before level.Members, which
// cannot say how far it is; nor what it reads, so that level.First alone is sure.
var ErrOld = errors.New("an earlier version runs there, which does not say how far it is")

// Report is what the leader knows of how far a node is.
type Report struct {
	Health
	// Heard is when the node answered last, Since since when it has been caught up
	// without a break; zero if it is not.
	Heard, Since time.Time
	// Lag is in entries.
	Lag uint64
	// Said is when it answered last, be it with ErrOld.
	Said time.Time
}

// Fresh reports whether the node answered lately.
func (r Report) Fresh(now time.Time) bool { return !r.Heard.IsZero() && now.Sub(r.Heard) < heardWait }

// steady reports whether the node has been caught up for long enough.
func (r Report) steady(now time.Time, wait time.Duration) bool {
	return r.Fresh(now) && !r.Since.IsZero() && now.Sub(r.Since) >= wait
}

// New returns a roster that nobody leads by.
func New(o Options) *Roster {
	if o.Steady == 0 {
		o.Steady = DefaultSteady
	}
	return &Roster{Options: o, changing: make(chan struct{}, 1), demands: newDemands(), reports: make(map[raft.ServerID]Report), looked: make(chan struct{})}
}

// Lead is a leader's duty until ctx ends.
func (r *Roster) Lead(ctx context.Context) {
	r.mu.Lock()
	clear(r.reports) // of an earlier term
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.looked = make(chan struct{})
		r.mu.Unlock()
	}()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	begun, tried := time.Now(), time.Time{}
	for {
		_, changed := r.Members()
		answered := r.look(ctx)
		if ctx.Err() == nil && !r.begun() {
			close(r.looked)
		}
		if err := r.raise(ctx, answered); err != nil && ctx.Err() == nil {
			r.Log.Warn("the level of the log could not be raised yet", "error", err)
		}
		if err := r.reconcile(ctx); err != nil && ctx.Err() == nil {
			r.Log.Warn("the members could not be brought in line yet", "error", err)
		}
		if time.Since(tried) >= deadAgain {
			if err := r.bury(ctx, begun); err != nil && ctx.Err() == nil {
				tried = time.Now()
				r.Log.Warn("a dead node stays", "error", err)
			}
		}
		select {
		case <-tick.C:
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Running asks every server, and returns those that answer now and do not mean to end.
func (r *Roster) Running(ctx context.Context) map[raft.ServerID]bool { return r.look(ctx) }

// look asks every server how far it is, and returns who has answered and stays.
func (r *Roster) look(ctx context.Context) map[raft.ServerID]bool {
	var g errgroup.Group
	var mu sync.Mutex
	answered := make(map[raft.ServerID]bool)
	for _, s := range r.Raft().GetConfiguration().Configuration().Servers {
		g.Go(func() error {
			h, err := r.healthOf(ctx, s.ID)
			switch {
			case errors.Is(err, ErrOld):
				r.mu.Lock()
				r.reports[s.ID] = Report{Said: time.Now(), Health: Health{Reads: level.Range{Lowest: level.First, Highest: level.First}}}
				r.mu.Unlock()
			case err != nil:
				r.Log.Debug("a node does not say how far it is", "node", s.ID, "error", err)
			case h.Ends:
			default:
				r.note(s.ID, h)
				mu.Lock()
				answered[s.ID] = true
				mu.Unlock()
			}
			return nil
		})
	}
	_ = g.Wait()
	return answered
}

// healthOf asks a server, within askWait.
func (r *Roster) healthOf(ctx context.Context, id raft.ServerID) (Health, error) {
	if id == r.ID {
		return r.Health(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	return r.Ask(ctx, id)
}

// begun reports whether everybody was asked once in this term.
func (r *Roster) begun() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.looked:
		return true
	default:
		return false
	}
}

// note takes a node's answer.
func (r *Roster) note(id raft.ServerID, h Health) {
	now, commit := time.Now(), r.Raft().CommitIndex()
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.reports[id]
	n := Report{Health: h, Heard: now, Said: now, Lag: commit - min(h.Applied, commit)}
	if n.Lag <= lagAllowed && h.MissingFiles == 0 {
		if n.Since = old.Since; n.Since.IsZero() || !old.Fresh(now) || old.Incarnation != h.Incarnation {
			n.Since = now
		}
	}
	r.reports[id] = n
}

// Reports are the newest answers.
func (r *Roster) Reports() map[raft.ServerID]Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[raft.ServerID]Report, len(r.reports))
	for id, n := range r.reports {
		out[id] = n
	}
	return out
}

// hold takes the right to change members; release gives it back.
func (r *Roster) hold(ctx context.Context) (release func(), err error) {
	select {
	case r.changing <- struct{}{}:
		return func() { <-r.changing }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// reconcile makes the next step, if there is one.
func (r *Roster) reconcile(ctx context.Context) error {
	release, err := r.hold(ctx)
	if err != nil {
		return nil
	}
	defer release()
	v := r.view()
	step, due := next(v)
	if !due {
		return nil
	}
	r.Log.Info("a step towards the wanted members", "step", step.kind, "node", step.server.ID, "why", step.why)
	if err := r.make(ctx, step); err != nil {
		return fmt.Errorf("%v of node %s: %w", step.kind, step.server.ID, err)
	}
	return nil
}

// make makes a step. Nobody else changes the configuration between the view for which it
// was chosen and the step: only the leader can, and it holds the right to.
func (r *Roster) make(ctx context.Context, s step) error {
	switch s.kind {
	case stepDrop:
		return r.demand(ctx, func(now *raft.Raft) raft.Future { return now.RemoveServer(s.server.ID, 0, askWait) })
	case stepDemote:
		return r.demand(ctx, func(now *raft.Raft) raft.Future { return now.DemoteVoter(s.server.ID, 0, askWait) })
	case stepPromote:
		return r.demand(ctx, func(now *raft.Raft) raft.Future { return now.AddVoter(s.server.ID, s.server.Address, 0, askWait) })
	}
	_, err := r.transfer(ctx, "")
	return err
}

// RemovedError ends a node that was removed from its cluster.
type RemovedError struct{ ID raft.ServerID }

// Error says what became of the node, and the way back.
func (e *RemovedError) Error() string {
	return fmt.Sprintf("node %s was removed from the cluster: it neither votes nor serves with this data folder. To bring it back, empty its data folder and start it with --join", e.ID)
}

// Removed reports whether this node, with this folder, was removed: for good.
func (r *Roster) Removed() bool {
	list, _ := r.Members()
	m, _ := list.Find(string(r.ID))
	return m.Removed && r.Incarnation != 0 && m.Incarnation == r.Incarnation
}

// Watch returns a *RemovedError when this node was removed, or nil with ctx. A leader
// stays until another one leads, and anybody until the configuration without it has
// come, or a few seconds are over.
func (r *Roster) Watch(ctx context.Context) error {
	for !r.Removed() {
		_, changed := r.Members()
		if r.Removed() {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
	r.Log.Error("this node was removed from the cluster")
	wait, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	tick := time.NewTicker(farewellCheck)
	defer tick.Stop()
	for r.counts() {
		select {
		case <-tick.C:
			continue
		case <-wait.Done():
		}
		break
	}
	return &RemovedError{r.ID}
}

// counts reports whether Raft's newest configuration here has this node.
func (r *Roster) counts() bool {
	now := r.Raft()
	return now != nil && slices.ContainsFunc(now.GetConfiguration().Configuration().Servers, func(s raft.Server) bool { return s.ID == r.ID })
}

// transfer lets another voter lead; "" chooses the one that has come farthest.
func (r *Roster) transfer(ctx context.Context, to raft.ServerID) (raft.ServerID, error) {
	target, err := r.view().successor(to)
	if err != nil {
		return "", err
	}
	for try := 0; ; try++ {
		err = r.demand(ctx, func(now *raft.Raft) raft.Future {
			return now.LeadershipTransferToServer(target.ID, target.Address)
		})
		// A target that does not come level within an election's time under load is tried
		// again: Raft takes no writes meanwhile, so it has come closer.
		if err == nil || errors.Is(err, raft.ErrNotLeader) || ctx.Err() != nil || try == transferTries {
			return target.ID, err
		}
	}
}
