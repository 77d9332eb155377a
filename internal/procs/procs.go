// Package procs runs a cluster of real processes, for the demo, the benchmarks and the
// chaos that kills them: on loopback, or wherever the caller has places.
package procs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"chorale/client"
)

const (
	// stopWait is how long a node may take to end before it is killed.
	stopWait = 10 * time.Second
	// listeners of a node: API, HTTP, Raft, gossip.
	listeners = 4
	pollEvery = 20 * time.Millisecond
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

// Loopback are places on loopback with ports that were free a moment ago.
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

// Node is one node: how it is started, and its process while that runs. For one
// goroutine, but for name and place, which stay.
type Node struct {
	Name string
	Place
	Dir    string
	binary string
	expect int      // nodes that found the cluster; 0 for one that joins
	seeds  []string // gossip addresses of others
	extra  []string
	log    string // file
	cmd    *exec.Cmd
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

// Moved is a node that does not run as it is started at another place.
func (n *Node) Moved(to Place) *Node {
	again := *n
	again.Place, again.cmd = to, nil
	return &again
}

// Meet tells a node whom it is to join, the next time that it is started.
func (n *Node) Meet(others ...*Node) {
	n.seeds = nil
	for _, o := range others {
		n.seeds = append(n.seeds, o.Gossip)
	}
}

// With adds arguments of `chorale serve`, which go before those that are there.
func (n *Node) With(args ...string) { n.extra = append(slices.Clone(n.extra), args...) }

// args are the arguments of the process.
func (n *Node) args() []string {
	out := []string{"serve", "--id", n.Name, "--data", n.Dir,
		"--api-addr", n.API, "--http-addr", n.HTTP, "--raft-addr", n.Raft, "--gossip-addr", n.Gossip}
	if n.expect > 0 {
		out = append(out, "--bootstrap-expect", fmt.Sprint(n.expect))
	}
	if len(n.seeds) > 0 {
		out = append(out, "--join", strings.Join(n.seeds, ","))
	}
	return append(out, n.extra...)
}

// Use runs the node with another binary from its next start on.
func (n *Node) Use(binary string) { n.binary = binary }

// Log is all that the node has written so far, in all its lives.
func (n *Node) Log() ([]byte, error) { return os.ReadFile(n.log) }

// LogFile is the name of the file that the node writes its log to.
func (n *Node) LogFile() string { return n.log }

// Ended waits for a process that ends by itself and returns the last line that it
// wrote.
func (n *Node) Ended(ctx context.Context) (last string, err error) {
	stop := context.AfterFunc(ctx, func() { n.cmd.Process.Kill() })
	n.cmd.Wait()
	n.cmd = nil
	if !stop() {
		return "", fmt.Errorf("node %s did not end by itself: %w", n.Name, ctx.Err())
	}
	b, err := os.ReadFile(n.log)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1], err
}

// FreePorts finds addresses on loopback that nothing listens on. All are held
// until the last is found, so that they differ.
func FreePorts(n int) ([]string, error) {
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		out = append(out, l.Addr().String())
	}
	return out, nil
}

// Running reports whether the node was started and not yet ended.
func (n *Node) Running() bool { return n.cmd != nil }

// PID is the process id of a running node.
func (n *Node) PID() int { return n.cmd.Process.Pid }

// Start starts the process; its output is appended to the node's log.
func (n *Node) Start() error {
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	cmd := exec.Command(n.binary, n.args()...)
	cmd.Stdout, cmd.Stderr = log, log
	// The settings of whoever runs this are not the cluster's.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "CHORALE_") })
	launch := n.Launch
	if launch == nil {
		launch = (*exec.Cmd).Start
	}
	if err := launch(cmd); err != nil {
		return err
	}
	n.cmd = cmd
	return nil
}

// Kill is what a power switch does to a process.
func (n *Node) Kill() error {
	err := n.cmd.Process.Kill()
	n.cmd.Wait()
	n.cmd = nil
	return err
}

// CPU is the processor time that a running node has taken; 0 where the system does
// not tell.
func (n *Node) CPU() time.Duration { return CPU(n.PID()) }

// Resident is the memory of a running node; 0 where the system does not tell.
func (n *Node) Resident() int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", n.PID()))
	fields := strings.Fields(string(b))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// CPU is the processor time that a process has taken, user and system; 0 where the
// system does not tell it as Linux does.
func CPU(pid int) time.Duration {
	const ticksPerSecond = 100 // USER_HZ, the same on every Linux
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name of the program, in brackets, may hold anything: fields count behind it.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / ticksPerSecond
}

// Signal sends a signal to a running node.
func (n *Node) Signal(s syscall.Signal) error { return n.cmd.Process.Signal(s) }

// Stop ends all nodes: asked first, then killed.
func (c *Cluster) Stop() {
	for _, n := range c.Nodes {
		n.ask()
	}
	for _, n := range c.Nodes {
		n.await()
	}
}

// Stop ends a node as an operator does; it is killed if that takes too long.
func (n *Node) Stop() {
	n.ask()
	n.await()
}

func (n *Node) ask() {
	if n.Running() {
		n.Signal(syscall.SIGCONT) // a paused one could not hear
		n.Signal(syscall.SIGTERM)
	}
}

func (n *Node) await() {
	if n.Running() {
		late := time.AfterFunc(stopWait, func() { n.cmd.Process.Kill() })
		n.cmd.Wait()
		late.Stop()
		n.cmd = nil
	}
}

// PrintLogs shows the end of each node's log: what a person asks for first when
// something went wrong.
func (c *Cluster) PrintLogs(w io.Writer) {
	for _, n := range c.Nodes {
		b, err := os.ReadFile(n.log)
		if err != nil {
			continue
		}
		lines := bytes.SplitAfter(b, []byte("\n"))
		fmt.Fprintf(w, "\n--- the end of the log of %s\n%s", n.Name, bytes.Join(lines[max(0, len(lines)-15):], nil))
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

// AwaitReady returns when the node serves and has applied everything up to seq.
func (n *Node) AwaitReady(ctx context.Context, seq uint64) error {
	c, err := Dial(n)
	if err != nil {
		return err
	}
	defer c.Close()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		s, err := c.Status(ctx, n.API)
		if err == nil && s.NotReady == "" && s.LastSeq >= seq {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("node %s does not become ready: %s: %w", n.Name, s.GetNotReady(), ctx.Err()), err)
		}
	}
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
