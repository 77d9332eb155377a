// Package node is the process: it owns the data folder and the four listeners,
// finds its peers, forms the cluster, and runs an engine (package engine) behind
// its servers (package server).
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"chorale/api"
	"chorale/membership"
	"chorale/node/engine"
	"chorale/node/greeting"
	"chorale/node/peers"
	"chorale/node/raftlog"
	"chorale/node/server"
	"chorale/raftfsm/level"
	"chorale/raftfsm/members"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/oklog/run"
)

const (
	// cacheBytes of the newest log entries stay in memory for replication: half a second
	// of the fastest publishing that was measured. Who is further behind is sent entries
	// from the file, which the page cache has.
	cacheBytes      = 32 << 20
	snapshotsKept   = 2
	watchEvery      = 100 * time.Millisecond
	closeWait       = 2 * time.Second
	readHeaderLimit = 10 * time.Second
)

// Addresses are what others reach a node by.
type Addresses struct{ ID, API, HTTP, Raft, Gossip string }

// Run runs a node until ctx ends (graceful; nil) or until something fails for
// good: the error then says what, for a person. The process is expected to end
// after an error.
func Run(ctx context.Context, c Config) error { return runNode(ctx, c, func(Addresses) {}) }

// runNode is Run; ready is called when the node serves for the first time.
func runNode(ctx context.Context, c Config, ready func(Addresses)) (err error) {
	if err := c.Validate(); err != nil {
		return err
	}
	p := &process{config: c, log: c.logger(), ready: ready, begun: time.Now()}
	p.formation.Store("starting")
	p.drained, p.drain = context.WithCancel(context.Background())
	defer p.drain()
	defer func() {
		for i := len(p.closers) - 1; i >= 0; i-- {
			err = errors.Join(err, p.closers[i]())
		}
	}()
	if err := p.open(); err != nil {
		return err
	}
	return p.run(ctx)
}

// process is a node with its listeners.
type process struct {
	config    Config
	log       hclog.Logger
	ready     func(Addresses)
	addresses Addresses

	folder    *folder
	raftLog   *raftlog.Store
	gossip    *membership.Gossip
	directory directory
	peers     *peers.Peers
	engine    *engine.Engine
	server    *server.Server
	http      *http.Server

	apiListener, httpListener net.Listener

	// formation is why Raft does not run yet; "" once it does.
	formation atomic.Value // string
	hasData   atomic.Bool
	ending    atomic.Bool // gently, not because of an error
	begun     time.Time
	// drained ends with drain, by request of an operator.
	drained context.Context
	drain   context.CancelFunc
	// closers undo open, last first.
	closers []func() error
}

func (p *process) onClose(f func() error) { p.closers = append(p.closers, f) }

// open makes everything that a run needs; nothing runs yet but accepting
// connections and gossip.
func (p *process) open() error {
	if err := p.config.purpose(); err != nil {
		return err
	}
	var err error
	if p.folder, err = openFolder(p.config.Dir, p.config.ID); err != nil {
		return err
	}
	p.onClose(p.folder.close)
	layer, err := p.listen()
	if err != nil {
		return err
	}
	snapshots, err := p.openRaftLog()
	if err != nil {
		return err
	}
	if err := p.checkFlags(); err != nil {
		return err
	}
	if err := p.startGossip(); err != nil {
		return err
	}
	p.directory = directory{
		gossip: p.gossip, cluster: p.folder.cluster, servers: func() []raft.Server { return p.engine.Servers() },
		members: func() members.List { return p.engine.Members() },
	}
	transport := greeting.NewTransport(layer, p.directory)
	p.onClose(transport.Close)
	p.peers = peers.New(p.directory, p.log.Named("peers"))
	p.onClose(func() error { p.peers.Close(); return nil })
	p.engine, err = engine.Open(engine.Settings{
		ID:            raft.ServerID(p.config.ID),
		TipBytes:      p.config.TipBytes,
		SegmentBytes:  p.config.SegmentBytes,
		SnapshotBytes: p.config.SnapshotBytes,
		Compact:       p.config.Compact,
		Compaction:    p.config.compaction(),
		CompactRate:   p.config.CompactRate,
		ScrubEvery:    cmp.Or(p.config.ScrubEvery, -1), // 0 would be the default
		ScrubRate:     p.config.ScrubRate,
		FetchRate:     cmp.Or(p.config.FetchRate, -1), // the same
		RemoveDead:    p.config.RemoveDead,
		PayloadLimit:  p.config.PayloadLimit,
		Incarnation:   p.folder.get().Incarnation,
		Version:       level.Version(p.config.Version),
		Raft:          p.config.raft,
	}, engine.Seams{
		Files:     p.folder.files,
		Logs:      raftlog.NewCache(p.raftLog, cacheBytes),
		Stable:    p.raftLog,
		Snapshots: snapshots,
		Transport: transport,
		Peers:     p.peers,
		Log:       p.log,
	})
	if err != nil {
		return err
	}
	p.server = server.New(server.Options{
		Engine: p.engine, Leader: p.peers, Log: p.log.Named("server"), Version: p.config.Version,
		Members: p.members, NotReady: p.notReady, Drain: p.drain, GossipAddress: p.addresses.Gossip, Pprof: p.config.Pprof,
	})
	p.http = &http.Server{
		Handler: p.server.HTTP(), ReadHeaderTimeout: readHeaderLimit,
		ErrorLog: p.log.Named("http").StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
	}
	return nil
}

// listen binds API, HTTP and Raft. (Gossip binds by itself.)
func (p *process) listen() (*greeting.Layer, error) {
	bind := func(key string, l Listener) (net.Listener, error) {
		listener, err := net.Listen("tcp", l.Bind)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		p.onClose(func() error { listener.Close(); return nil }) // may be closed by its server
		return listener, nil
	}
	var err error
	if p.apiListener, err = bind("api-addr", p.config.API); err != nil {
		return nil, err
	}
	if p.httpListener, err = bind("http-addr", p.config.HTTP); err != nil {
		return nil, err
	}
	raftListener, err := bind("raft-addr", p.config.Raft)
	if err != nil {
		return nil, err
	}
	p.addresses = Addresses{
		ID:   p.config.ID,
		API:  p.config.API.advertised(p.apiListener.Addr()),
		HTTP: p.config.HTTP.advertised(p.httpListener.Addr()),
		Raft: p.config.Raft.advertised(raftListener.Addr()),
	}
	return &greeting.Layer{
		Listener: raftListener, Advertise: p.addresses.Raft,
		Cluster: p.folder.cluster, Log: p.log.Named("raft"),
	}, nil
}

// openRaftLog opens log and snapshots and makes sure that they fit together.
func (p *process) openRaftLog() (raft.SnapshotStore, error) {
	dir := filepath.Join(p.config.Dir, raftDir)
	var err error
	if p.raftLog, err = raftlog.Open(filepath.Join(dir, logFile), raftlog.DefaultDeadline); err != nil {
		return nil, err
	}
	p.onClose(p.raftLog.Close)
	files, err := raftlog.OpenSnapshots(dir, snapshotsKept, p.log.Named("snapshots"))
	if err != nil {
		return nil, fmt.Errorf("open the snapshots in %s: %w", dir, err)
	}
	snapshots := p.raftLog.Snapshots(files)
	if err := p.raftLog.Reconcile(snapshots); err != nil {
		return nil, err
	}
	has, err := raft.HasExistingState(p.raftLog, p.raftLog, snapshots)
	if err != nil {
		return nil, fmt.Errorf("read the raft log: %w", err)
	}
	p.hasData.Store(has)
	return snapshots, nil
}

// checkFlags holds the flags against what the folder remembers. A folder without
// data is nobody's yet: a start that was refused must not bind it to an id.
func (p *process) checkFlags() error {
	c, id := p.config, p.folder.get()
	expect := fmt.Sprint(c.BootstrapExpect)
	known, err := p.folder.peers()
	if errors.Is(err, errDamagedPeers) {
		p.log.Warn("the list of peers is damaged and left out of account", "file", filepath.Join(c.Dir, peersFile), "error", err)
		err = nil
	}
	switch {
	case err != nil:
		return fmt.Errorf("data folder %s: read %s: %w", c.Dir, peersFile, err)
	case id.Recovering:
		return fmt.Errorf("data folder %s: chorale recover-quorum began here and did not end: run it again", c.Dir)
	case c.NonVoter && c.BootstrapExpect > 0:
		return &ConfigError{"non-voter", "true", "a node that founds a cluster votes: leave out bootstrap-expect to join one as a read replica"}
	case id.Node != c.ID && (p.hasData.Load() || id.Founding):
		return &ConfigError{"id", c.ID, fmt.Sprintf("the data folder %s belongs to node %q", c.Dir, id.Node)}
	case id.Cluster != "" && !id.Joining && !p.hasData.Load():
		return fmt.Errorf("data folder %s belongs to cluster %s, but its %s is empty: the log is lost", c.Dir, id.Cluster, raftDir)
	case p.hasData.Load() && c.BootstrapExpect > 0 && id.Expect == 0:
		return &ConfigError{"bootstrap-expect", expect, fmt.Sprintf("the node in %s was added to its cluster and must not found one", c.Dir)}
	case p.hasData.Load() && c.BootstrapExpect > 0 && id.Expect != c.BootstrapExpect:
		return &ConfigError{"bootstrap-expect", expect, fmt.Sprintf("the cluster of the node in %s was founded with %d", c.Dir, id.Expect)}
	case !p.hasData.Load() && c.BootstrapExpect == 1 && len(c.Join) > 0:
		return &ConfigError{"bootstrap-expect", expect, "a node that founds a cluster of one waits for nobody, so join contradicts it: leave out join to found one, or bootstrap-expect to be added to the cluster there"}
	case !p.hasData.Load() && c.BootstrapExpect == 0 && len(c.Join) == 0 && len(known) == 0:
		return noPurpose
	}
	return p.folder.change(func(i *identity) { i.Node = c.ID })
}

func (p *process) startGossip() error {
	known, err := p.folder.peers()
	if err != nil && !errors.Is(err, errDamagedPeers) {
		return err
	}
	key, err := p.config.gossipKey()
	if err != nil {
		return err
	}
	advertise := ""
	if ad := p.config.Gossip.Advertise; ad != "" {
		_, port, _ := net.SplitHostPort(p.config.Gossip.Bind)
		advertise = p.config.Gossip.advertised(greeting.NamedAddr(net.JoinHostPort(ad, port)))
	}
	p.gossip, err = membership.Start(membership.Config{
		ID: p.config.ID, Bind: p.config.Gossip.Bind, Advertise: advertise, Key: key, Meta: p.meta(),
		Seeds: p.config.Join, Known: known, Save: p.folder.savePeers, Log: p.log.Named("gossip"),
	})
	if err != nil {
		return fmt.Errorf("gossip-addr: %w", err)
	}
	p.onClose(p.gossip.Close)
	p.addresses.Gossip = p.gossip.Address()
	return nil
}

func (p *process) members() []*api.MemberStatus {
	leader, _ := p.engine.Leader()
	return p.directory.status(p.engine.Servers(), leader)
}

func (p *process) notReady() string {
	if why := p.formation.Load().(string); why != "" {
		return why
	}
	return p.engine.NotReady()
}

// run runs the node. The engine ends first, while everything that it stands on
// still runs; then the rest.
func (p *process) run(ctx context.Context) error {
	front, endFront := context.WithCancel(context.Background())
	defer endFront()
	back, endBack := context.WithCancel(context.Background())
	defer endBack()
	p.log.Info("listening", "api", p.addresses.API, "http", p.addresses.HTTP, "raft", p.addresses.Raft, "gossip", p.addresses.Gossip)
	var g run.Group
	g.Add(func() error {
		select {
		case <-ctx.Done():
			p.ending.Store(true)
		case <-p.drained.Done():
			p.ending.Store(true)
		case <-front.Done():
		}
		return nil
	}, func(error) { endFront() })
	var failed error // of the engine; the group would name who ends first because of it
	g.Add(func() error {
		defer endBack()
		defer p.sayGoodbye()
		defer p.closeServers()
		if failed = p.form(front); failed == nil {
			p.formation.Store("")
			failed = p.engine.Run(front)
		}
		return failed
	}, func(error) { endFront() })
	g.Add(func() error { return p.server.GRPC().Serve(p.apiListener) }, func(error) { endFront() })
	g.Add(func() error { return p.http.Serve(p.httpListener) }, func(error) { endFront() })
	for _, actor := range []func(context.Context) error{p.raftLog.Run, p.gossip.Run, p.watch, p.introduce} {
		g.Add(func() error { return actor(back) }, func(error) { endFront() })
	}
	err := g.Run()
	if failed != nil && !errors.Is(failed, context.Canceled) {
		err = failed
	}
	if err != nil {
		var other *level.Error
		if errors.As(err, &other) { // the next start is to be refused at once
			err = errors.Join(err, p.folder.atLevel(other.Mark))
		}
		p.log.Error(endedBadly, "error", err)
		return err
	}
	p.log.Info("ended")
	return nil
}

// sayGoodbye tells the others that this node ends on purpose, before it leaves them.
func (p *process) sayGoodbye() {
	if p.ending.Load() {
		if err := p.gossip.Update(p.meta()); err != nil {
			p.log.Debug("the others will take this node for dead", "error", err)
		}
	}
}

// closeServers lets clients finish what they are owed, for a moment.
func (p *process) closeServers() {
	p.server.SetReady(false)
	p.server.End()
	timer := time.AfterFunc(closeWait, p.server.GRPC().Stop)
	p.server.GRPC().GracefulStop()
	timer.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	if err := p.http.Shutdown(ctx); err != nil {
		p.http.Close()
	}
}
