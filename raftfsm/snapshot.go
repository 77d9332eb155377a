package raftfsm

import (
	"fmt"

	"chorale/segments"
	"chorale/topic"

	"github.com/hashicorp/raft"
)

// snapshot is an immutable capture of the state. It costs Apply one pointer for
// each page of topics and of producers, and afterwards the copy of each page that
// Apply changes first.
type snapshot struct {
	state     state
	names     *topic.Table // the first state.stats.count names never change
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
	s.state.stats = f.state.stats.capture()
	s.state.producers = &producers{slots: f.state.producers.slots.capture()}
	return s, nil
}

// Persist implements raft.FSMSnapshot.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	w := newFrameWriter(sink, s.state.version())
	s.writeState(w)
	s.writeTopics(w)
	s.writeProducers(w)
	w.begin(sectionManifest)
	manifest := s.manifest.Encode()
	w.uvarint(uint64(len(manifest)))
	w.bytes(manifest)
	s.writeStretches(w)
	if err := w.end(); err != nil {
		sink.Cancel()
		return fmt.Errorf("writing a snapshot: %w", err)
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot.
func (s *snapshot) Release() { *s = snapshot{} }

// version is the lowest that can hold the state, so that a cluster whose nodes are
// being upgraded goes on: 2 has an active plan.
func (s *state) version() uint32 {
	if s.plan.Index != 0 {
		return 2
	}
	return 1
}

func (s *snapshot) writeState(w *frameWriter) {
	w.begin(sectionState)
	w.bytes(appendGenesis(nil, s.state.genesis))
	w.uvarint(s.state.index)
	w.uvarint(s.state.seq)
	w.uvarint(uint64(s.state.time))
	if s.state.version() < 2 {
		return
	}
	w.uvarint(s.state.plan.Index)
	w.uvarint(uint64(s.state.plan.Stores))
	w.uvarint(uint64(len(s.state.plan.Inputs)))
	for _, h := range s.state.plan.Inputs {
		w.bytes(h[:])
	}
}

func (s *snapshot) writeTopics(w *frameWriter) {
	w.begin(sectionTopics)
	w.uvarint(uint64(s.state.stats.count))
	for id := range s.state.stats.count {
		name, t := s.names.Name(id), s.state.stats.at(id)
		w.uvarint(uint64(len(name)))
		w.string(name)
		w.uvarint(t.Messages)
		w.uvarint(t.Bytes)
		w.uvarint(t.LastSeq)
	}
}

func (s *snapshot) writeProducers(w *frameWriter) {
	w.begin(sectionProducers)
	w.uvarint(uint64(s.producers))
	for slot := s.oldest; slot != none; {
		p := s.state.producers.slots.at(slot)
		w.bytes(p.id[:])
		w.uvarint(p.last)
		w.uvarint(uint64(p.seen))
		w.uvarint(uint64(len(p.runs)))
		for _, r := range p.runs {
			writeRun(w, r)
		}
		writeRun(w, p.newest)
		slot = p.newer
	}
}

// writeRun leaves out the first number: runs are without gap and the last one
// ends with the producer's last number.
func writeRun(w *frameWriter, r run) {
	w.uvarint(uint64(r.kind))
	w.uvarint(uint64(r.units))
	w.uvarint(r.seq)
	w.uvarint(uint64(r.detail))
}

func (s *snapshot) writeStretches(w *frameWriter) {
	w.begin(sectionStretches)
	w.uvarint(uint64(len(s.stretches)))
	for _, t := range s.stretches {
		w.uvarint(t.First)
		w.uvarint(t.Last)
		closed := uint64(0)
		if t.Closed {
			closed = 1
		}
		w.uvarint(closed)
		for _, records := range t.Chunks {
			w.bytes(records)
		}
	}
}
