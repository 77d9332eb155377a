package engine

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"chorale/node/engine/filling"
	"chorale/node/engine/roster"
	"chorale/node/engine/upkeep"
	"chorale/raftfsm"
	"chorale/raftfsm/level"
	"chorale/segments"
	"chorale/tip"

	"github.com/hashicorp/raft"
)

const (
	catchUpCheck = 50 * time.Millisecond
	// A follower has caught up when it has applied what it knows to be committed
	// and either the newest message is younger than catchUpFresh or nothing new
	// came for catchUpQuiet. (It learns of the leader's commits piece by piece while
	// it is sent the log, so the first condition alone holds again and again.)
	catchUpFresh = 2 * time.Second
	catchUpQuiet = 300 * time.Millisecond
	// contactWait is how long a follower without word from a leader stays ready.
	contactWait = 3 * time.Second
)

// catchUp waits until the node has applied the log once and has all files, then lets
// the node be ready. It ends with ctx.
func (e *Engine) catchUp(ctx context.Context) error {
	r := e.running()
	var last uint64
	var since time.Time
	var files roster.Patience
	for pause(ctx, catchUpCheck) && !e.caughtUp.IsSet() {
		v := e.machine.FSM.View()
		if v.Index != last || since.IsZero() {
			last, since = v.Index, time.Now()
		}
		if e.machine.Replayed(r, e.former) {
			e.replayed.Set()
		}
		if _, leader := r.LeaderWithID(); leader == "" || !e.machine.Drained(r) || !e.replayed.IsSet() {
			continue
		}
		if files.Waits(e.upkeep.Coming(e.Health()), time.Now()) {
			continue
		}
		if time.Since(time.Unix(0, v.LastTime)) < catchUpFresh || time.Since(since) >= catchUpQuiet {
			e.caughtUp.Set()
		}
	}
	<-ctx.Done()
	return nil
}

// NotReady says why this node should not be given clients; "" if it should.
func (e *Engine) NotReady() string {
	r := e.running()
	switch {
	case e.life.Err() != nil:
		return fmt.Sprintf("shutting down: %v", context.Cause(e.life))
	case r == nil:
		return "starting"
	case e.roster.Removed():
		return (&roster.RemovedError{ID: e.settings.ID}).Error()
	case len(e.Servers()) == 0:
		return "waiting to become part of a cluster"
	case !e.caughtUp.IsSet():
		h := e.upkeep.Coming(e.Health())
		return h.Behind(e.Files(), r.CommitIndex())
	case e.machine.FSM.View().Genesis.Cluster == (raftfsm.ClusterID{}):
		return "waiting for the cluster to be founded"
	}
	if _, leader := r.LeaderWithID(); r.State() != raft.Leader {
		if d := time.Since(r.LastContact()); d > contactWait {
			return fmt.Sprintf("no word from a leader (last known: %s) for %v", cmp.Or(leader, "none"), d.Round(time.Second))
		}
	}
	return ""
}

// Status is what a node knows of itself.
type Status struct {
	ID       raft.ServerID
	State    string // leader, follower, candidate, starting, stopped
	Leader   raft.ServerID
	NotReady string
	View     raftfsm.View
	Topics   uint32
	// Partitions is the number of topic partitions.
	Partitions uint32
	Tip        tip.Stats
	Fill       filling.Status // of the tip
	History    segments.Stats
	Plan       uint64 // index of the active plan, 0 for none
	Mismatches int64  // files built here that differed from the cluster's
	Lacking    string // of the stream, see Engine.Lacking
	Scrub      upkeep.ScrubStatus
	Fetch      upkeep.FetchStatus
	Levels     roster.Levels
	Reads      level.Range
	Servers    []raft.Server
	// Raft's indexes and term.
	Applied, Last, Commit, Term uint64
}

// Status is a snapshot for people and metrics; its parts are read one by one.
func (e *Engine) Status() Status {
	s := Status{
		ID:         e.settings.ID,
		State:      "starting",
		NotReady:   e.NotReady(),
		View:       e.machine.FSM.View(),
		Topics:     e.topics.Len(),
		Partitions: e.topics.Partitions(),
		Tip:        e.tip.Stats(),
		Fill:       e.filler.Status(),
		History:    e.history.Stats(),
		Mismatches: e.mismatches.Load(),
		Lacking:    e.Lacking(),
		Scrub:      e.upkeep.Scrubbed(),
		Fetch:      e.upkeep.Fetching(),
		Servers:    e.Servers(),
		Levels:     e.roster.Levels(),
		Reads:      e.settings.Reads,
	}
	plan, _ := e.machine.FSM.Plan()
	s.Plan = plan.Index
	if r := e.running(); r != nil {
		if s.State = strings.ToLower(r.State().String()); r.State() == raft.Shutdown {
			s.State = "stopped"
		}
		_, s.Leader = r.LeaderWithID()
		s.Applied, s.Last, s.Commit, s.Term = r.AppliedIndex(), r.LastIndex(), r.CommitIndex(), r.CurrentTerm()
	}
	return s
}
