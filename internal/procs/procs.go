// Package procs runs a cluster of real processes, for the demo, the benchmarks and the
// chaos that kills them: on loopback, or wherever the caller has places.
package procs

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"chorale/client"
)

const (
	// stopWait is how long a node may take to end before it is killed.
	stopWait = 10 * time.Second
	// listeners of a node: API, HTTP, Raft, gossip.
	listeners = 4
	pollEvery = 20 * time.Millisecond
	// lastWords is how many lines of its log are told of a node that has ended.
	lastWords = 5
)

// Place is where a node runs: its addresses, and how a process is started there; nil is
// as everywhere.
type Place struct {
	API, HTTP, Raft, Gossip string
	Launch                  func(*exec.Cmd) error
}

// At is a place with an address of its own, so with the usual ports.
func At(host string, launch func(*exec.Cmd) error) Place {
	at := func(port string) string { return net.JoinHostPort(host, port) }
	return Place{API: at("7070"), HTTP: at("7071"), Raft: at("7072"), Gossip: at("7073"), Launch: launch}
}

// Loopback are places on loopback with ports that are free.
func Loopback(n int) ([]Place, error) {
	ports, err := FreePorts(n * listeners)
	if err != nil {
		return nil, err
	}
	var out []Place
	for p := range slices.Chunk(ports, listeners) {
		out = append(out, Place{API: p[0], HTTP: p[1], Raft: p[2], Gossip: p[3]})
	}
	return out, nil
}

// Cluster is some nodes.
type Cluster struct {
	Nodes []*Node

	binary, dir string
	extra       []string
}

// New prepares a cluster of n nodes on loopback, with folders and logs below dir; extra
// are further arguments of `chorale serve`. Nothing is started.
func New(binary, dir string, n int, extra ...string) (*Cluster, error) {
	places, err := Loopback(n)
	if err != nil {
		return nil, err
	}
	return NewAt(binary, dir, places, extra...)
}

// NewAt is New with a node at each of the places.
func NewAt(binary, dir string, places []Place, extra ...string) (*Cluster, error) {
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("%w (make build makes it)", err)
	}
	c := &Cluster{binary: binary, dir: dir, extra: extra}
	for i, p := range places {
		n := c.node(fmt.Sprintf("n%d", i+1), p)
		n.expect = len(places)
		c.Nodes = append(c.Nodes, n)
	}
	if len(places) > 1 {
		for _, n := range c.Nodes {
			n.Meet(c.Nodes...)
		}
	}
	return c, nil
}

func (c *Cluster) node(name string, at Place) *Node {
	data := filepath.Join(c.dir, name)
	return &Node{Name: name, Place: at, Dir: data, binary: c.binary, extra: c.extra, log: data + ".log"}
}

// Joiner prepares a node on loopback with an empty folder that joins the cluster when it
// is started. It is not among Nodes.
func (c *Cluster) Joiner(name string) (*Node, error) {
	p, err := Loopback(1)
	if err != nil {
		return nil, err
	}
	return c.JoinerAt(name, p[0]), nil
}

// JoinerAt is Joiner at a place.
func (c *Cluster) JoinerAt(name string, at Place) *Node {
	n := c.node(name, at)
	n.Meet(c.Nodes...)
	return n
}

// Rejoiner is a node of the cluster's founding as it joins again, after its folder was
// removed: without the flags of the founding.
func (c *Cluster) Rejoiner(n *Node) *Node {
	again := *n
	again.expect, again.cmd = 0, nil
	return &again
}

// Stop ends all nodes: asked first, then killed.
func (c *Cluster) Stop() {
	for _, n := range c.Nodes {
		n.ask()
	}
	for _, n := range c.Nodes {
		n.await()
	}
}

// PrintLogs shows the end of each node's log: what a person asks for first when
// something went wrong.
func (c *Cluster) PrintLogs(w io.Writer) {
	for _, n := range c.Nodes {
		if end, err := n.lastLines(15); err == nil {
			fmt.Fprintf(w, "\n--- the end of the log of %s\n%s\n", n.Name, end)
		}
	}
}

// Start starts all nodes and waits until each serves.
func (c *Cluster) Start(ctx context.Context) error {
	for _, n := range c.Nodes {
		if err := n.Start(); err != nil {
			return err
		}
	}
	for _, n := range c.Nodes {
		if err := n.AwaitReady(ctx, 0); err != nil {
			return err
		}
	}
	_, err := c.Leader(ctx)
	return err
}

// Dial makes a client of these nodes, the first one first.
func Dial(nodes ...*Node) (*client.Client, error) {
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.API)
	}
	return client.Dial(addrs, client.Options{})
}

// Leader waits for a node that leads, by its own word.
func (c *Cluster) Leader(ctx context.Context) (*Node, error) {
	all, err := Dial(c.Nodes...)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		for _, n := range c.Nodes {
			if !n.Running() {
				continue
			}
			if s, err := all.Status(ctx, n.API); err == nil && s.State == "leader" {
				return n, nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("no node leads: %w", ctx.Err())
		}
	}
}

// Build builds chorale as it is in this tree, for tests; flags are those of the linker.
func Build(binary, flags string) error {
	if out, err := exec.Command("go", "build", "-ldflags", flags, "-o", binary, "chorale/cmd/chorale").CombinedOutput(); err != nil {
		return fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return nil
}

// Pause waits, and returns an error if ctx ends before.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
