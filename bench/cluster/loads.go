package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"chorale/client"
	"chorale/internal/procs"

	"golang.org/x/sync/errgroup"
)

// topics is how many topics the loads publish to, over partitions of them.
const (
	topics     = 10_000
	partitions = 100
)

// throughput publishes through so many publishers at once, as fast as they can,
// and returns what was acknowledged.
func throughput(ctx context.Context, c *procs.Cluster, publishers, payloadBytes int, d time.Duration) (messages float64, took latencies, err error) {
	var g errgroup.Group
	var mu sync.Mutex
	begun := time.Now()
	for i := range publishers {
		g.Go(func() error {
			l, err := publishFor(ctx, c, i, payloadBytes, d)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, l...)
			return err
		})
	}
	err = g.Wait()
	return float64(len(took)) / time.Since(begun).Seconds(), took, err
}

// publishFor is one publisher. The time of a message runs from the call that
// accepts it to its callback, the wait for a full publisher excluded.
func publishFor(ctx context.Context, c *procs.Cluster, publisher, payloadBytes int, d time.Duration) (latencies, error) {
	n := len(c.Nodes)
	cl, err := procs.Dial(c.Nodes[publisher%n], c.Nodes[(publisher+1)%n], c.Nodes[(publisher+2)%n])
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
	payload := make([]byte, payloadBytes)
	names := topicNames()
	end := time.Now().Add(d)
	for i := publisher * 7919; time.Now().Before(end); i++ {
		for k := range payload[:min(8, len(payload))] {
			payload[k] = byte(i >> (8 * k))
		}
		accepted := time.Now()
		m := client.Message{Topic: names[(i*7919)%topics], Payload: payload}
		err := p.PublishFunc(ctx, m, func(_ client.Ack, err error) {
			took.add(time.Since(accepted))
			failed = errors.Join(failed, err)
		})
		if err != nil {
			return nil, err
		}
	}
	if err := p.Close(ctx); err != nil {
		return nil, err
	}
	return took, failed
}

func topicNames() []string {
	names := make([]string, topics)
	for i := range names {
		names[i] = fmt.Sprintf("app/p%02d/s%02d", i%partitions, i/partitions)
	}
	return names
}

// oneAtATime publishes message after message, each when the one before it is
// acknowledged.
func oneAtATime(ctx context.Context, c *procs.Cluster, payloadBytes int, d time.Duration) (latencies, error) {
	leader, err := c.Leader(ctx)
	if err != nil {
		return nil, err
	}
	cl, err := procs.Dial(leader)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	p, err := cl.Publisher(client.PublisherOptions{})
	if err != nil {
		return nil, err
	}
	var took latencies
	payload := make([]byte, payloadBytes)
	for end := time.Now().Add(d); time.Now().Before(end); {
		at := time.Now()
		if _, err := p.Publish(ctx, client.Message{Topic: "app/p00/s00", Payload: payload}).Wait(ctx); err != nil {
			return nil, err
		}
		took.add(time.Since(at))
	}
	return took, p.Close(ctx)
}

// recoverAll reads everything from one node, verified by the client.
func recoverAll(ctx context.Context, n *procs.Node) (messages int, took time.Duration, err error) {
	cl, err := procs.Dial(n)
	if err != nil {
		return 0, 0, err
	}
	defer cl.Close()
	begun := time.Now()
	messages, err = recoverFilter(ctx, cl, "**")
	return messages, time.Since(begun), err
}

// failover kills the leader and returns the time until a message that is published
// from that moment on is acknowledged. The node is started again.
func failover(ctx context.Context, c *procs.Cluster) (time.Duration, error) {
	leader, err := c.Leader(ctx)
	if err != nil {
		return 0, err
	}
	var rest []*procs.Node
	for _, n := range c.Nodes {
		if n != leader {
			rest = append(rest, n)
		}
	}
	cl, err := procs.Dial(rest...)
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	p, err := cl.Publisher(client.PublisherOptions{})
	if err != nil {
		return 0, err
	}
	publish := func() error {
		_, err := p.Publish(ctx, client.Message{Topic: "app/p00/s00", Payload: []byte("x")}).Wait(ctx)
		return err
	}
	if err := publish(); err != nil { // connections stand before the clock runs
		return 0, err
	}
	begun := time.Now()
	if err := leader.Kill(); err != nil {
		return 0, err
	}
	if err := publish(); err != nil {
		return 0, err
	}
	took := time.Since(begun)
	if err := leader.Start(); err != nil {
		return 0, err
	}
	return took, errors.Join(p.Close(ctx), leader.AwaitReady(ctx, 0))
}
