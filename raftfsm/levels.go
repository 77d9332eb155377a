package raftfsm

import (
	"errors"
	"fmt"

	"chorale/raftfsm/frames"
	"chorale/raftfsm/level"
)

// ErrLevelReached is the result of a level that the log has passed already.
var ErrLevelReached = errors.New("the log has that level already")

// EncodeLevel makes the Raft entry that raises the level of the log.
func EncodeLevel(m level.Mark) []byte {
	return m.Append(appendEntryHead(nil, KindLevel))
}

// applyLevel raises the level for ever. Whether all members read it is the leader's to
// look at, before it proposes: who runs what is not in the log.
func (f *FSM) applyLevel(m level.Mark) error {
	switch {
	case f.state.genesis == (Genesis{}):
		return ErrNoGenesis
	case m.Level <= f.state.level.Level:
		return fmt.Errorf("%w: %d of %d", ErrLevelReached, m.Level, f.state.level.Level)
	}
	f.mu.Lock()
	f.state.level = m
	f.mu.Unlock()
	return nil
}

// writeLevel writes nothing for a log without a level, which only versions above 5 hold.
func (s *snapshot) writeLevel(w *frames.Writer) {
	if s.state.level == (level.Mark{}) {
		w.Uvarint(0)
		return
	}
	b := s.state.level.Append(nil)
	w.Uvarint(uint64(len(b)))
	w.Bytes(b)
}

// readLevel refuses a state of a level that this build does not read.
func (s *restored) readLevel(r *frames.Reader, own level.Range) {
	b := make([]byte, r.UpTo(level.MaxMarkBytes))
	r.Full(b)
	if r.Err != nil || len(b) == 0 && r.Version > 5 {
		return
	}
	m, err := level.DecodeMark(b)
	switch {
	case err != nil:
		r.Fail("level: %w", err)
	case s.state.genesis == (Genesis{}):
		r.Fail("a level without a genesis")
	default:
		if err := m.Check(own); err != nil {
			r.Err = fmt.Errorf("snapshot: %w", err)
		}
	}
	s.state.level = m
}
