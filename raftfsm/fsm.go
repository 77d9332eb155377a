// Package raftfsm is the replicated state machine: what a committed entry does.
package raftfsm

import (
	"errors"
	"io"

	"chorale/message"
	"chorale/segments"
	"chorale/tip"
	"chorale/topic"

	"github.com/hashicorp/raft"
)

// ErrHalted is the result of every entry after the state machine stopped.
var ErrHalted = errors.New("the state machine has stopped")

// Options wires the state machine.
type Options struct {
	Topics  *topic.Table
	Tip     *tip.Tip
	History *segments.Log
	// Halt is told, once, why the state machine stopped: a disk error, or bytes in
	// the log that this version cannot read. Nothing changes after it.
	Halt func(error)
	// Mismatch is told when this node built a file that differs from the cluster's.
	Mismatch func(error)
}

// FSM implements raft.FSM. Views (methods that are not raft's) are for any goroutine.
type FSM struct{}

// New returns an empty state machine.
func New(o Options) *FSM { panic("contract") }

// ClusterID names a cluster for ever.
type ClusterID [16]byte

// Genesis is the first command of a cluster: what all nodes must agree on.
type Genesis struct {
	Cluster           ClusterID
	SegmentBytes      int64
	ProducerRetention int64 // ns of stream time; 0 means for ever
}

// EncodeGenesis, EncodePublish and EncodeEdit make Raft entries. EncodePublish
// takes the leader's clock and admitted batches; it copies them.
func EncodeGenesis(g Genesis) []byte                   { panic("contract") }
func EncodePublish(now int64, batches [][]byte) []byte { panic("contract") }
func EncodeEdit(e segments.Edit) []byte                { panic("contract") }

// OutcomeKind is what became of a unit. The values are part of the snapshot.
type OutcomeKind uint8

// The kinds; api.Outcome explains each.
const (
	Stored OutcomeKind = iota + 1
	Duplicate
	DuplicateForgotten
	ConditionFailed
	NumberGap
	ProducerUnknown
)

// Outcome is what became of one or more consecutive units of a batch.
type Outcome struct {
	Kind  OutcomeKind
	Seq   uint64 // see api.Outcome
	Units uint32 // run length
	Index uint32 // of the message whose condition failed
}

// Result is what Apply returns for an entry.
type Result struct {
	// Outcomes has one list a batch of a publish entry, in order.
	Outcomes [][]Outcome
	// Err is a refused genesis or edit (data), or ErrHalted.
	Err error
}

// Apply implements raft.FSM; the answer is a Result.
func (f *FSM) Apply(l *raft.Log) any { panic("contract") }

// Snapshot implements raft.FSM.
func (f *FSM) Snapshot() (raft.FSMSnapshot, error) { panic("contract") }

// Restore implements raft.FSM.
func (f *FSM) Restore(r io.ReadCloser) error { panic("contract") }

// View is a consistent look at the small state.
type View struct {
	Genesis   Genesis // zero before genesis
	Index     uint64  // last applied Raft index
	LastSeq   uint64
	LastTime  int64
	Producers int
}

// View may be called by any goroutine.
func (f *FSM) View() View { panic("contract") }

// TopicStats is the volume of one topic.
type TopicStats struct {
	Messages, Bytes, LastSeq uint64
}

// EachTopic calls fn for the ids from..from+n-1 that exist.
func (f *FSM) EachTopic(from uint32, n int, fn func(id uint32, s TopicStats)) { panic("contract") }

// Producer is the last number of a producer.
func (f *FSM) Producer(id message.ProducerID) (last uint64, ok bool) { panic("contract") }
