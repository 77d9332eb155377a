package raftfsm

import (
	"chorale/raftfsm/frames"
	"chorale/raftfsm/members"
)

// EncodeMember makes the Raft entry of a change of the list of members.
func EncodeMember(c members.Change) []byte {
	return c.Append(appendEntryHead(nil, KindMember))
}

// applyMember changes the list, or says why not. Whether a removal leaves a majority
// is the leader's to look at, before it proposes: who lives is not in the log.
func (f *FSM) applyMember(index uint64, c members.Change) error {
	if f.state.genesis == (Genesis{}) {
		return ErrNoGenesis
	}
	list, err := f.state.members.Apply(index, c)
	if err != nil {
		return err
	}
	f.setMembers(list)
	return nil
}

func (f *FSM) setMembers(l members.List) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.members = l
	close(f.joined)
	f.joined = make(chan struct{})
}

// Members is the list of members, not to be changed. The channel is closed when there
// is another one.
func (f *FSM) Members() (members.List, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.members, f.joined
}

// Refound makes what was restored and applied so far the state of a new cluster with one
// node: the one of that id and folder. configured are the nodes of Raft's configuration.
// No entry says so: a snapshot has to follow before anything else is applied. The error
// says that the node is none to go on with, and changes nothing.
func (f *FSM) Refound(cluster ClusterID, id string, folder members.Incarnation, configured []string) error {
	switch {
	case f.halted != nil:
		return f.halted
	case f.state.genesis == (Genesis{}):
		return ErrNoGenesis
	}
	list, err := f.state.members.Alone(f.state.index, id, folder, configured)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.state.genesis.Cluster = cluster
	f.mu.Unlock()
	f.setMembers(list)
	return nil
}

func (s *restored) readMembers(r *frames.Reader) {
	b := make([]byte, r.UpTo(members.MaxListBytes))
	r.Full(b)
	if r.Err != nil {
		return
	}
	list, err := members.Decode(b, s.state.index)
	switch {
	case err != nil:
		r.Fail("members: %w", err)
	case len(list) == 0 && r.Version == 4:
		r.Fail("no members where there are some")
	case s.state.genesis == (Genesis{}):
		r.Fail("members without a genesis")
	}
	s.state.members = list
}
