package cluster

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// RawRaft is the rival of the publish benchmarks: one node of a cluster that is
// nothing but hashicorp/raft over raft-boltdb with the settings of our own nodes
// and a state machine that only counts. The leader also makes the load, so that no
// client stands between: what it reaches is what replication leaves to a product.
type RawRaft struct {
	Dir   string
	Addr  string   // of this node's Raft listener
	Peers []string // Raft listeners of all nodes; the id of a node is its address
	// Control is where the leader takes loads from: see load.
	Control string
}

// counter is a state machine that counts the bytes of its entries.
type counter struct{ bytes uint64 }

func (c *counter) Apply(l *raft.Log) any {
	c.bytes += uint64(len(l.Data))
	return c.bytes
}
func (c *counter) Snapshot() (raft.FSMSnapshot, error) { return nothing{}, nil }
func (c *counter) Restore(r io.ReadCloser) error       { return r.Close() }

type nothing struct{}

func (nothing) Persist(s raft.SnapshotSink) error { return s.Close() }
func (nothing) Release()                          {}

// Run runs the node until ctx ends or its parent closes the control connection.
func (n RawRaft) Run(ctx context.Context) error {
	r, stop, err := n.start()
	if err != nil {
		return err
	}
	defer stop()
	l, err := net.Listen("tcp", n.Control)
	if err != nil {
		return err
	}
	defer l.Close()
	context.AfterFunc(ctx, func() { l.Close() })
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	context.AfterFunc(ctx, func() { conn.Close() })
	for {
		var load Load
		if err := binary.Read(conn, binary.LittleEndian, &load); err != nil {
			return nil // the parent is done
		}
		var answer Answer
		if r.VerifyLeader().Error() == nil {
			if answer, err = load.run(r); err != nil {
				return err
			}
		}
		if err := binary.Write(conn, binary.LittleEndian, answer); err != nil {
			return err
		}
	}
}

func (n RawRaft) start() (*raft.Raft, func(), error) {
	if err := os.MkdirAll(n.Dir, 0o755); err != nil {
		return nil, nil, err
	}
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(n.Addr)
	c.Logger = hclog.NewNullLogger()
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = 300*time.Millisecond, 300*time.Millisecond, 200*time.Millisecond
	c.CommitTimeout = 5 * time.Millisecond
	c.MaxAppendEntries, c.BatchApplyCh = 256, true
	c.SnapshotThreshold, c.TrailingLogs = 1024, 2048
	c.NoLegacyTelemetry = true
	store, err := raftboltdb.NewBoltStore(filepath.Join(n.Dir, "raft.db"))
	if err != nil {
		return nil, nil, err
	}
	cached, err := raft.NewLogCache(64, store)
	if err != nil {
		return nil, nil, err
	}
	snapshots, err := raft.NewFileSnapshotStore(n.Dir, 1, io.Discard)
	if err != nil {
		return nil, nil, err
	}
	transport, err := raft.NewTCPTransport(n.Addr, nil, 3, 30*time.Second, io.Discard)
	if err != nil {
		return nil, nil, err
	}
	r, err := raft.NewRaft(c, &counter{}, cached, store, snapshots, transport)
	if err != nil {
		return nil, nil, err
	}
	if n.Addr == n.Peers[0] {
		var servers []raft.Server
		for _, p := range n.Peers {
			servers = append(servers, raft.Server{ID: raft.ServerID(p), Address: raft.ServerAddress(p)})
		}
		if err := r.BootstrapCluster(raft.Configuration{Servers: servers}).Error(); err != nil {
			return nil, nil, err
		}
	}
	return r, func() {
		r.Shutdown()
		transport.Close()
		store.Close()
	}, nil
}

// Load is one measurement: entries of EntryBytes, InFlight of them unanswered at a
// time, for Nanoseconds. Its binary form goes over the control connection.
type Load struct {
	EntryBytes, InFlight uint32
	Nanoseconds          int64
}

// Answer is what a load reached; Entries is 0 from a node that does not lead.
type Answer struct {
	Entries     uint64
	Nanoseconds int64
	P50, P99    int64 // ns from Apply to its answer
}

func (l Load) run(r *raft.Raft) (Answer, error) {
	type flight struct {
		at time.Time
		f  raft.ApplyFuture
	}
	var flying []flight
	var took latencies
	begun := time.Now()
	for {
		if time.Since(begun) < time.Duration(l.Nanoseconds) && len(flying) < int(l.InFlight) {
			// Raft keeps the entry: each needs its own bytes.
			flying = append(flying, flight{time.Now(), r.Apply(make([]byte, l.EntryBytes), 0)})
			continue
		}
		if len(flying) == 0 {
			break
		}
		if err := flying[0].f.Error(); err != nil {
			return Answer{}, fmt.Errorf("raw raft: %w", err)
		}
		took.add(time.Since(flying[0].at))
		flying = flying[1:]
	}
	return Answer{
		Entries: uint64(len(took)), Nanoseconds: int64(time.Since(begun)),
		P50: int64(took.quantile(0.5)), P99: int64(took.quantile(0.99)),
	}, nil
}
