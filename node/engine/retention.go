package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chorale/compactor"
	"chorale/raftfsm"
)

// expireCheck is how often a leader looks for what has expired.
const expireCheck = time.Second

// Kept is the retention, and what is kept at the moment.
type Kept struct {
	raftfsm.Retention
	Oldest     uint64 // the oldest kept seq
	OldestTime int64  // of that message, as far as it is in a file; else 0
	Bytes      int64  // of the files
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
	k := Kept{Retention: e.machine.FSM.View().Retention, Oldest: m.Oldest()}
	for i, f := range m.Files {
		if i == 0 {
			k.OldestTime = f.FirstTime
		}
		k.Bytes += f.Bytes
	}
	return k, nil
}

// SetRetention puts a retention in the place of the one before. Only the leader does
// (else ErrNotLeader).
func (e *Engine) SetRetention(ctx context.Context, r raftfsm.Retention) error {
	if _, leads := e.leading.Now(); !leads {
		return ErrNotLeader
	}
	result, err := e.command(ctx, raftfsm.EncodeRetain(r))
	switch {
	case err != nil:
		return err
	case errors.Is(result.Err, raftfsm.ErrBadRetention):
		return fmt.Errorf("%w: %w", ErrInvalid, result.Err)
	case result.Err != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, result.Err)
	}
	e.log.Info("the retention is set", "age", time.Duration(r.Age), "bytes", r.Bytes)
	return nil
}

// planning is what a plan is chosen by: a range goes as a whole, so the retention
// bounds how large it may become.
func (e *Engine) planning() compactor.Settings {
	r := e.machine.FSM.View().Retention
	return e.settings.Compaction.Within(r.Bytes, r.Age)
}

// expire is a leader's duty: to propose that what the retention does not keep goes,
// until ctx ends. What is refused is looked at again.
func (e *Engine) expire(ctx context.Context) {
	for pause(ctx, expireCheck) {
		v, m := e.machine.FSM.View(), e.history.Manifest()
		now := max(v.LastTime, time.Now().UnixNano())
		oldest := v.Retention.Oldest(m, now)
		if oldest <= m.Oldest() {
			continue
		}
		result, err := e.command(ctx, raftfsm.EncodeExpire(raftfsm.Expiry{Time: now, Oldest: oldest}))
		switch {
		case err != nil:
			e.log.Debug("an expiry was not committed", "error", err)
		case result.Err != nil:
			e.log.Debug("an expiry was refused", "error", result.Err)
		default:
			e.log.Info("messages expired", "from", m.Oldest(), "oldest", oldest)
		}
	}
}
