package raftfsm

import (
	"fmt"

	"chorale/raftfsm/frames"
	"chorale/raftfsm/level"
	"chorale/segments"
	"chorale/topic"

	"github.com/hashicorp/raft"
)

// snapshot is an immutable capture of the state. It costs Apply two words for
// each page of topics and of producers, and afterwards the copy of each page that
// Apply changes first.
type snapshot struct {
	state     state
	names     *topic.Table // the first state.stats.Len() names never change
	oldest    uint32       // producer in order of activity
	producers int          // how many
	manifest  segments.Manifest
	stretches []segments.Stretch
}

// Snapshot implements raft.FSM.
func (f *FSM) Snapshot() (raft.FSMSnapshot, error) {
	if f.halted != nil {
		return nil, f.halted
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &snapshot{
		state:     f.state,
		names:     f.topics,
		oldest:    f.state.producers.oldest,
		producers: len(f.state.producers.index),
		manifest:  f.history.Manifest(),
		stretches: f.history.Pending(),
	}
	s.state.stats = f.state.stats.Capture()
	s.state.producers = &producers{slots: f.state.producers.slots.Capture()}
	return s, nil
}

// Persist implements raft.FSMSnapshot.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	w := frames.NewWriter(sink, s.state.version())
	s.writeState(w)
	s.writeTopics(w)
	s.writeProducers(w)
	w.Begin(frames.Manifest)
	manifest := s.manifest.Encode()
	w.Uvarint(uint64(len(manifest)))
	w.Bytes(manifest)
	s.writeStretches(w)
	if err := w.End(); err != nil {
		sink.Cancel()
		return fmt.Errorf("writing a snapshot: %w", err)
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot.
func (s *snapshot) Release() { *s = snapshot{} }

// version is the lowest that can hold the state, so that a cluster whose nodes are
// being upgraded goes on: 2 has an active plan, 3 has a retention, 4 has members, 5 has a
// level, 6 has rules of subtrees, 7 a plan with floors, 8 one with chapters. A later one may have what an earlier one has. None has what the level of the log
// does not: what it holds came by a command of that level.
func (s *state) version() uint32 {
	switch {
	case s.plan.Chapter > 0:
		return 8
	case s.plan.Floors != nil:
		return 7
	case !s.kept.IsZero():
		return 6
	case s.level != level.Mark{}:
		return 5
	case len(s.members) > 0:
		return 4
	case s.retention != Retention{}:
		return 3
	case s.plan.Index != 0:
		return 2
	}
	return 1
}

func (s *snapshot) writeState(w *frames.Writer) {
	w.Begin(frames.State)
	w.Bytes(appendGenesis(nil, s.state.genesis))
	w.Uvarint(s.state.index)
	w.Uvarint(s.state.seq)
	w.Uvarint(uint64(s.state.time))
	if s.state.version() < 2 {
		return
	}
	s.state.plan.Write(w, s.state.version())
	if s.state.version() >= 3 {
		w.Uvarint(uint64(s.state.retention.Age))
		w.Uvarint(uint64(s.state.retention.Bytes))
	}
	if s.state.version() >= 4 {
		list := s.state.members.Encode()
		w.Uvarint(uint64(len(list)))
		w.Bytes(list)
	}
	if s.state.version() >= 5 {
		s.writeLevel(w)
	}
	if s.state.version() >= 6 {
		s.writeKept(w)
	}
}

func (s *snapshot) writeTopics(w *frames.Writer) {
	w.Begin(frames.Topics)
	w.Uvarint(uint64(s.state.stats.Len()))
	for id := range s.state.stats.Len() {
		name, t := s.names.Name(id), s.state.stats.At(id)
		w.Uvarint(uint64(len(name)))
		w.String(name)
		w.Uvarint(t.Messages)
		w.Uvarint(t.Bytes)
		w.Uvarint(t.LastSeq)
	}
}

func (s *snapshot) writeProducers(w *frames.Writer) {
	w.Begin(frames.Producers)
	w.Uvarint(uint64(s.producers))
	for slot := s.oldest; slot != none; {
		p := s.state.producers.slots.At(slot)
		w.Bytes(p.id[:])
		w.Uvarint(p.last)
		w.Uvarint(uint64(p.seen))
		w.Uvarint(uint64(len(p.runs)))
		for _, r := range p.runs {
			writeRun(w, r)
		}
		writeRun(w, p.newest)
		slot = p.newer
	}
}

// writeRun leaves out the first number: runs are without gap and the last one
// ends with the producer's last number.
func writeRun(w *frames.Writer, r run) {
	w.Uvarint(uint64(r.kind))
	w.Uvarint(uint64(r.units))
	w.Uvarint(r.seq)
	w.Uvarint(uint64(r.detail))
}

func (s *snapshot) writeStretches(w *frames.Writer) {
	w.Begin(frames.Stretches)
	w.Uvarint(uint64(len(s.stretches)))
	for _, t := range s.stretches {
		w.Uvarint(t.First)
		w.Uvarint(t.Last)
		closed := uint64(0)
		if t.Closed {
			closed = 1
		}
		w.Uvarint(closed)
		for _, records := range t.Chunks {
			w.Bytes(records)
		}
	}
}
