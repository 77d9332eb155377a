package raftfsm

import (
	"encoding/binary"
	"fmt"

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

// Retention says what of the stream may go, Expiry removes what it no longer keeps.
type (
	Retention = retention.Policy
	Expiry    = retention.Expiry
)

// retentionBytes is the size of the body of either command: two numbers.
const retentionBytes = 16

// EncodeRetain makes the Raft entry that puts a retention in the place of the one
// before.
func EncodeRetain(r Retention) []byte {
	b := binary.LittleEndian.AppendUint64(appendEntryHead(nil, KindRetain), uint64(r.Age))
	return binary.LittleEndian.AppendUint64(b, uint64(r.Bytes))
}

// EncodeExpire makes the Raft entry of an expiry.
func EncodeExpire(x Expiry) []byte {
	b := binary.LittleEndian.AppendUint64(appendEntryHead(nil, KindExpire), uint64(x.Time))
	return binary.LittleEndian.AppendUint64(b, x.Oldest)
}

// decodeRetention reads the body of either command.
func (e *Entry) decodeRetention(b []byte) error {
	if len(b) != retentionBytes {
		return fmt.Errorf("%w: %v of %d bytes, want %d", ErrCorrupt, e.Kind, len(b), retentionBytes)
	}
	first, second := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	if e.Kind == KindRetain {
		e.Retain = Retention{Age: int64(first), Bytes: int64(second)}
	} else {
		e.Expire = Expiry{Time: int64(first), Oldest: second}
	}
	return nil
}

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
