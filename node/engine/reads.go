package engine

import (
	"context"
	"fmt"

	"chorale/disk"
	"chorale/message"
	"chorale/node/engine/listing"
	"chorale/node/engine/upkeep"
	"chorale/raftfsm"
	"chorale/segments"

	"github.com/hashicorp/raft"
)

// Leader is the leader's id as this node knows it ("" if it does not), and
// whether it is this node and serves.
func (e *Engine) Leader() (id raft.ServerID, local bool) { return e.leading.Now() }

// ID is the node's id.
func (e *Engine) ID() raft.ServerID { return e.settings.ID }

// Cluster is the cluster's id; zero before its genesis was applied.
func (e *Engine) Cluster() raftfsm.ClusterID { return e.machine.FSM.View().Genesis.Cluster }

// End is the newest seq that this node has applied.
func (e *Engine) End() uint64 { return e.machine.FSM.View().LastSeq }

// Floor is the oldest seq in memory.
func (e *Engine) Floor() uint64 { return e.tip.Floor() }

// Servers is Raft's newest configuration, perhaps not committed yet; nil before
// Raft runs.
func (e *Engine) Servers() []raft.Server {
	if r := e.running(); r != nil {
		return r.GetConfiguration().Configuration().Servers
	}
	return nil
}

// HasLog reports whether anything was ever put in this node's Raft log.
func (e *Engine) HasLog() bool {
	r := e.running()
	return r != nil && r.LastIndex() > 0
}

// TopicName is the name of a topic that was delivered.
func (e *Engine) TopicName(id uint32) string { return e.topics.Name(id) }

// Files are the files of the manifest, ascending. Not to be changed.
func (e *Engine) Files() []segments.FileMeta { return e.history.Manifest().Files }

// Lacking says what of the stream this node cannot give out for want of a file, since
// when, and why the file does not come; "" if nothing. Everything else is served.
func (e *Engine) Lacking() string { return e.upkeep.Lacking() }

// Checks tells what this node has of the manifest's files; see upkeep.Keeper.Checks.
func (e *Engine) Checks(ctx context.Context, afterSeq uint64, afterHash []byte, deep bool) ([]upkeep.Check, bool, error) {
	return e.upkeep.Checks(ctx, afterSeq, afterHash, deep)
}

// OpenFile opens a live data file by its hash; the error wraps segments.ErrNotHere
// if this node does not hold it. The caller closes it.
func (e *Engine) OpenFile(h segments.Hash) (disk.File, segments.FileMeta, error) {
	return e.history.OpenFile(h)
}

// Salvage opens what is here of a data file, sound or not; see segments.Log.Salvage.
func (e *Engine) Salvage(h segments.Hash) (disk.File, segments.FileMeta, error) {
	return e.history.Salvage(h)
}

// State captures the replicated state, as of the newest entry that this node has
// applied. To be released soon: what changes meanwhile is kept twice.
func (e *Engine) State() (raft.FSMSnapshot, error) { return e.machine.Capture() }

// Producer is the last number of a producer, 0 if it is not known. Only the leader
// answers (else ErrNotLeader), and only behind everything that was proposed so
// far: a producer goes on from this number, so an old one would be a lie.
func (e *Engine) Producer(ctx context.Context, id message.ProducerID) (last uint64, err error) {
	if _, leads := e.leading.Now(); !leads {
		return 0, ErrNotLeader
	}
	if _, err := e.command(ctx, nil); err != nil {
		return 0, err
	}
	last, _ = e.machine.FSM.Producer(id)
	return last, nil
}

// Topics lists the topics that the filters match, by name; no filter means all.
func (e *Engine) Topics(filters ...string) ([]listing.Topic, error) {
	out, err := listing.Topics(e.machine.FSM, e.topics, filters...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return out, nil
}
