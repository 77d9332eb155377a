package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"chorale/client"
	"chorale/internal/procs"

	"golang.org/x/sync/errgroup"
)

const (
	stormClients = 32
	stormPublish = 5000 // messages a second
	// calmWait is how long the nodes may take to compact what was published before.
	calmWait = 30 * time.Second
)

// storm measures what clients that come back all at once do to a publisher, and what
// each of their messages costs the node that serves them. At any time each recovers another
// partition, 1 % of the stream, from its start to the tip, again and again.
func (o Options) storm(ctx context.Context, c *procs.Cluster, add func(string, sample)) error {
	leader, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	if err := calm(ctx, leader); err != nil {
		return err
	}
	for _, l := range []struct{ row, clients int }{{12, 1}, {13, stormClients}} {
		s, err := recoverPartitions(ctx, leader, l.clients, o.Load)
		if err != nil {
			return err
		}
		add(rows[l.row].name, s)
	}
	alone, err := publishPaced(ctx, leader, o.Load)
	if err != nil {
		return err
	}
	var beside latencies
	var g errgroup.Group
	g.Go(func() (err error) {
		beside, err = publishPaced(ctx, leader, o.Load)
		return err
	})
	s, err := recoverPartitions(ctx, leader, stormClients, o.Load)
	if err = errors.Join(err, g.Wait()); err != nil {
		return err
	}
	add(rows[14].name, s)
	for row, took := range map[string]latencies{rows[10].name: alone, rows[11].name: beside} {
		add(row, sample{perSecond: float64(len(took)) / o.Load.Seconds(), p50: millis(took.quantile(0.5)), p99: millis(took.quantile(0.99))})
	}
	return nil
}

// calm waits until the node has nothing left to compact, or for calmWait.
func calm(ctx context.Context, n *procs.Node) error {
	c, err := procs.Dial(n)
	if err != nil {
		return err
	}
	defer c.Close()
	for quiet, end := 0, time.Now().Add(calmWait); quiet < 5 && time.Now().Before(end); {
		s, err := c.Status(ctx, n.API)
		if err != nil {
			return err
		}
		if quiet++; s.GetHistory().GetPlan() != 0 {
			quiet = 0
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// recoverPartitions lets so many clients recover from one node for that long: each one
// subtree after the other, at any time another one than the others, so that a single client
// reads what all of them read, and not the same messages from the processor's cache again
// and again. The CPU time is the node's.
func recoverPartitions(ctx context.Context, n *procs.Node, clients int, d time.Duration) (sample, error) {
	var messages atomic.Int64
	var g errgroup.Group
	begun, before := time.Now(), n.CPU()
	for i := range clients {
		g.Go(func() error {
			c, err := procs.Dial(n)
			if err != nil {
				return err
			}
			defer c.Close()
			for n := i; time.Since(begun) < d; n++ {
				got, err := recoverFilter(ctx, c, fmt.Sprintf("app/p%02d/**", n%stormClients))
				if err != nil {
					return err
				}
				messages.Add(int64(got))
			}
			return nil
		})
	}
	err := g.Wait()
	all := float64(messages.Load())
	return sample{perSecond: all / time.Since(begun).Seconds(), cpu: over(micros(n.CPU()-before), all)}, err
}

// recoverFilter reads everything that a filter matches, up to the tip.
func recoverFilter(ctx context.Context, c *client.Client, filter string) (messages int, err error) {
	s, err := c.Subscribe(ctx, client.SubscribeOptions{Filters: []string{filter}, UntilTip: true})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	for {
		b, err := s.NextBatch(ctx)
		if errors.Is(err, io.EOF) {
			return messages, nil
		}
		if err != nil {
			return 0, err
		}
		messages += b.Len()
		b.Release()
	}
}

// publishPaced publishes evenly through one node and returns how long each message
// took to its acknowledgement, from when it was due.
func publishPaced(ctx context.Context, n *procs.Node, d time.Duration) (latencies, error) {
	cl, err := procs.Dial(n)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	p, err := cl.Publisher(client.PublisherOptions{})
	if err != nil {
		return nil, err
	}
	var took latencies // of the callbacks, which are calls of one goroutine
	var failed error
	names, payload := topicNames(), make([]byte, 128)
	const every = time.Second / stormPublish
	begun := time.Now()
	for i := 0; time.Duration(i)*every < d; i++ {
		due := begun.Add(time.Duration(i) * every)
		if wait := time.Until(due); wait > time.Millisecond { // a timer is no finer
			time.Sleep(wait)
		}
		m := client.Message{Topic: names[(i*7919)%topics], Payload: payload}
		if err := p.PublishFunc(ctx, m, func(_ client.Ack, err error) {
			took.add(time.Since(due))
			failed = errors.Join(failed, err)
		}); err != nil {
			return nil, err
		}
	}
	if err := p.Close(ctx); err != nil {
		return nil, err
	}
	return took, failed
}
