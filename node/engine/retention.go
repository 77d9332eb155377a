package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chorale/node/engine/retaining"
	"chorale/raftfsm"
	"chorale/raftfsm/kept"
	"chorale/retention"
)

// Kept is the retention, and what is kept at the moment.
type Kept struct {
	raftfsm.Retention
	Oldest     uint64 // the oldest kept seq
	OldestTime int64  // of that message, as far as it is in a file; else 0
	Bytes      int64  // of the files
	Subtrees   kept.State
}

// Retention is what the stream's retention is. Only the leader answers (else
// ErrNotLeader), and only behind everything that was proposed so far: who has just
// set it sees it.
func (e *Engine) Retention(ctx context.Context) (Kept, error) {
	if _, leads := e.leading.Now(); !leads {
		return Kept{}, ErrNotLeader
	}
	if _, err := e.command(ctx, nil); err != nil {
		return Kept{}, err
	}
	m := e.history.Manifest()
	k := Kept{Retention: e.machine.FSM.View().Retention, Subtrees: e.machine.FSM.Kept(), Oldest: m.Oldest(), Bytes: e.history.Stats().Bytes}
	if len(m.Files) > 0 {
		k.OldestTime = m.Files[0].FirstTime
	}
	return k, nil
}

// SetRetention puts a retention in the place of the one before. Only the leader does
// (else ErrNotLeader).
func (e *Engine) SetRetention(ctx context.Context, r raftfsm.Retention) error {
	err := e.limit(ctx, raftfsm.EncodeRetain(r))
	if err == nil {
		e.log.Info("the retention is set", "age", time.Duration(r.Age), "bytes", r.Bytes)
	}
	return err
}

// SetRules puts rules of subtrees in the place of the set with the number known. Only the
// leader does (else ErrNotLeader); if the set is another one, the error wraps
// kept.ErrOtherRules.
func (e *Engine) SetRules(ctx context.Context, c kept.Change) error {
	if err := retention.Sorted(c.Known, c.Rules).Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	err := e.limit(ctx, raftfsm.EncodeRules(c))
	if err == nil {
		e.log.Info("the rules of subtrees are set", "rules", len(c.Rules), "number", c.Known+1)
	}
	return err
}

// limit puts the command of a limit through the log.
func (e *Engine) limit(ctx context.Context, command []byte) error {
	if _, leads := e.leading.Now(); !leads {
		return ErrNotLeader
	}
	result, err := e.command(ctx, command)
	switch {
	case err != nil:
		return err
	case errors.Is(result.Err, raftfsm.ErrBadRetention), errors.Is(result.Err, retention.ErrBad):
		return fmt.Errorf("%w: %w", ErrInvalid, result.Err)
	case errors.Is(result.Err, kept.ErrOtherRules):
		return result.Err
	case result.Err != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, result.Err)
	}
	return nil
}

// retaining is a leader's duty: what the retention and the rules do not keep goes.
func (e *Engine) retaining() *retaining.Keeper {
	return retaining.New(retaining.Options{State: e.machine.FSM, History: e.history, Topics: e.topics, Command: e.command, Log: e.log})
}
