package raftfsm

import (
	"chorale/raftfsm/frames"
	"chorale/raftfsm/kept"
	"chorale/retention"
)

// EncodeRules makes the Raft entry that puts rules in the place of those before, EncodeFloors
// that which lets floors rise.
func EncodeRules(c kept.Change) []byte { return c.Append(appendEntryHead(nil, KindRules)) }

// EncodeFloors is there.
func EncodeFloors(x kept.Rise) []byte { return x.Append(appendEntryHead(nil, KindFloors)) }

func (f *FSM) applyRules(c kept.Change) error {
	if f.state.genesis == (Genesis{}) {
		return ErrNoGenesis
	}
	next, err := f.state.kept.Replace(c)
	if err == nil {
		f.setKept(next)
	}
	return err
}

// applyFloors lets floors rise, if the rules and the manifest of now allow it. The leader's
// clock moves the stream's time as that of an expiry does.
func (f *FSM) applyFloors(x kept.Rise) error {
	if f.state.genesis == (Genesis{}) {
		return ErrNoGenesis
	}
	f.mu.Lock()
	f.advance(x.Time)
	f.mu.Unlock()
	next, err := f.state.kept.Raise(x, f.history.Manifest(), f.state.time, f.state.seq)
	if err == nil {
		f.setKept(next)
	}
	return err
}

func (f *FSM) setKept(s kept.State) {
	f.mu.Lock()
	f.state.kept = s
	f.mu.Unlock()
	f.floors.Store(s.Floors)
}

// Floors are what has gone of subtrees, by what is applied here. They are never behind the
// files: what these lack, a floor explains.
func (f *FSM) Floors() *retention.Floors { return f.floors.Load() }

// Kept are the rules of subtrees and their floors.
func (f *FSM) Kept() kept.State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.kept
}

// writeKept writes nothing where there never was a rule, which only versions above 6 hold.
func (s *snapshot) writeKept(w *frames.Writer) {
	var b []byte
	if !s.state.kept.IsZero() {
		b = s.state.kept.Encode()
	}
	w.Uvarint(uint64(len(b)))
	w.Bytes(b)
}

func (s *restored) readKept(r *frames.Reader) {
	b := make([]byte, r.UpTo(kept.MaxBytes))
	r.Full(b)
	if r.Err != nil || len(b) == 0 && r.Version > 6 {
		return
	}
	state, err := kept.Decode(b, s.state.seq)
	switch {
	case err != nil:
		r.Fail("%w", err)
	case s.state.genesis == (Genesis{}):
		r.Fail("limits of subtrees without a genesis")
	}
	s.state.kept = state
}
