package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"chorale/client"
	"chorale/internal/procs"
	"chorale/internal/tsv"

	"golang.org/x/sync/errgroup"
)

// payloadCap bounds the payloads that are made from the lines, in bytes.
const payloadCap = 1024

// stream is the input: what every recovery is compared with.
type stream struct {
	messages []tsv.Line
	bytes    int64 // of all payloads
}

func load(path string) (*stream, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := tsv.NewReader(f)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	s := &stream{}
	for {
		line, err := r.Next()
		if err == io.EOF {
			return s, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		s.messages = append(s.messages, line)
		s.bytes += max(int64(len(line.Short)), min(line.Size, payloadCap))
	}
}

// acks counts acknowledgements and measures the longest pause between two of
// them since the leader was killed.
type acks struct {
	mu    sync.Mutex
	count int
	last  time.Time
	pause time.Duration
	// at are closed when so many are acknowledged.
	at map[int]chan struct{}
}

func (a *acks) add() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if !a.last.IsZero() {
		a.pause = max(a.pause, now.Sub(a.last))
		a.last = now
	}
	a.count++
	if c := a.at[a.count]; c != nil {
		close(c)
	}
}

// watch begins to measure pauses.
func (a *acks) watch() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = time.Now()
}

// importStream publishes the stream through all nodes, kills the leader in the
// middle and starts it again a little later. It returns the node that was killed: the
// one that leads then, which is not the elected one if a busy machine made the others
// elect another, and then the story says so.
func importStream(ctx context.Context, c *procs.Cluster, s *stream, elected *procs.Node) (killed *procs.Node, err error) {
	all, err := procs.Dial(c.Nodes...)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	total := len(s.messages)
	half, later := make(chan struct{}), make(chan struct{})
	a := &acks{at: map[int]chan struct{}{total / 2: half, total * 3 / 4: later}}
	begun := time.Now()

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return publish(ctx, all, s, a) })
	g.Go(func() error {
		if err := await(ctx, half); err != nil {
			return err
		}
		if killed, err = c.Leader(ctx); err != nil {
			return err
		}
		if killed != elected {
			step(time.Since(begun), "%s leads by now, in the place of %s: the nodes did not hear each other in time", killed.Name, elected.Name)
		}
		pid := killed.PID()
		a.watch()
		if err := killed.Kill(); err != nil {
			return err
		}
		step(time.Since(begun), "%s messages acknowledged; SIGKILL to the leader, %s (process %d)", count(total/2), killed.Name, pid)
		if err := await(ctx, later); err != nil {
			return err
		}
		if err := killed.Start(); err != nil {
			return err
		}
		step(time.Since(begun), "%s acknowledged; %s is started again", count(total*3/4), killed.Name)
		return nil
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	took := time.Since(begun)
	step(took, "%s acknowledged, each fsynced on two nodes at least: %s, %.1f MB/s", count(total), rate(total, took), float64(s.bytes)/1e6/took.Seconds())
	step(a.pause, "was the longest wait for an acknowledgement since the kill")
	return killed, nil
}

func await(ctx context.Context, event <-chan struct{}) error {
	select {
	case <-event:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// publish sends the whole stream and waits for every acknowledgement.
func publish(ctx context.Context, c *client.Client, s *stream, a *acks) error {
	pub, err := c.Publisher(client.PublisherOptions{})
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var payload []byte
	for _, line := range s.messages {
		payload = line.Payload(payload[:0], payloadCap)
		err := pub.PublishFunc(ctx, client.Message{Topic: line.Topic, Payload: payload}, func(_ client.Ack, err error) {
			if err != nil {
				fail(fmt.Errorf("line %d: %w", line.Number, err))
				return
			}
			a.add()
		})
		if err != nil {
			break
		}
	}
	closed := pub.Close(ctx)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return closed
}
