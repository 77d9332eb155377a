package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chorale/disk"
	"chorale/message"
	"chorale/node/engine/roster"
	"chorale/raftfsm"
	"chorale/segments"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is engines in one bubble: memory for disks, an in-memory network.
type cluster struct {
	t     *testing.T
	nodes []*testNode
	logMu sync.Mutex
	log   []byte
}

// testNode keeps what a machine keeps when its process ends.
type testNode struct {
	c        *cluster
	id       raft.ServerID
	settings Settings
	files    *disk.Mem
	store    *raft.InmemStore
	snaps    *raft.InmemSnapshotStore

	transport *raft.InmemTransport
	engine    *Engine
	cancel    context.CancelFunc
	ended     chan error
	fetched   atomic.Int64           // files that this node gave away
	reachable atomic.Pointer[Engine] // nil while nobody reaches it
	early     atomic.Bool            // it answers as an earlier version
	stingy    atomic.Bool            // it gives no files away
}

// commitTimeout is how often a leader with nothing new sends each follower how much is
// committed. In a bubble, where hours pass, the usual 5 ms are most of what is computed.
const commitTimeout = 50 * time.Millisecond

// inBubble gives f a bubble with a cluster of n nodes that has a leader.
func inBubble(t *testing.T, n int, tune func(*Settings), f func(*cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t}
		defer func() {
			for _, n := range c.nodes {
				n.stop()
			}
			if t.Failed() && testing.Verbose() {
				t.Log(string(c.log))
			}
		}()
		for i := range n {
			s := Settings{ID: raft.ServerID(fmt.Sprintf("n%d", i+1)), TipBytes: 1 << 20, SegmentBytes: 16 << 10}
			if tune != nil {
				tune(&s)
			}
			if s.Raft == nil {
				s.Raft = RaftConfig()
			}
			s.Raft.CommitTimeout = commitTimeout
			c.nodes = append(c.nodes, &testNode{
				c: c, id: s.ID, settings: s, files: disk.NewMem(uint64(i)),
				store: raft.NewInmemStore(), snaps: raft.NewInmemSnapshotStore(),
			})
		}
		for _, n := range c.nodes {
			n.start()
		}
		if err := c.nodes[0].engine.Bootstrap(c.configuration()); err != nil {
			t.Fatal(err)
		}
		c.leader()
		f(c)
	})
}

func (c *cluster) configuration() (out raft.Configuration) {
	for _, n := range c.nodes {
		out.Servers = append(out.Servers, raft.Server{ID: n.id, Address: raft.ServerAddress(n.id)})
	}
	return out
}

// machines are the nodes, for goroutines of nodes.
func (c *cluster) machines() []*testNode {
	c.logMu.Lock()
	defer c.logMu.Unlock()
	return slices.Clone(c.nodes)
}

// Write takes the nodes' log.
func (c *cluster) Write(b []byte) (int, error) {
	c.logMu.Lock()
	defer c.logMu.Unlock()
	c.log = append(c.log, b...)
	return len(b), nil
}

// start boots the node on what its machine has, connected to all that run.
func (n *testNode) start() {
	n.c.t.Helper()
	_, n.transport = raft.NewInmemTransport(raft.ServerAddress(n.id))
	var err error
	n.engine, err = Open(n.settings, Seams{
		Files: n.files.Mount(), Logs: n.store, Stable: n.store, Snapshots: n.snaps,
		Transport: n.transport, Peers: n,
		Log: hclog.New(&hclog.LoggerOptions{Name: string(n.id), Level: hclog.Debug, Output: n.c}),
	})
	if err != nil {
		n.c.t.Fatal(err)
	}
	n.connect()
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel, n.ended = cancel, make(chan error, 1)
	ended, e := n.ended, n.engine
	go func() { ended <- e.Run(ctx) }()
}

func (n *testNode) connect() {
	n.reachable.Store(n.engine)
	for _, m := range n.c.nodes {
		if m != n && m.engine != nil {
			m.transport.Connect(n.transport.LocalAddr(), n.transport)
			n.transport.Connect(m.transport.LocalAddr(), m.transport)
		}
	}
}

// isolate cuts the node off from all others.
func (n *testNode) isolate() {
	n.reachable.Store(nil)
	n.transport.DisconnectAll()
	for _, m := range n.c.nodes {
		m.transport.Disconnect(n.transport.LocalAddr())
	}
}

// stop ends the node and returns what its Run returned.
func (n *testNode) stop() error {
	if n.engine == nil {
		return nil
	}
	n.cancel()
	err := <-n.ended
	n.isolate()
	n.engine = nil
	return err
}

// Submit implements Peers.
func (n *testNode) Submit(ctx context.Context, leader raft.ServerID, batch []byte, done func([]raftfsm.Outcome, error)) {
	for _, m := range n.c.nodes {
		if m.id == leader && m.engine != nil {
			m.engine.SubmitLocal(ctx, batch, done)
			return
		}
	}
	done(nil, fmt.Errorf("%w: %s is down", ErrUnavailable, leader))
}

// Others implements Peers.
func (n *testNode) Others() (out []raft.ServerID) {
	for _, m := range n.c.machines() {
		if m != n {
			out = append(out, m.id)
		}
	}
	return out
}

// Fetch implements Peers.
func (n *testNode) Fetch(_ context.Context, from raft.ServerID, h segments.Hash, offset, length int64, w io.Writer) error {
	return n.fetch(from, (*Engine).OpenFile, h, offset, length, w)
}

// Salvage implements Peers.
func (n *testNode) Salvage(_ context.Context, from raft.ServerID, h segments.Hash, offset, length int64, w io.Writer) error {
	return n.fetch(from, (*Engine).Salvage, h, offset, length, w)
}

type opener func(*Engine, segments.Hash) (disk.File, segments.FileMeta, error)

func (n *testNode) fetch(from raft.ServerID, open opener, h segments.Hash, offset, length int64, w io.Writer) error {
	for _, m := range n.c.machines() {
		if m.id != from {
			continue
		}
		e := m.reachable.Load()
		if e == nil || m.stingy.Load() {
			return ErrUnavailable
		}
		f, _, err := open(e, h)
		if err != nil {
			return err
		}
		defer f.Close()
		m.fetched.Add(1)
		_, err = io.Copy(w, io.NewSectionReader(f, offset, length))
		return err
	}
	return segments.ErrNotHere
}

// Health implements Peers.
func (n *testNode) Health(_ context.Context, id raft.ServerID) (roster.Health, error) {
	for _, m := range n.c.machines() {
		if e := m.reachable.Load(); m.id == id && e != nil && n.reachable.Load() != nil {
			if m.early.Load() {
				return roster.Health{}, roster.ErrOld
			}
			return e.Health(), nil
		}
	}
	return roster.Health{}, fmt.Errorf("%w: %s is down", ErrUnavailable, id)
}

// leader waits for a node that leads and serves.
func (c *cluster) leader() *testNode {
	c.t.Helper()
	for range 1000 {
		for _, n := range c.nodes {
			if n.engine == nil {
				continue
			}
			if _, local := n.engine.Leader(); local && n.engine.Cluster() != (raftfsm.ClusterID{}) {
				return n
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.t.Fatal("no leader in 20 s")
	return nil
}

func (c *cluster) follower() *testNode {
	c.t.Helper()
	leader := c.leader()
	for _, n := range c.nodes {
		if n != leader && n.engine != nil {
			c.until("it is ready", func() bool { return n.engine.NotReady() == "" })
			return n
		}
	}
	c.t.Fatal("no follower")
	return nil
}

func (c *cluster) until(what string, ok func() bool) {
	c.t.Helper()
	for range 3000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatalf("not within 30 s: %s", what)
}

// pass lets the bubble's time pass.
func pass(d time.Duration) { time.Sleep(d) }

// batchOf encodes messages to one topic, one unit each, numbered from number if a
// producer is given.
func batchOf(producer message.ProducerID, number uint64, name string, payloads ...string) []byte {
	var b message.Builder
	for i, p := range payloads {
		n := uint64(0)
		if producer != (message.ProducerID{}) {
			n = number + uint64(i)
		}
		b.Add(n, message.Entry{Topic: name, Draft: message.Draft{Payload: []byte(p)}})
	}
	return b.Encode(nil, producer)
}

// publish submits to the node and waits.
func (n *testNode) publish(batch []byte) ([]raftfsm.Outcome, error) {
	type answer struct {
		outcomes []raftfsm.Outcome
		err      error
	}
	answers := make(chan answer, 1)
	n.engine.Submit(context.Background(), batch, func(o []raftfsm.Outcome, err error) { answers <- answer{o, err} })
	a := <-answers
	return a.outcomes, a.err
}

func (n *testNode) mustPublish(name string, payloads ...string) {
	n.c.t.Helper()
	if _, err := n.publish(batchOf(message.ProducerID{}, 0, name, payloads...)); err != nil {
		n.c.t.Fatal(err)
	}
}

// read delivers everything up to until from the node, as "seq topic payload".
func (n *testNode) read(after, until uint64, filters ...string) []string {
	n.c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := n.engine.Subscribe(ctx, SubscribeRequest{Filters: filters, After: after, UntilTip: true, Until: until})
	if err != nil {
		n.c.t.Fatal(err)
	}
	defer s.Close()
	var out []string
	for {
		b, p, err := s.Next(ctx, nil, 4<<10)
		count := 0
		for ; len(b) > 0; count++ {
			r, rest, err := message.Split(b)
			if err != nil {
				n.c.t.Fatal(err)
			}
			out = append(out, fmt.Sprintf("%d %s %s", r.Seq(), n.engine.TopicName(r.Topic()), r.Payload()))
			b = rest
		}
		if count != p.Count {
			n.c.t.Fatalf("%d records, progress says %d", count, p.Count)
		}
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			n.c.t.Fatal(err)
		}
	}
}

// sameEverywhere checks that all running nodes deliver the same, and returns it.
func (c *cluster) sameEverywhere() []string {
	c.t.Helper()
	end := c.leader().engine.End()
	var want []string
	for _, n := range c.nodes {
		if n.engine == nil {
			continue
		}
		c.until("it is ready", func() bool { return n.engine.NotReady() == "" })
		got := n.read(0, end, "**")
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) || uint64(len(got)) != end {
			c.t.Fatalf("%s delivers %d messages of %d:\n%q\nwant\n%q", n.id, len(got), end, got, want)
		}
	}
	return want
}
