// Package raftfsm is the replicated state machine: what a committed entry does.
//
// It turns Raft entries into the stream: entry after entry, batch after batch,
// unit after unit, it decides what is stored, gives it its place and hands it to
// the history and to the tip. What it does depends on the entries alone.
package raftfsm

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"chorale/message"
	"chorale/raftfsm/kept"
	"chorale/raftfsm/level"
	"chorale/raftfsm/members"
	"chorale/raftfsm/paged"
	"chorale/retention"
	"chorale/segments"
	"chorale/tip"
	"chorale/topic"

	"github.com/hashicorp/raft"
)

var (
	// ErrHalted is the result of every entry after the state machine stopped; it
	// wraps why.
	ErrHalted = errors.New("the state machine has stopped")
	// ErrNoGenesis is the result of a publish or an edit before the genesis.
	ErrNoGenesis = errors.New("the cluster has no genesis yet")
	// ErrGenesisExists is the result of a second genesis.
	ErrGenesisExists = errors.New("the cluster has a genesis already")
	// ErrBadGenesis is the result of a genesis that breaks a rule.
	ErrBadGenesis = errors.New("bad genesis")
)

// Options wires the state machine.
type Options struct {
	Topics  *topic.Table
	Tip     *tip.Tip
	History *segments.Log
	// Halt is told, once, why the state machine stopped: a disk error, or bytes in
	// the log that this version cannot read. Nothing changes after it.
	Halt func(error)
	// Mismatch is told when this node built a file that differs from the cluster's.
	Mismatch func(error)
	// Reads is what of the log this build understands; default level.Built.
	Reads level.Range
}

// FSM implements raft.FSM. Views (methods that are not raft's) are for any goroutine.
type FSM struct {
	topics   *topic.Table
	tip      *tip.Tip
	history  *segments.Log
	halt     func(error)
	mismatch func(error)
	reads    level.Range

	// Only the applying goroutine writes; it holds mu meanwhile, and views hold it
	// while they read.
	mu      sync.Mutex
	halted  error // wraps ErrHalted; nil while running
	state   state
	planned chan struct{} // closed and replaced when the active plan changes
	joined  chan struct{} // the same, of the list of members
	// floors are those of state, for cursors, which look at each read.
	floors atomic.Pointer[retention.Floors]

	scratch scratch
}

// state is what a snapshot carries, beside the names, the manifest and the
// records, which others own.
type state struct {
	genesis   Genesis
	index     uint64 // of the last applied entry
	seq       uint64 // of the last message
	time      int64  // of the stream: never falls
	plan      ActivePlan
	retention Retention
	members   members.List
	level     level.Mark
	kept      kept.State
	stats     paged.Array[TopicStats]
	producers *producers
}

// TopicStats is the volume of one topic.
type TopicStats struct {
	// Bytes are of padded records.
	Messages, Bytes, LastSeq uint64
}

// New returns an empty state machine.
func New(o Options) *FSM {
	if o.Reads == (level.Range{}) {
		o.Reads = level.Built()
	}
	return &FSM{
		topics: o.Topics, tip: o.Tip, history: o.History, halt: o.Halt, mismatch: o.Mismatch, reads: o.Reads,
		state: state{producers: newProducers()}, planned: make(chan struct{}), joined: make(chan struct{}),
	}
}

// Result is what Apply returns for an entry.
type Result struct {
	// Outcomes has one list a batch of a publish entry, in order.
	Outcomes [][]Outcome
	// Err is a refused command (data), or ErrHalted.
	Err error
}

// Apply implements raft.FSM; the answer is a Result.
func (f *FSM) Apply(l *raft.Log) any {
	if f.halted != nil {
		return Result{Err: f.halted}
	}
	if l.Index <= f.state.index {
		panic(fmt.Sprintf("raftfsm: entry %d applied after entry %d", l.Index, f.state.index))
	}
	e := &f.scratch.entry
	if err := e.decode(l.Data, f.reads); err != nil {
		return f.stop(fmt.Errorf("entry %d: %w", l.Index, err))
	}
	var r Result
	switch e.Kind {
	case KindGenesis:
		r.Err = f.applyGenesis(e.Genesis)
	case KindPublish:
		var err error
		if r, err = f.applyPublish(e); err != nil {
			return f.stop(fmt.Errorf("entry %d: %w", l.Index, err))
		}
	case KindEdit:
		r.Err = f.applyEdit(e.Edit)
	case KindPlan:
		r.Err = f.applyPlan(l.Index, e.Plan)
	case KindAbandon:
		r.Err = f.applyAbandon(e.Abandon)
	case KindRetain:
		r.Err = f.applyRetain(e.Retain)
	case KindExpire:
		r.Err = f.applyExpire(e.Expire)
	case KindMember:
		r.Err = f.applyMember(l.Index, e.Member)
	case KindLevel:
		if err := e.Level.Check(f.reads); err != nil {
			return f.stop(fmt.Errorf("entry %d: %w", l.Index, err))
		}
		r.Err = f.applyLevel(e.Level)
	case KindRules:
		r.Err = f.applyRules(e.Rules)
	case KindFloors:
		r.Err = f.applyFloors(e.Floors)
	case KindDrop:
		r.Err = f.applyDrop(e.Drop)
	}
	f.mu.Lock()
	f.state.index = l.Index
	f.mu.Unlock()
	return r
}

func (f *FSM) applyGenesis(g Genesis) error {
	if f.state.genesis != (Genesis{}) {
		return ErrGenesisExists
	}
	if err := g.validate(); err != nil {
		return err
	}
	f.mu.Lock()
	f.state.genesis = g
	f.mu.Unlock()
	f.history.SetTarget(g.SegmentBytes)
	return nil
}

func (f *FSM) applyEdit(e segments.Edit) error {
	if f.state.genesis == (Genesis{}) {
		return ErrNoGenesis
	}
	if err := f.state.plan.EndsWith(e); err != nil {
		return err
	}
	return f.changeFiles(e)
}

// changeFiles changes the manifest. With an input the active plan ends.
func (f *FSM) changeFiles(e segments.Edit) error {
	refused, mismatch := f.history.Install(e)
	if mismatch != nil && f.mismatch != nil {
		f.mismatch(mismatch)
	}
	if p := f.state.plan; p.Index != 0 && !p.Fits(f.history.Manifest()) {
		f.setPlan(ActivePlan{})
	}
	return refused
}

// stop latches the first cause; nothing changes after it.
func (f *FSM) stop(cause error) Result {
	f.mu.Lock()
	f.halted = fmt.Errorf("%w: %w", ErrHalted, cause)
	f.mu.Unlock()
	if f.halt != nil {
		f.halt(cause)
	}
	return Result{Err: f.halted}
}

// View is a consistent look at the small state.
type View struct {
	Genesis   Genesis // zero before genesis
	Index     uint64  // last applied Raft index
	LastSeq   uint64
	LastTime  int64
	Producers int
	Retention Retention
	Level     level.Mark // zero as long as the log has none
	// Proven is the level that the state itself needs: whoever has come so far reads it.
	Proven level.Level
}

// View may be called by any goroutine.
func (f *FSM) View() View {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.state
	return View{
		Genesis: s.genesis, Index: s.index, LastSeq: s.seq, LastTime: s.time, Producers: len(s.producers.index), Retention: s.retention, Level: s.level,
		Proven: max(s.level.Level, level.Level(s.version())),
	}
}

// EachTopic calls fn for the ids from..from+n-1 that exist, with their state at
// about the time of the call. Apply waits for at most a page of topics at a time,
// never for fn.
func (f *FSM) EachTopic(from uint32, n int, fn func(id uint32, s TopicStats)) {
	end := uint64(from) + uint64(max(n, 0))
	end = min(end, math.MaxUint32)
	var page [paged.PageItems]TopicStats
	for uint64(from) < end {
		f.mu.Lock()
		got := 0
		for got < len(page) && uint64(from)+uint64(got) < min(end, uint64(f.state.stats.Len())) {
			page[got] = *f.state.stats.At(from + uint32(got))
			got++
		}
		f.mu.Unlock()
		if got == 0 {
			return
		}
		for i, s := range page[:got] {
			fn(from+uint32(i), s)
		}
		from += uint32(got)
	}
}

// Producer is the last number of a producer.
func (f *FSM) Producer(id message.ProducerID) (last uint64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p, ok := f.state.producers.find(id); ok {
		return p.last, true
	}
	return 0, false
}
