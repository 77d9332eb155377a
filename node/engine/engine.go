// Package engine is a node without its listeners: Raft, the state machine, tip and
// history, recovery for subscribers, the committer, leadership duties and
// admission, all over seams, so that it runs on files and TCP as well as in
// memory under virtual time.
package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"chorale/disk"
	"chorale/message"
	"chorale/node/engine/building"
	"chorale/node/engine/fetching"
	"chorale/node/engine/filling"
	"chorale/node/engine/latch"
	"chorale/node/engine/leading"
	"chorale/node/engine/machine"
	"chorale/node/engine/pace"
	"chorale/node/engine/roster"
	"chorale/node/engine/upkeep"
	"chorale/node/watchdog"
	"chorale/raftfsm"
	"chorale/recovery"
	"chorale/segments"
	"chorale/tip"
	"chorale/topic"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"golang.org/x/sync/semaphore"
)

// Seams are what an engine stands on. A real node gives files, bbolt and TCP; the
// simulation gives memory that can crash and a network that can part.
type Seams struct {
	Files     disk.FS // root of the data files
	Logs      raft.LogStore
	Stable    raft.StableStore
	Snapshots raft.SnapshotStore
	Transport raft.Transport
	Peers     Peers
	Log       hclog.Logger
}

// Peers reaches other nodes by their id. Safe for concurrent use.
type Peers interface {
	// Submit passes a batch on to SubmitLocal of the node that leads. done is
	// called once, with that node's answer or with an error that wraps
	// ErrUnavailable if the batch cannot have arrived, else ErrUnknown. Batches to
	// one node keep their order. The batch is unchanged until done.
	Submit(ctx context.Context, leader raft.ServerID, batch []byte, done func([]raftfsm.Outcome, error))
	fetching.Peers
	// Health is how far another node is, by its own word.
	Health(ctx context.Context, id raft.ServerID) (roster.Health, error)
}

// Engine is a node without its listeners. Its methods are for any goroutine.
type Engine struct {
	Pace     pace.Pace // of all subscriptions
	settings Settings
	seams    Seams
	log      hclog.Logger

	topics  *topic.Table
	tip     *tip.Tip
	history *segments.Log
	machine *machine.Machine
	roster  *roster.Roster
	dog     *watchdog.Dog

	committer *committer
	leading   *leading.State
	budget    *semaphore.Weighted // bytes between Submit and done
	halted    chan error          // capacity 1: why the state machine stopped

	mismatches atomic.Int64
	former     uint64      // last index of the log at the start: no former life has applied more
	replayed   latch.Latch // the log is applied up to there
	caughtUp   latch.Latch // see readiness.go
	compaction *building.State
	upkeep     *upkeep.Keeper
	filler     *filling.Filler
	// life ends when Run begins to end; its cause says why.
	life context.Context
	end  context.CancelCauseFunc

	// starting orders the start of Raft with Bootstrap. Raft reads log and snapshots
	// while it starts, so nobody else may wait for it.
	starting sync.Mutex
	raft     atomic.Pointer[raft.Raft] // nil until Raft has started
}

// Dir is the folder of the data files below the root of Seams.Files.
const Dir = "segments"

// pendingStretches is how many cut stretches may wait for Build. Each costs about
// Genesis.SegmentBytes of memory and of snapshot.
const pendingStretches = 2

// heldStretches is how many stretches that are built here may wait for their edit before
// publishers do: the edit waits for a majority, one of which may be slow.
const heldStretches = 16

// Open looks at the files of the history. Nothing runs until Run, which restores
// the rest from Raft's snapshot and log; these must fit together (package raftlog
// sees to that).
func Open(s Settings, seams Seams) (*Engine, error) {
	s = s.withDefaults()
	if err := s.Compaction.Validate(); err != nil {
		return nil, fmt.Errorf("compaction: %w", err)
	}
	e := &Engine{
		settings: s,
		seams:    seams,
		log:      seams.Log,
		topics:   topic.NewTable(),
		tip:      tip.New(s.TipBytes),
		leading:  leading.New(),
		dog:      watchdog.New(),
		budget:   semaphore.NewWeighted(s.QueueBytes),
		halted:   make(chan error, 1),
		replayed: latch.New(), caughtUp: latch.New(), compaction: building.New(),
	}
	e.committer = newCommitter(e.halt)
	e.life, e.end = context.WithCancelCause(context.Background())
	var err error
	e.history, err = segments.Open(segments.Options{
		FS: e.dog.Files(seams.Files), Dir: Dir, Topics: e.topics, PendingStretches: pendingStretches, Replayed: e.replayed.Done(), Warn: e.warn,
	})
	if err != nil {
		return nil, fmt.Errorf("open the history: %w", err)
	}
	e.upkeep, err = upkeep.New(upkeep.Options{
		History: e.history, Tip: e.tip, Topics: e.topics, Building: e.compaction,
		Peers: seams.Peers, FetchRate: max(s.FetchRate, 0), Current: func() bool { r := e.running(); return r != nil && e.machine.Drained(r) },
		Files: e.dog.Files(seams.Files), Dir: Dir, Log: e.log, Every: s.ScrubEvery, Rate: s.ScrubRate, CaughtUp: e.caughtUp.Done(),
	})
	if err != nil {
		return nil, err
	}
	e.machine = machine.New(raftfsm.New(raftfsm.Options{
		Topics: e.topics, Tip: e.tip, History: e.history, Halt: e.halt, Mismatch: e.mismatch, Reads: s.Reads,
	}), e.dog, func() { e.filler.Again() })
	e.filler = filling.New(filling.Options{
		Source: recovery.Source{History: e.history, Tip: e.tip, Topics: e.topics}, Still: e.machine.Still, Ready: e.caughtUp.Done(), Log: e.log.Named("tip"),
	})
	e.roster = e.newRoster()
	return e, nil
}

// source is what subscriptions read. The tip is filled with what has gone of subtrees too.
func (e *Engine) source() recovery.Source {
	return recovery.Source{History: e.history, Tip: e.tip, Topics: e.topics, Floors: e.machine.FSM.Floors}
}

func (e *Engine) halt(err error) {
	select {
	case e.halted <- err:
	default:
	}
}

func (e *Engine) mismatch(err error) {
	e.mismatches.Add(1)
	e.log.Error("a file built here differs from the cluster's and will be fetched", "error", err)
}

// warn is told of each data file that is damaged, absent or not the cluster's.
func (e *Engine) warn(err error) {
	e.log.Error("a data file is not as it should be, and will be fetched", "error", err)
}

// running is Raft, or nil until it has started. It never waits.
func (e *Engine) running() *raft.Raft { return e.raft.Load() }

// Bootstrap writes the first configuration of a new cluster. It is refused by
// Raft (raft.ErrCantBootstrap) on a node that has state already.
func (e *Engine) Bootstrap(c raft.Configuration) error {
	e.starting.Lock()
	defer e.starting.Unlock()
	if r := e.running(); r != nil {
		return r.BootstrapCluster(c).Error()
	}
	return raft.BootstrapCluster(e.raftConfig(), e.seams.Logs, e.seams.Stable, e.seams.Snapshots, e.seams.Transport, c)
}

func (e *Engine) raftConfig() *raft.Config {
	c := *e.settings.Raft
	c.LocalID = e.settings.ID
	c.Logger = e.log.Named("raft")
	c.ShutdownOnRemove = false // a removed node ends by roster.Watch, and says why
	return &c
}

// Submit takes an encoded batch on any node and calls done exactly once: at once
// if the batch breaks a rule, else from a goroutine of the engine, which done must
// not block. It blocks while the queue is full or no leader is known (until ctx
// ends or a second has passed), and keeps the order of the calls of one goroutine.
// The caller leaves the bytes unchanged until done.
//
// An error of done wraps ErrInvalid, ErrUnavailable or ErrUnknown.
func (e *Engine) Submit(ctx context.Context, batch []byte, done func([]raftfsm.Outcome, error)) {
	e.submit(ctx, batch, done, func(done func([]raftfsm.Outcome, error)) {
		switch leader, local := e.leading.Await(ctx, leaderWait); {
		case local:
			e.propose(ctx, batch, done)
		case leader == "":
			done(nil, fmt.Errorf("%w: no leader is known", ErrUnavailable))
		default:
			e.seams.Peers.Submit(ctx, leader, batch, done)
		}
	})
}

// SubmitLocal is Submit without forwarding: ErrNotLeader where this node does not lead.
func (e *Engine) SubmitLocal(ctx context.Context, batch []byte, done func([]raftfsm.Outcome, error)) {
	e.submit(ctx, batch, done, func(done func([]raftfsm.Outcome, error)) {
		if _, local := e.leading.Now(); !local {
			done(nil, ErrNotLeader)
			return
		}
		e.propose(ctx, batch, done)
	})
}

// submit checks and admits a batch and hands it to pass, with a done that gives
// the admitted bytes back.
func (e *Engine) submit(ctx context.Context, batch []byte, done func([]raftfsm.Outcome, error), pass func(func([]raftfsm.Outcome, error))) {
	if err := e.check(batch); err != nil {
		done(nil, fmt.Errorf("%w: %w", ErrInvalid, err))
		return
	}
	bytes := min(int64(len(batch)), e.settings.QueueBytes)
	if err := e.admit(ctx, bytes); err != nil {
		done(nil, fmt.Errorf("%w: %w", ErrUnavailable, err))
		return
	}
	pass(func(outcomes []raftfsm.Outcome, err error) {
		e.budget.Release(bytes)
		done(outcomes, err)
	})
}

// check holds a batch to every rule that does not depend on the stream.
func (e *Engine) check(batch []byte) error {
	b, err := message.ParseBatch(batch)
	if err != nil {
		return err
	}
	for _, name := range b.Topics {
		if err := topic.Validate(string(name)); err != nil {
			return err
		}
	}
	for i, rest := 0, b.Records; len(rest) > 0; i++ {
		var r message.Record
		if r, rest, err = message.Split(rest); err != nil {
			return err
		}
		if n := len(r.Payload()); n > e.settings.PayloadLimit {
			return &PayloadError{Index: i, Bytes: n, Limit: e.settings.PayloadLimit}
		}
	}
	return nil
}

// admit waits for room in the queue.
func (e *Engine) admit(ctx context.Context, bytes int64) error {
	if e.budget.TryAcquire(bytes) {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.life, cancel)()
	if err := e.budget.Acquire(ctx, bytes); err != nil {
		return fmt.Errorf("the queue of %d bytes is full: %w", e.settings.QueueBytes, err)
	}
	return nil
}

// propose puts a batch in the committer's queue, when there is room in the leader's
// memory: what is published stays there until a majority has it in files.
func (e *Engine) propose(ctx context.Context, batch []byte, done func([]raftfsm.Outcome, error)) {
	for changed := e.history.Changed(); len(e.history.Proposals()) > heldStretches; changed = e.history.Changed() {
		select {
		case <-changed:
			continue
		case <-time.After(leaderWait):
			if _, leads := e.leading.Now(); leads {
				continue
			}
		case <-ctx.Done():
		case <-e.life.Done():
		}
		done(nil, fmt.Errorf("%w: %d parts of the stream wait in memory until a majority of the nodes has them in files", ErrUnavailable, heldStretches))
		return
	}
	ok := e.committer.put(proposal{batch: batch, done: func(outcomes []raftfsm.Outcome, _ raftfsm.Result, err error) {
		done(outcomes, err)
	}})
	if !ok {
		done(nil, errShuttingDown)
	}
}
