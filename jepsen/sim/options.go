// Package sim runs a whole cluster in one process: three engines over memory disks
// that lose power and a network that parts, with publishers and subscribers, under
// the virtual time of testing/synctest. Everything is drawn from one seed. What
// the clients were told is then judged by package check.
package sim

import (
	"io"
	"math/rand/v2"
	"time"

	"chorale/compactor"
	"chorale/node/engine"
	"chorale/raftfsm/level"
)

// nodes of a cluster.
const nodes = 3

// Options of a history. What a seed draws is in plan.
type Options struct {
	Seed uint64
	// Log takes the log lines of the nodes and of the nemesis; nil for none.
	Log io.Writer
}

// plan is what a seed decides before anything runs.
type plan struct {
	tipBytes, segmentBytes    int64
	append                    int    // entries of one request of replication
	trailing, threshold       uint64 // of Raft's log, in entries
	storm                     time.Duration
	probes                    int
	producers, plain, readers int
	finalCrash                bool // all nodes lose power before the final reads
	finalRestart              bool // all nodes are restarted and read again
	meanPause                 time.Duration
	maxUnits, maxUnitMessages int
	conditional               int // units of 100
	payload                   int // usual bytes of a message, at most
	compact                   bool
	compaction                compactor.Settings
	compactRate               int64
	replaced                  bool        // machines are removed, get an empty disk and join again
	retained                  bool        // now and then the stream's retention changes
	ruled                     bool        // now and then the rules of subtrees change
	earliest                  level.Level // that the first builds read
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

func newPlan(rng *rand.Rand) plan {
	return plan{
		tipBytes:        pick(rng, int64(8<<10), 24<<10, 96<<10, 256<<10),
		segmentBytes:    pick(rng, int64(2<<10), 6<<10, 24<<10),
		append:          pick(rng, 1, 4, 16),
		trailing:        pick(rng, uint64(2), 8, 64),
		threshold:       pick(rng, uint64(8), 24, 96),
		storm:           time.Duration(4+rng.IntN(14)) * time.Second,
		producers:       1 + rng.IntN(4),
		plain:           rng.IntN(3),
		readers:         2 + rng.IntN(5),
		probes:          1 + rng.IntN(2),
		finalCrash:      rng.IntN(2) == 0,
		finalRestart:    rng.IntN(3) == 0,
		meanPause:       pick(rng, 20*time.Millisecond, 60*time.Millisecond, 200*time.Millisecond),
		maxUnits:        pick(rng, 1, 2, 6),
		maxUnitMessages: pick(rng, 1, 2, 4),
		conditional:     pick(rng, 0, 10, 40),
		payload:         pick(rng, 8, 40, 200),
		compact:         rng.IntN(8) > 0,
		compaction: compactor.Settings{
			FanOut: pick(rng, 2, 3), StoreBytes: pick(rng, int64(1<<10), 8<<10), MaxStores: pick(rng, 1, 3, 8), MaxFiles: pick(rng, 10, 1000),
			ChapterBytes: pick(rng, uint32(0), 1<<10, 4<<10, 32<<20),
		},
		compactRate: pick(rng, int64(64<<10), 512<<10, 64<<20),
	}
}

// settings of the engine: everything is small, so that each hand-off happens all
// the time, and Raft keeps so few entries that a follower that was away is sent a
// snapshot.
func (p plan) settings(name string) engine.Settings {
	c := engine.RaftConfig()
	c.CommitTimeout = 20 * time.Millisecond
	c.SnapshotInterval = 500 * time.Millisecond
	c.SnapshotThreshold = p.threshold
	c.MaxAppendEntries = p.append
	c.TrailingLogs = p.trailing
	return engine.Settings{
		ID: serverID(name), TipBytes: p.tipBytes, SegmentBytes: p.segmentBytes, QueueBytes: 1 << 20, Raft: c,
		Compact: p.compact, Compaction: p.compaction, CompactRate: p.compactRate,
	}
}
