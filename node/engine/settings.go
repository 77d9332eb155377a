package engine

import (
	"time"

	"chorale/compactor"
	"chorale/message"
	"chorale/raftfsm/level"
	"chorale/raftfsm/members"

	"github.com/hashicorp/raft"
)

// Settings of an engine. Zero values mean the defaults.
type Settings struct {
	ID           raft.ServerID
	TipBytes     int64 // of the ring; default 256 MiB
	SegmentBytes int64 // used in genesis only; default 16 MiB
	PayloadLimit int   // of one message; default message.DefaultPayloadLimit
	QueueBytes   int64 // batches between Submit and done; default 64 MiB
	// SnapshotBytes of entries after which Raft's state is written as a snapshot
	// and the log cut; half as many stay in the log behind it. Default 256 MiB.
	SnapshotBytes int64
	// Compact lets this node, when it leads, propose what is to be compacted. Every
	// node builds what was proposed.
	Compact bool
	// Compaction is what a leader plans by; default compactor.DefaultSettings.
	Compaction compactor.Settings
	// CompactRate is how many bytes a second a build reads and writes at most;
	// default 64 MiB.
	CompactRate int64
	// ScrubEvery is how often each data file is read to verify it; default a week,
	// negative is never. ScrubRate is how many bytes a second that may take at most; 0
	// is what ScrubEvery needs, at least upkeep.MinRate.
	ScrubEvery time.Duration
	ScrubRate  int64
	// FetchRate is how many bytes a second of files may come from other nodes at most;
	// default 64 MiB, negative is no limit.
	FetchRate int64
	// Incarnation of the data folder, drawn when that was made; 0: nodes have none.
	Incarnation members.Incarnation
	// Steady is how long a new node must have been caught up before it may vote;
	// default roster.DefaultSteady.
	Steady time.Duration
	// RemoveDead is for how long a member may be silent before this node, when it leads,
	// removes it for good; 0 is for ever.
	RemoveDead time.Duration
	// Reads is what of the log this build understands; default level.Built.
	Reads level.Range
	// Version of the program, for people.
	Version string
	// Raft replaces RaftConfig's answer; LocalID and Logger are set in either.
	Raft *raft.Config
}

const (
	defaultTipBytes      = 256 << 20
	defaultSegmentBytes  = 16 << 20
	defaultQueueBytes    = 64 << 20
	defaultSnapshotBytes = 256 << 20
	defaultCompactRate   = 64 << 20
	defaultFetchRate     = 64 << 20
	defaultScrubEvery    = 7 * 24 * time.Hour
)

func (s Settings) withDefaults() Settings {
	if s.TipBytes == 0 {
		s.TipBytes = defaultTipBytes
	}
	if s.SegmentBytes == 0 {
		s.SegmentBytes = defaultSegmentBytes
	}
	if s.PayloadLimit == 0 {
		s.PayloadLimit = message.DefaultPayloadLimit
	}
	if s.QueueBytes == 0 {
		s.QueueBytes = defaultQueueBytes
	}
	if s.SnapshotBytes == 0 {
		s.SnapshotBytes = defaultSnapshotBytes
	}
	if s.Compaction == (compactor.Settings{}) {
		s.Compaction = compactor.DefaultSettings()
	}
	if s.CompactRate == 0 {
		s.CompactRate = defaultCompactRate
	}
	if s.FetchRate == 0 {
		s.FetchRate = defaultFetchRate
	}
	if s.ScrubEvery == 0 {
		s.ScrubEvery = defaultScrubEvery
	}
	if s.Reads == (level.Range{}) {
		s.Reads = level.Built()
	}
	if s.Raft == nil {
		s.Raft = RaftConfig()
	}
	return s
}

// maxAppendEntries bounds the entries of one request of replication. The committer
// has no more than a few in flight, so it matters to followers that catch up alone;
// and it bounds how far the log must reach behind a snapshot, see trailingMin.
const maxAppendEntries = 64

// RaftConfig is the Raft configuration of a real node. The reasons for each value
// are in docs/decisions/timings.md.
func RaftConfig() *raft.Config {
	c := raft.DefaultConfig()
	c.HeartbeatTimeout = 300 * time.Millisecond
	c.ElectionTimeout = 300 * time.Millisecond
	c.LeaderLeaseTimeout = 200 * time.Millisecond
	c.CommitTimeout = 5 * time.Millisecond
	c.MaxAppendEntries = maxAppendEntries
	// BatchApplyCh stays off: what stands in that channel when Raft ends is never
	// answered, and the committer gathers batches by itself.
	c.NoLegacyTelemetry = true
	// Snapshots follow bytes, see snapshots.go; the count of entries is the
	// fallback for a stream of very small ones.
	c.SnapshotInterval = 30 * time.Second
	c.SnapshotThreshold = 1 << 16
	c.TrailingLogs = 2048
	return c
}
