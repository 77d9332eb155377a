package raftfsm

import (
	"encoding/binary"
	"fmt"

	"chorale/raftfsm/level"
	"chorale/raftfsm/plans"
)

// What a plan, its edit or its end is refused for; see package plans.
var (
	ErrPlanActive = plans.ErrActive
	ErrPlanInputs = plans.ErrInputs
	ErrPlanEdit   = plans.ErrEdit
	ErrPlanOver   = plans.ErrOver
)

// Plan is a piece of work for all nodes, ActivePlan the one that they build.
type (
	Plan       = plans.Plan
	ActivePlan = plans.Active
)

// EncodePlan makes the Raft entry of a plan: of version 2 if it has chapters.
func EncodePlan(p Plan) []byte {
	b := appendEntryHead(nil, KindPlan)
	if p.Chapter > 0 {
		b[1] = level.ChaptersPlan
	}
	return p.Append(b)
}

// EncodeAbandon makes the Raft entry that ends the plan with that index without
// effect.
func EncodeAbandon(plan uint64) []byte {
	return binary.LittleEndian.AppendUint64(appendEntryHead(nil, KindAbandon), plan)
}

func (f *FSM) applyPlan(index uint64, p Plan) error {
	switch {
	case f.state.genesis == (Genesis{}):
		return ErrNoGenesis
	case f.state.plan.Index != 0:
		return fmt.Errorf("%w: that of entry %d", ErrPlanActive, f.state.plan.Index)
	case !p.Fits(f.history.Manifest()):
		return ErrPlanInputs
	}
	active := ActivePlan{Index: index, Plan: p}
	if f.state.level.Level >= level.Trimming {
		active.Floors = f.state.kept.Floors
	}
	f.setPlan(active)
	return nil
}

func (f *FSM) applyAbandon(plan uint64) error {
	if plan == 0 || plan != f.state.plan.Index {
		return fmt.Errorf("%w: %d", ErrPlanOver, plan)
	}
	f.setPlan(ActivePlan{})
	return nil
}

func (f *FSM) setPlan(p ActivePlan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.plan = p
	close(f.planned)
	f.planned = make(chan struct{})
}

// Plan is the active plan, or the zero value. The channel is closed when it has
// changed.
func (f *FSM) Plan() (ActivePlan, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.plan, f.planned
}
