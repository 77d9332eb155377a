package procs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"chorale/disk"
)

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
	ended  chan struct{} // closed when the process has ended
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
	n.wait()
	if !stop() {
		return "", fmt.Errorf("node %s did not end by itself: %w", n.Name, ctx.Err())
	}
	return n.lastLines(1)
}

// wait returns when the process has ended.
func (n *Node) wait() {
	<-n.ended
	n.cmd = nil
}

// lastLines is the end of the node's log.
func (n *Node) lastLines(most int) (string, error) {
	b, err := n.Log()
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n"), err
}

// Files are the names of the data files that the node has, which carry their hashes; those
// on their way do not count.
func (n *Node) Files() (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(n.Dir, "segments"))
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), disk.TempSuffix) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// Running reports whether the node was started and not yet ended by one of these methods.
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
	ended := make(chan struct{})
	n.cmd, n.ended = cmd, ended
	// It waits from the start, so that everybody sees an end that nobody asked for.
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(ended)
	}()
	return nil
}

// Kill is what a power switch does to a process. The error wraps os.ErrProcessDone if it had
// ended before.
func (n *Node) Kill() error {
	err := n.cmd.Process.Kill()
	n.wait()
	return err
}

// CPU is the processor time that a running node has taken; 0 where the system does
// not tell.
func (n *Node) CPU() time.Duration { return CPU(n.PID()) }

// Resident is the memory of a running node: its own, and pages of files that it has
// mapped, the Raft log above all; 0 where the system does not tell.
func (n *Node) Resident() (own, mapped int64) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", n.PID()))
	fields := strings.Fields(string(b))
	if err != nil || len(fields) < 3 {
		return 0, 0
	}
	all, _ := strconv.ParseInt(fields[1], 10, 64)
	mapped, _ = strconv.ParseInt(fields[2], 10, 64)
	page := int64(os.Getpagesize())
	return (all - mapped) * page, mapped * page
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
		n.wait()
		late.Stop()
	}
}

// AwaitReady returns when the node serves and has applied everything up to seq. It fails
// with the end of the log as soon as the process has ended.
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
		case <-n.ended:
			said, err := n.lastLines(lastWords)
			return errors.Join(fmt.Errorf("node %s has ended: %s", n.Name, said), err)
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("node %s does not become ready: %s: %w", n.Name, s.GetNotReady(), ctx.Err()), err)
		}
	}
}
