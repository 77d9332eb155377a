// Package procs runs a cluster of real processes on loopback, for the demo, the
// benchmarks and the chaos that kills them.
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

// Node is one node: how it is started, and its process while that runs. For one
// goroutine.
type Node struct {
	Name, API, HTTP string
	Raft, Gossip    string
	Dir             string
	binary          string
	args            []string
	log             string // file
	cmd             *exec.Cmd
}

// Cluster is some nodes on ports that were free a moment ago.
type Cluster struct {
	Nodes []*Node

	binary, dir, seeds string
	extra              []string
}

// New prepares a cluster of n nodes with folders and logs below dir; extra are
// further arguments of `chorale serve`. Nothing is started.
func New(binary, dir string, n int, extra ...string) (*Cluster, error) {
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("%w (make build makes it)", err)
	}
	ports, err := FreePorts(n * listeners)
	if err != nil {
		return nil, err
	}
	var joins []string
	for i := range n {
		joins = append(joins, ports[i*listeners+3])
	}
	c := &Cluster{binary: binary, dir: dir, seeds: strings.Join(joins, ","), extra: extra}
	for i := range n {
		p := ports[i*listeners:]
		name := fmt.Sprintf("n%d", i+1)
		data := filepath.Join(dir, name)
		args := []string{"serve", "--id", name, "--data", data, "--bootstrap-expect", fmt.Sprint(n),
			"--api-addr", p[0], "--http-addr", p[1], "--raft-addr", p[2], "--gossip-addr", p[3]}
		if n > 1 {
			args = append(args, "--join", strings.Join(joins, ","))
		}
		c.Nodes = append(c.Nodes, &Node{
			Name: name, API: p[0], HTTP: p[1], Raft: p[2], Gossip: p[3], Dir: data, binary: binary,
			args: append(args, extra...), log: data + ".log",
		})
	}
	return c, nil
}

// Joiner prepares a node with an empty folder that joins the cluster when it is
// started. It is not among Nodes.
func (c *Cluster) Joiner(name string) (*Node, error) {
	p, err := FreePorts(listeners)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(c.dir, name)
	args := []string{"serve", "--id", name, "--data", data, "--join", c.seeds,
		"--api-addr", p[0], "--http-addr", p[1], "--raft-addr", p[2], "--gossip-addr", p[3]}
	return &Node{
		Name: name, API: p[0], HTTP: p[1], Raft: p[2], Gossip: p[3], Dir: data, binary: c.binary,
		args: append(args, c.extra...), log: data + ".log",
	}, nil
}

// Rejoiner is a node of the cluster's founding as it joins again, after its folder was
// removed: without the flags of the founding.
func (c *Cluster) Rejoiner(n *Node) *Node {
	again := *n
	again.args, again.cmd = slices.Clone(n.args), nil
	i := slices.Index(again.args, "--bootstrap-expect")
	again.args = slices.Delete(again.args, i, i+2)
	return &again
}

// With adds arguments of `chorale serve`, which go before those that are there.
func (n *Node) With(args ...string) { n.args = append(slices.Clone(n.args), args...) }

// Log is all that the node has written so far, in all its lives.
func (n *Node) Log() ([]byte, error) { return os.ReadFile(n.log) }

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
	cmd := exec.Command(n.binary, n.args...)
	cmd.Stdout, cmd.Stderr = log, log
	// The settings of whoever runs this are not the cluster's.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "CHORALE_") })
	if err := cmd.Start(); err != nil {
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
		if n.Running() {
			n.Signal(syscall.SIGCONT) // a paused one could not hear
			n.Signal(syscall.SIGTERM)
		}
	}
	for _, n := range c.Nodes {
		if n.Running() {
			late := time.AfterFunc(stopWait, func() { n.cmd.Process.Kill() })
			n.cmd.Wait()
			late.Stop()
			n.cmd = nil
		}
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
