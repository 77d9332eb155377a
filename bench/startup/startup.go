// Package startup measures what the start of a node costs that has much: how long until it
// answers, serves, and has filled its tip, and what memory a topic takes.
package startup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"chorale/api"
	"chorale/client"
	"chorale/internal/procs"
)

// Options of a run.
type Options struct {
	Binary string // chorale itself
	Dir    string // for the data; what is made there is removed
	// Messages is how many the node has, Topics over how many they are spread.
	Messages, Topics int
	// Few is the number of topics of the node that it is compared with.
	Few      int
	Payload  int   // bytes of a message
	TipBytes int64 // of the ring
	// Args are further arguments of `chorale serve`.
	Args []string
	// Calm is for how long no file may have been made before a node has come to rest.
	Calm time.Duration
	// Patience bounds the whole run.
	Patience time.Duration
	Step     func(string) // is told what runs
}

const (
	pollEvery = 5 * time.Millisecond
	calmWait  = 10 * time.Minute // for that
	// inPartition is how many topics a partition has.
	inPartition = 1000
)

// Run measures a node with few topics, then one with many. Everything that it starts has
// ended when it returns.
func Run(ctx context.Context, o Options) (*Report, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Patience)
	defer cancel()
	r := &Report{Messages: o.Messages, Payload: o.Payload}
	for _, topics := range []int{o.Few, o.Topics} {
		n, err := o.node(ctx, topics)
		if err != nil {
			return nil, err
		}
		r.Nodes = append(r.Nodes, *n)
	}
	return r, nil
}

// node fills a node and starts it again, behind an orderly end and behind a kill.
func (o Options) node(ctx context.Context, topics int) (n *Node, err error) {
	dir, err := os.MkdirTemp(o.Dir, "chorale-startup-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	c, err := procs.New(o.Binary, dir, 1, append([]string{"--pprof", "--tip-size", fmt.Sprint(o.TipBytes)}, o.Args...)...)
	if err != nil {
		return nil, err
	}
	defer c.Stop()
	o.Step(fmt.Sprintf("publishing %d messages over %d topics", o.Messages, topics))
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	k, err := procs.Dial(c.Nodes...)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	if err := o.fill(ctx, k, topics); err != nil {
		return nil, err
	}
	o.Step("waiting until nothing is built or compacted any more")
	s, err := o.rest(ctx, k, c.Nodes[0])
	if err != nil {
		return nil, err
	}
	n = &Node{Topics: int(s.Topics), Files: int(s.History.Segments + s.History.Stores), FileBytes: int64(s.History.Bytes)}
	for _, how := range []string{"stopped", "killed"} {
		o.Step("starting the node that was " + how)
		if how == "stopped" {
			c.Stop()
		} else if err := c.Nodes[0].Kill(); err != nil {
			return nil, err
		}
		start, err := o.start(ctx, k, c.Nodes[0])
		if err != nil {
			return nil, fmt.Errorf("start behind %s: %w", how, err)
		}
		start.Behind = how
		o.Step("waiting until it has come to rest")
		if _, err := o.rest(ctx, k, c.Nodes[0]); err != nil {
			return nil, err
		}
		if start.Live, start.State, err = live(ctx, c.Nodes[0]); err != nil {
			return nil, err
		}
		n.Starts = append(n.Starts, start)
	}
	return n, nil
}

// fill publishes to each topic, and then to topics by chance.
func (o Options) fill(ctx context.Context, k *client.Client, topics int) error {
	p, err := k.Publisher(client.PublisherOptions{})
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(1, 1))
	payload := make([]byte, o.Payload)
	for i := range o.Messages {
		n := i
		if n >= topics {
			n = rng.IntN(topics)
		}
		m := client.Message{Topic: fmt.Sprintf("bench/startup/p%d/topic-%d", n/inPartition, n), Payload: payload}
		if err := p.PublishFunc(ctx, m, func(client.Ack, error) {}); err != nil {
			return err
		}
	}
	return p.Close(ctx)
}

// rest waits until no file is being made, and none was for a while.
func (o Options) rest(ctx context.Context, k *client.Client, n *procs.Node) (s *api.GetStatusResponse, err error) {
	last, since := "", time.Now()
	for limit := time.Now().Add(calmWait); time.Since(since) < o.Calm && time.Now().Before(limit); {
		if s, err = k.Status(ctx, n.API); err != nil {
			return nil, err
		}
		if now := fmt.Sprint(s.History); now != last || s.History.Plan != 0 {
			last, since = now, time.Now()
		}
		if err := pause(ctx, 40*pollEvery); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// start starts the node and watches it until its tip is filled.
func (o Options) start(ctx context.Context, k *client.Client, n *procs.Node) (out Start, err error) {
	begun := time.Now()
	if err := n.Start(); err != nil {
		return out, err
	}
	for out.Filled == 0 {
		if err := pause(ctx, pollEvery); err != nil {
			return out, err
		}
		s, err := k.Status(ctx, n.API)
		now := time.Since(begun)
		switch {
		case err != nil && n.PID() > 0 && syscall.Kill(n.PID(), 0) != nil:
			return out, errors.New("the node has ended")
		case err != nil:
			continue
		case out.Answers == 0:
			out.Answers = now
		}
		if s.NotReady != "" {
			continue
		}
		if out.Ready == 0 {
			out.Ready, out.CPU = now, n.CPU()
			out.Own, out.Mapped = n.Resident()
		}
		if full(s) {
			out.Filled, out.Tip = now, int64(s.Tip.Bytes)
			out.OwnFilled, out.MappedFilled = n.Resident()
		}
	}
	return out, nil
}

// full reports whether the tip is as full as a start makes it.
func full(s *api.GetStatusResponse) bool {
	t := s.Tip
	return t.FillFromSeq == 0 && (t.FloorSeq <= s.OldestSeq || t.Bytes >= t.CapacityBytes/4*3)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
