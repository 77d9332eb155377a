package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"chorale/node/engine"
	"chorale/node/engine/roster"

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
	// Ready is called once, when all nodes serve that have not left, with their addresses;
	// may be nil.
	Ready func([]Addresses)
	// Left is called when a node ends that the others go on without: nil says that it was
	// drained, an error that it was removed, or is not let in. May be nil; one call at a time.
	Left func(id string, err error)
}

const (
	devTipBytes     = 16 << 20
	devSegmentBytes = 4 << 20
	devPortStride   = 10
	devPorts        = 4 // of a node
)

// RunDev runs the cluster on the loopback interface until ctx ends (nil), a node fails, or
// all have been drained (nil). In a folder that has a cluster already, nodes that it does
// not know join that.
func RunDev(ctx context.Context, d Dev) error {
	if d.Nodes < 1 || d.Nodes > maxExpect {
		return &ConfigError{"nodes", strconv.Itoa(d.Nodes), fmt.Sprintf("want 1 to %d", maxExpect)}
	}
	if most := math.MaxUint16 - devPortStride*(d.Nodes-1) - devPorts + 1; d.Port < 0 || d.Port > most {
		return &ConfigError{"port", strconv.Itoa(d.Port), fmt.Sprintf("want 0 to %d, so that %d nodes have room behind it", most, d.Nodes)}
	}
	configs, err := d.configs()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var g run.Group
	news := make(chan devNews, 2*d.Nodes)
	for _, c := range configs {
		// The nodes end together, so each sees the others vanish.
		c.hush = func() bool { return ctx.Err() != nil }
		g.Add(func() error {
			err := runNode(ctx, c, func(a Addresses) { news <- devNews{a, false, nil} })
			if ctx.Err() != nil || err != nil && !isOut(err) {
				return err
			}
			news <- devNews{Addresses{ID: c.ID}, true, err}
			<-ctx.Done()
			return nil
		}, func(error) { cancel() })
	}
	g.Add(func() error { return d.announce(ctx, news) }, func(error) { cancel() })
	return g.Run()
}

// devNews is what becomes of a node: it serves, or it has left, which is an operator's wish.
type devNews struct {
	node Addresses
	left bool
	err  error
}

// isOut reports whether a node ends because it is no member: the others go on.
func isOut(err error) bool {
	var removed *roster.RemovedError
	var out *errNotIn
	return errors.As(err, &removed) || errors.As(err, &out)
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

// announce calls Ready when all nodes serve, and Left. It returns with ctx, or when all
// nodes have left.
func (d Dev) announce(ctx context.Context, news <-chan devNews) error {
	var serve []Addresses
	left := make(map[string]bool)
	announced := false
	for len(left) < d.Nodes {
		select {
		case n := <-news:
			if n.left {
				left[n.node.ID] = true
				if d.Left != nil {
					d.Left(n.node.ID, n.err)
				}
			} else {
				serve = append(serve, n.node)
			}
		case <-ctx.Done():
			return nil
		}
		serve = slices.DeleteFunc(serve, func(a Addresses) bool { return left[a.ID] })
		if announced || len(serve)+len(left) < d.Nodes || len(serve) == 0 {
			continue
		}
		announced = true
		slices.SortFunc(serve, func(a, b Addresses) int { return cmp.Compare(a.ID, b.ID) })
		if d.Ready != nil {
			d.Ready(serve)
		}
	}
	return nil
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
	expect := d.expect()
	var out []Config
	for i, p := range ports {
		c := DefaultConfig()
		c.ID = devName(i)
		c.Dir = filepath.Join(d.Dir, c.ID)
		c.API, c.HTTP, c.Raft, c.Gossip = Listener{Bind: at(p[0])}, Listener{Bind: at(p[1])}, Listener{Bind: at(p[2])}, Listener{Bind: at(p[3])}
		c.BootstrapExpect, c.Join = expect[i], seeds
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

// expect is the bootstrap-expect of each node. Where there is a cluster already, it is the one
// of then, also for a node that has not come to know of it, and none of those that have no
// folder or were added: they join. A folder that cannot be read says so when its node starts.
func (d Dev) expect() []int {
	ids := make([]identity, maxExpect)
	then := 0 // 0 as long as there is no cluster
	for i := range ids {
		b, err := os.ReadFile(filepath.Join(d.Dir, devName(i), identityFile))
		if err == nil && json.Unmarshal(b, &ids[i]) == nil && ids[i].Cluster != "" {
			then = max(then, ids[i].Expect)
		}
	}
	out := make([]int, d.Nodes)
	for i := range out {
		switch id := ids[i]; {
		case then == 0:
			out[i] = d.Nodes
		case id.Node != "" && (id.Expect > 0 || id.Cluster == ""):
			out[i] = then
		}
	}
	return out
}

func devName(i int) string { return fmt.Sprintf("n%d", i+1) }

// ports are API, HTTP, Raft and gossip of each node.
func (d Dev) ports() ([][devPorts]int, error) {
	out := make([][devPorts]int, d.Nodes)
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
