package node

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"

	"chorale/node/engine"

	"github.com/hashicorp/raft"
	"github.com/oklog/run"
)

// Dev says how to run a whole cluster in one process, to try Chorale.
type Dev struct {
	Nodes    int    // 1 to 9
	Dir      string // each node has a folder below it
	Port     int    // of the first node's API; node i takes Port+10i to Port+10i+3; 0: free ones
	TipBytes int64  // of each node; 0: 16 MiB
	LogLevel string
	LogJSON  bool
	Version  string
	// LogOutput is where the log goes; nil is standard error.
	LogOutput io.Writer
	// Ready is called once, when all nodes serve, with their addresses; may be nil.
	Ready func([]Addresses)
}

const (
	devTipBytes     = 16 << 20
	devSegmentBytes = 4 << 20
	devPortStride   = 10
)

// RunDev runs the cluster on the loopback interface until ctx ends (nil) or a node
// fails.
func RunDev(ctx context.Context, d Dev) error {
	if d.Nodes < 1 || d.Nodes > maxExpect {
		return &ConfigError{"nodes", strconv.Itoa(d.Nodes), fmt.Sprintf("want 1 to %d", maxExpect)}
	}
	configs, err := d.configs()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var g run.Group
	ready := make(chan Addresses, d.Nodes)
	for _, c := range configs {
		// The nodes end together, so each sees the others vanish.
		c.hush = func() bool { return ctx.Err() != nil }
		g.Add(func() error {
			return runNode(ctx, c, func(a Addresses) { ready <- a })
		}, func(error) { cancel() })
	}
	g.Add(func() error {
		d.announce(ctx, ready)
		<-ctx.Done()
		return nil
	}, func(error) { cancel() })
	return g.Run()
}

// devRaft is Raft with the times of its own defaults. All nodes share one machine
// that does other things too: where it stalls for half a second nobody has died, and
// an election would be for nothing.
func devRaft() *raft.Config {
	c, calm := engine.RaftConfig(), raft.DefaultConfig()
	c.HeartbeatTimeout, c.ElectionTimeout = calm.HeartbeatTimeout, calm.ElectionTimeout
	c.LeaderLeaseTimeout = calm.LeaderLeaseTimeout
	return c
}

// announce calls Ready when all nodes serve.
func (d Dev) announce(ctx context.Context, ready <-chan Addresses) {
	var all []Addresses
	for range d.Nodes {
		select {
		case a := <-ready:
			all = append(all, a)
		case <-ctx.Done():
			return
		}
	}
	slices.SortFunc(all, func(a, b Addresses) int { return cmp.Compare(a.ID, b.ID) })
	if d.Ready != nil {
		d.Ready(all)
	}
}

func (d Dev) configs() ([]Config, error) {
	ports, err := d.ports()
	if err != nil {
		return nil, err
	}
	at := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
	var seeds []string // none for a node alone, who waits for nobody
	for _, p := range ports {
		if d.Nodes > 1 {
			seeds = append(seeds, at(p[3]))
		}
	}
	var out []Config
	for i, p := range ports {
		c := DefaultConfig()
		c.ID = fmt.Sprintf("n%d", i+1)
		c.Dir = filepath.Join(d.Dir, c.ID)
		c.API, c.HTTP, c.Raft, c.Gossip = Listener{Bind: at(p[0])}, Listener{Bind: at(p[1])}, Listener{Bind: at(p[2])}, Listener{Bind: at(p[3])}
		c.BootstrapExpect, c.Join = d.Nodes, seeds
		if c.TipBytes = d.TipBytes; c.TipBytes == 0 {
			c.TipBytes = devTipBytes
		}
		c.SegmentBytes = devSegmentBytes
		if d.Nodes > 1 {
			c.raft = devRaft()
		}
		if d.LogLevel != "" {
			c.LogLevel = d.LogLevel
		}
		c.LogJSON, c.Version, c.LogOutput = d.LogJSON, d.Version, d.LogOutput
		out = append(out, c)
	}
	return out, nil
}

// ports are API, HTTP, Raft and gossip of each node.
func (d Dev) ports() ([][4]int, error) {
	out := make([][4]int, d.Nodes)
	for i := range out {
		for j := range out[i] {
			out[i][j] = d.Port + devPortStride*i + j
			if d.Port != 0 {
				continue
			}
			// Held until all are known, so that none is given out twice.
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return nil, fmt.Errorf("find a free port: %w", err)
			}
			defer l.Close()
			out[i][j] = l.Addr().(*net.TCPAddr).Port
		}
	}
	return out, nil
}
