package raftfsm

import (
	"io"

	"chorale/raftfsm/level"
	"chorale/segments"
	"chorale/topic"

	"github.com/hashicorp/raft"
)

// Saved is a state that was read from a snapshot, outside of any node.
type Saved struct {
	View
	Topics   uint32
	Manifest segments.Manifest
	state    *restored
}

// ReadSaved reads and checks a snapshot. The error wraps ErrCorrupt or ErrNewer, or is
// that of the reader.
func ReadSaved(r io.Reader) (*Saved, error) {
	s, err := (&FSM{topics: topic.NewTable(), reads: level.Built()}).readSnapshot(r)
	if err != nil {
		return nil, err
	}
	f := FSM{state: s.state}
	return &Saved{f.View(), s.state.stats.Len(), s.manifest, s}, nil
}

// Refound is the same state as that of another cluster, which has no members yet.
func (s *Saved) Refound(cluster ClusterID) raft.FSMSnapshot {
	names, start := topic.NewTable(), 0
	for _, end := range s.state.ends {
		names.Intern(s.state.names[start:end])
		start = end
	}
	state := s.state.state
	state.genesis.Cluster, state.members = cluster, nil
	return &snapshot{
		state: state, names: names, oldest: state.producers.oldest, producers: len(state.producers.index),
		manifest: s.Manifest, stretches: s.state.stretches,
	}
}
