// Package node wires the rooms into a running node: Raft, the state machine, tip
// and history, recovery for subscribers, the committer, leadership duties and
// admission. It is the only server room that starts goroutines.
package node

import (
	"context"
	"io"

	"chorale/disk"
	"chorale/message"
	"chorale/raftfsm"
	"chorale/segments"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// Seams are what an engine stands on. A real node gets files, bbolt and TCP; the
// simulation gets memory that can crash and a network that can part.
type Seams struct {
	Files     disk.FS // root of the data files
	Logs      raft.LogStore
	Stable    raft.StableStore
	Snapshots raft.SnapshotStore
	Transport raft.Transport
	Peers     Peers
	Log       hclog.Logger
}

// Peers reaches other nodes by their id.
type Peers interface {
	// Submit passes a batch on to the node that leads. done is called once.
	// Batches to one node keep their order.
	Submit(ctx context.Context, leader raft.ServerID, batch []byte, done func([]raftfsm.Outcome, error))
	// FetchFile copies a data file from any node that holds it, from offset on.
	FetchFile(ctx context.Context, h segments.Hash, offset int64, w io.Writer) error
}

// Settings of an engine. Zero values mean the defaults.
type Settings struct {
	ID           raft.ServerID
	TipBytes     int64
	SegmentBytes int64 // used in genesis only
	PayloadLimit int
	// Raft timing; see docs/benchmarks.md for the choice.
	Raft *raft.Config
}

// Engine is a node without its listeners.
type Engine struct{}

// Open restores the engine from its seams. Nothing runs until Run.
func Open(s Settings, seams Seams) (*Engine, error) { panic("contract") }

// Run runs until ctx ends (graceful: leadership is handed over; nil) or until
// something fails for good (the error says what: disk, damage, halt).
func (e *Engine) Run(ctx context.Context) error { panic("contract") }

// Submit takes an encoded batch on any node and calls done exactly once, from a
// goroutine of the engine. It checks the batch (the error is then given at once
// to done), blocks while the queue is full (until ctx ends), and keeps the order
// of the calls of one goroutine.
func (e *Engine) Submit(ctx context.Context, batch []byte, done func([]raftfsm.Outcome, error)) {
	panic("contract")
}

// SubmitLocal is Submit without forwarding: ErrNotLeader where this node does not lead.
func (e *Engine) SubmitLocal(ctx context.Context, batch []byte, done func([]raftfsm.Outcome, error)) {
	panic("contract")
}

// SubscribeRequest says what a subscription wants.
type SubscribeRequest struct {
	Filters  []string
	After    uint64 // start behind this seq
	FromTime int64  // if > 0 instead: from this time on
	FromTip  bool   // instead: from the live end
	UntilTip bool
	Cluster  raftfsm.ClusterID // zero, or where After comes from
}

// Subscription delivers a subscriber's messages. For one goroutine.
type Subscription struct {
	// After, Until, Oldest: see api.Opened.
	After, Until, Oldest uint64
	Filters              []string
}

// Subscribe starts a subscription on this node.
func (e *Engine) Subscribe(r SubscribeRequest) (*Subscription, error) { panic("contract") }

// Next appends padded records to dst, as recovery.Cursor.Next; io.EOF at Until.
func (s *Subscription) Next(ctx context.Context, dst []byte, limit int) ([]byte, message.Progress, error) {
	panic("contract")
}

// Close releases the subscription.
func (s *Subscription) Close() { panic("contract") }
