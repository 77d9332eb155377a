package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"chorale/compactor"
	"chorale/node/engine/building"
	"chorale/node/engine/latch"
	"chorale/node/engine/retaining"
	"chorale/node/engine/roster"
	"chorale/raftfsm"
	"chorale/segments"

	"golang.org/x/sync/errgroup"
)

// replanPause is how long a leader proposes no plan after it abandoned one: the next
// would be the same.
const replanPause = time.Minute

// compact builds the active plan whenever there is one, and removes what is left of
// those that are over. It ends with ctx, or with an error of the disk.
func (e *Engine) compact(ctx context.Context) error {
	select {
	case <-e.caughtUp.Done():
	case <-ctx.Done():
		return nil
	}
	for ctx.Err() == nil {
		changed := e.history.Changed() // and with it what is left over
		plan, over := e.machine.FSM.Plan()
		if err := e.history.Tidy(building.Outputs(e.history.Manifest(), plan.Inputs)); err != nil {
			return fmt.Errorf("remove what plans left: %w", err)
		}
		if done, _ := e.compaction.Newest(); plan.Index != 0 && plan.Index != done.Plan {
			if err := e.build(ctx, plan, over); err != nil {
				return fmt.Errorf("build plan %d: %w", plan.Index, err)
			}
			continue
		}
		select {
		case <-over:
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil
}

// errDone ends what is done for a plan.
var errDone = errors.New("done with the plan")

// build builds a plan until it is done, or over, or ctx ends. The error is the disk's.
//
// A plan that is over because its edit came, proposed by a faster node, is built to
// the end: that is cheaper than to copy its stores from a peer, and until then the
// history reads what they replace.
func (e *Engine) build(ctx context.Context, plan raftfsm.ActivePlan, over <-chan struct{}) error {
	first, last := building.Outputs(e.history.Manifest(), plan.Inputs)
	e.log.Debug("building a plan", "plan", plan.Index, "first", first, "last", last)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		select {
		case <-over:
		case <-ctx.Done():
			return nil
		}
		for _, r := range e.history.Manifest().Ranges() {
			if r.First == first && r.Last == last && r.Files[0].Kind == segments.KindStore {
				return nil
			}
		}
		return errDone
	})
	g.Go(func() error {
		e.compaction.Begin(first, last)
		defer e.compaction.End()
		if err := e.tryBuild(ctx, plan, over); err != nil {
			return err
		}
		return errDone
	})
	if err := g.Wait(); !errors.Is(err, errDone) {
		return err
	}
	return nil
}

// tryBuild builds a plan, as soon as its inputs are here, and notes the result. The
// error is the disk's.
func (e *Engine) tryBuild(ctx context.Context, plan raftfsm.ActivePlan, over <-chan struct{}) error {
	for {
		repaired, begin := e.history.Changed(), time.Now()
		files, err := compactor.Build(ctx, e.history, compactor.Plan(plan.Plan), plan.Floors, building.NewPacer(e.settings.CompactRate).Wait)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			e.log.Info("built a plan", "plan", plan.Index, "inputs", len(plan.Inputs), "stores", len(files),
				"in", time.Since(begin).Round(time.Millisecond))
			e.compaction.Set(building.Result{Plan: plan.Index, Files: files})
			return nil
		case errors.Is(err, compactor.ErrImpossible) && latch.Closed(over):
			return nil // others were faster
		case errors.Is(err, compactor.ErrImpossible), errors.Is(err, syscall.ENOSPC):
			e.log.Error("a plan cannot be built", "plan", plan.Index, "error", err)
			e.compaction.Set(building.Result{Plan: plan.Index, Failed: err})
			return nil
		case !errors.Is(err, segments.ErrNotHere) && !errors.Is(err, segments.ErrCorrupt):
			return err
		}
		e.log.Warn("a plan waits for the repair of an input", "plan", plan.Index, "error", err)
		select {
		case <-repaired:
		case <-over:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// direct is a leader's duty: to propose what is to be compacted, and the edit when
// this node has built it. A plan that an earlier leader proposed goes on. Beside it
// expires what the retention does not keep.
func (e *Engine) direct(ctx context.Context) {
	var g errgroup.Group
	defer func() { _ = g.Wait() }()
	g.Go(func() error {
		e.retaining().Run(ctx)
		return nil
	})
	worn := retaining.NewWorn(e.machine.FSM, e.history)
	for {
		plan, planned := e.machine.FSM.Plan()
		built, builds := e.compaction.Newest()
		changed := e.history.Changed()
		var err error
		switch {
		case plan.Index != 0 && plan.Index == built.Plan:
			err = e.endPlan(ctx, plan, built)
		case plan.Index == 0 && e.settings.Compact:
			err = e.nextPlan(ctx, worn)
		default:
			err = errNothingToDo
		}
		switch {
		case errors.Is(err, errNothingToDo):
			select {
			case <-planned:
			case <-builds:
			case <-changed:
			case <-time.After(retaining.WornEvery):
			case <-ctx.Done():
				return
			}
		case err != nil && !pause(ctx, dutyPause):
			return
		}
	}
}

var (
	errNothingToDo = errors.New("nothing is to be proposed")
	errMinority    = errors.New("a majority of the voters could not build it, or built other files than this node")
)

// nextPlan proposes what is due. An error means that it is still due.
func (e *Engine) nextPlan(ctx context.Context, worn *retaining.Worn) error {
	p, due := worn.Next(e.settings.Compaction)
	if !due {
		return errNothingToDo
	}
	result, err := building.Propose(p, func(entry []byte) (raftfsm.Result, error) { return e.command(ctx, entry) })
	if err = cmp.Or(err, result.Err); err != nil {
		e.log.Debug("a plan was refused, or not committed", "error", err)
	}
	return err
}

// endPlan proposes the edit of a plan when a majority has built it, or gives it up if it
// cannot be built or its edit is refused.
func (e *Engine) endPlan(ctx context.Context, plan raftfsm.ActivePlan, built building.Result) error {
	cause := built.Failed
	if cause == nil {
		made := func(h roster.Health) int { return h.Made(plan.Index, built.Sum()) }
		err := e.roster.WithMajority(ctx, made, func(n int) error {
			if cause = errMinority; n < 0 {
				return nil
			}
			result, err := e.command(ctx, raftfsm.EncodeEdit(e.history.Manifest().Replace(plan.Index, plan.Inputs, built.Files)))
			if cause = result.Err; err == nil && cause == nil {
				e.log.Debug("the edit of a plan is installed", "plan", plan.Index)
			}
			return err
		})
		if err != nil || cause == nil || errors.Is(cause, raftfsm.ErrPlanOver) {
			return err
		}
	}
	e.log.Error("a plan is abandoned", "plan", plan.Index, "cause", cause)
	if _, err := e.command(ctx, raftfsm.EncodeAbandon(plan.Index)); err != nil {
		return err
	}
	pause(ctx, replanPause)
	return nil
}
