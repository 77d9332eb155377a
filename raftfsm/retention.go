package raftfsm

import (
	"chorale/raftfsm/drops"
	"chorale/raftfsm/retention"
)

// What a retention or an expiry is refused for: data, alike on all nodes.
var (
	// ErrBadRetention is the result of a retention with a limit that cannot be.
	ErrBadRetention = retention.ErrBad
	// ErrNotExpired is the result of an expiry of messages that are to be kept.
	ErrNotExpired = retention.ErrNotExpired
	// ErrGoneAlready is the result of an expiry of what an earlier one removed.
	ErrGoneAlready = retention.ErrGoneAlready
)

// Retention says what of the stream may go, Expiry removes what it no longer keeps, Drop files
// of which floors have left nothing.
type (
	Retention = retention.Policy
	Expiry    = retention.Expiry
	Drop      = drops.Drop
)

// EncodeRetain makes the Raft entry that puts a retention in the place of the one
// before.
func EncodeRetain(r Retention) []byte { return r.Append(appendEntryHead(nil, KindRetain)) }

// EncodeExpire makes the Raft entry of an expiry, EncodeDrop that of a drop.
func EncodeExpire(x Expiry) []byte { return x.Append(appendEntryHead(nil, KindExpire)) }

// EncodeDrop is there.
func EncodeDrop(d Drop) []byte { return d.Append(appendEntryHead(nil, KindDrop)) }

func (f *FSM) applyRetain(r Retention) error {
	if f.state.genesis == (Genesis{}) {
		return ErrNoGenesis
	}
	if err := r.Check(); err != nil {
		return err
	}
	f.mu.Lock()
	f.state.retention = r
	f.mu.Unlock()
	return nil
}

// applyExpire removes whole ranges from the start of the files, if the retention of
// now lets them go: a leader may have proposed it under another one. Its clock moves
// the stream's time as that of a publish does, so that a quiet stream expires too.
func (f *FSM) applyExpire(x Expiry) error {
	if f.state.genesis == (Genesis{}) {
		return ErrNoGenesis
	}
	f.mu.Lock()
	f.advance(x.Time)
	f.mu.Unlock()
	e, err := x.Edit(f.state.retention, f.history.Manifest(), f.state.time)
	if err != nil {
		return err
	}
	return f.changeFiles(e)
}

// applyDrop removes files of which nothing is left.
func (f *FSM) applyDrop(d Drop) error {
	if f.state.genesis == (Genesis{}) {
		return ErrNoGenesis
	}
	e, err := d.Edit(f.history.Manifest(), f.state.kept.Floors, f.state.plan.Inputs)
	if err != nil {
		return err
	}
	return f.changeFiles(e)
}
