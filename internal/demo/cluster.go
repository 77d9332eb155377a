package main

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
	"strings"
	"syscall"
	"time"
)

// stopWait is how long a node may take to end before it is killed.
const stopWait = 10 * time.Second

// cluster is three processes on ports that were free a moment ago.
type cluster struct {
	nodes []*process
}

// process is one node: what it is started with, and the process while it runs.
type process struct {
	name, api string
	binary    string
	args      []string
	log       string // file
	cmd       *exec.Cmd
}

func newCluster(binary, dir string) (*cluster, error) {
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("%w (make build makes it)", err)
	}
	const listeners = 4 // a node
	ports, err := freePorts(3 * listeners)
	if err != nil {
		return nil, err
	}
	var joins []string
	for i := range 3 {
		joins = append(joins, ports[i*listeners+3])
	}
	c := &cluster{}
	for i := range 3 {
		p := ports[i*listeners:]
		name := fmt.Sprintf("n%d", i+1)
		c.nodes = append(c.nodes, &process{
			name: name, api: p[0], binary: binary, log: filepath.Join(dir, name+".log"),
			args: []string{"serve", "--id", name, "--data", filepath.Join(dir, name), "--bootstrap-expect", "3",
				"--api-addr", p[0], "--http-addr", p[1], "--raft-addr", p[2], "--gossip-addr", p[3],
				"--join", strings.Join(joins, ",")},
		})
	}
	return c, nil
}

// freePorts finds addresses on loopback that nothing listens on. All are held
// until the last is found, so that they differ.
func freePorts(n int) ([]string, error) {
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

func (p *process) start() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	p.cmd = exec.Command(p.binary, p.args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// The settings of whoever runs the demo are not the demo's.
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "CHORALE_") })
	return p.cmd.Start()
}

// kill is what a power switch does to a process.
func (p *process) kill() error {
	err := p.cmd.Process.Kill()
	p.cmd.Wait()
	p.cmd = nil
	return err
}

// stop ends all nodes: asked first, then killed.
func (c *cluster) stop() {
	for _, p := range c.nodes {
		if p.cmd != nil {
			p.cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	for _, p := range c.nodes {
		if p.cmd != nil {
			late := time.AfterFunc(stopWait, func() { p.cmd.Process.Kill() })
			p.cmd.Wait()
			late.Stop()
		}
	}
}

// printLogs shows the end of each node's log: what a person asks for first when
// something went wrong.
func (c *cluster) printLogs(w io.Writer) {
	for _, p := range c.nodes {
		b, err := os.ReadFile(p.log)
		if err != nil {
			continue
		}
		lines := bytes.SplitAfter(b, []byte("\n"))
		fmt.Fprintf(w, "\n--- the end of the log of %s\n%s", p.name, bytes.Join(lines[max(0, len(lines)-15):], nil))
	}
}

// found starts all nodes and waits until the cluster serves.
func (c *cluster) found(ctx context.Context) error {
	begun := time.Now()
	for _, p := range c.nodes {
		if err := p.start(); err != nil {
			return err
		}
	}
	for _, p := range c.nodes {
		if err := p.awaitReady(ctx, 0); err != nil {
			return err
		}
	}
	leader, err := c.leader(ctx)
	if err != nil {
		return err
	}
	step(time.Since(begun), "three nodes have met, founded a cluster and elected %s", leader.name)
	return nil
}

// awaitReady returns when the node serves and has applied everything up to seq.
func (p *process) awaitReady(ctx context.Context, seq uint64) error {
	c, err := dial(p)
	if err != nil {
		return err
	}
	defer c.Close()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := c.Status(ctx, p.api)
		if err == nil && s.NotReady == "" && s.LastSeq >= seq {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("node %s does not become ready: %s: %w", p.name, s.GetNotReady(), ctx.Err()), err)
		}
	}
}

// leader is the node that leads, by its own word.
func (c *cluster) leader(ctx context.Context) (*process, error) {
	all, err := dial(c.nodes...)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, p := range c.nodes {
			if s, err := all.Status(ctx, p.api); err == nil && s.State == "leader" {
				return p, nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("no node leads: %w", ctx.Err())
		}
	}
}
