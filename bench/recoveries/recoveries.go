// Package recoveries asks a running node for very many short recoveries, minute
// after minute: does the time that one takes, or the node's memory, grow?
package recoveries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"chorale/client"

	"golang.org/x/sync/errgroup"
)

// size is how many messages a recovery has at least: one of each topic of a subtree.
const size = 10

// Options of a run. Zero values mean the defaults.
type Options struct {
	// PerMinute recoveries are begun a minute, for For.
	PerMinute int
	For       time.Duration
	// Every is the length of a line of the report.
	Every time.Duration
	// Subtrees get the messages in turn.
	Subtrees int
	// Publish is how many messages a second are published meanwhile.
	Publish int
	// AtOnce bounds the recoveries under way; one that would be more waits, and its
	// waiting counts.
	AtOnce int
	// Memory reads the resident memory of the node without mapped files, in bytes;
	// nil: nobody does.
	Memory func(context.Context) (int64, error)
	// Step is told of each finished line.
	Step func(Line)
}

func (o *Options) complete() error {
	def := func(p *int, n int) {
		if *p == 0 {
			*p = n
		}
	}
	def(&o.PerMinute, 10_000)
	def(&o.Subtrees, 1000)
	def(&o.Publish, 1000)
	def(&o.AtOnce, 64)
	if o.For == 0 {
		o.For = 10 * time.Minute
	}
	if o.Every == 0 {
		o.Every = time.Minute
	}
	if o.Step == nil {
		o.Step = func(Line) {}
	}
	if o.Memory == nil {
		o.Memory = func(context.Context) (int64, error) { return 0, nil }
	}
	if o.PerMinute < 1 || o.For < time.Second || o.Every < time.Second || o.Subtrees < 1 || o.Publish < 1 || o.AtOnce < 1 {
		return errors.New("rates and numbers must be positive, times at least a second")
	}
	return nil
}

// run is a run under way.
type run struct {
	Options
	client *client.Client
	prefix string

	mu    sync.Mutex
	seqs  [][]uint64 // of the last messages of each subtree, size at most
	count int        // messages published
	took  []time.Duration
	first error
}

// Run measures. It publishes under bench/recoveries, and leaves that behind.
func Run(ctx context.Context, c *client.Client, o Options) (*Report, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	r := &run{Options: o, client: c, prefix: fmt.Sprintf("bench/recoveries/%d", time.Now().UnixNano())}
	r.seqs = make([][]uint64, o.Subtrees)
	publisher, err := c.Publisher(client.PublisherOptions{})
	if err != nil {
		return nil, err
	}
	for range size * o.Subtrees { // every subtree has something to recover
		r.publish(ctx, publisher)
	}
	if err := publisher.Flush(ctx); err != nil {
		return nil, err
	}
	report := &Report{PerMinute: o.PerMinute, Messages: size}
	if report.Memory, err = o.Memory(ctx); err != nil {
		return nil, err
	}
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, o.For)
	defer cancel()
	g, whole := errgroup.WithContext(ctx)
	g.Go(func() error { return r.publishOn(whole, publisher) })
	g.Go(func() error { return r.recoverOn(whole) })
	g.Go(func() error { return r.note(whole, report) })
	err = g.Wait()
	if errors.Is(err, context.DeadlineExceeded) && outer.Err() == nil {
		err = nil
	}
	err = errors.Join(err, r.first, publisher.Close(context.WithoutCancel(outer)))
	if err == nil && len(r.took) > 0 {
		err = r.line(outer, report)
	}
	return report, err
}

func (r *run) topic(subtree, n int) string { return fmt.Sprintf("%s/s%d/t%d", r.prefix, subtree, n) }

// publish gives the next subtree its next message.
func (r *run) publish(ctx context.Context, p *client.Publisher) error {
	n := r.count
	r.count++
	subtree := n % r.Subtrees
	m := client.Message{Topic: r.topic(subtree, n/r.Subtrees%size), Payload: make([]byte, 128)}
	return p.PublishFunc(ctx, m, func(a client.Ack, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil {
			r.first = errors.Join(r.first, err)
			return
		}
		if len(r.seqs[subtree]) == size {
			r.seqs[subtree] = append(r.seqs[subtree][:0], r.seqs[subtree][1:]...)
		}
		r.seqs[subtree] = append(r.seqs[subtree], a.Seq)
	})
}

func (r *run) publishOn(ctx context.Context, p *client.Publisher) error {
	return paced(ctx, r.Publish, time.Second, func() error { return r.publish(ctx, p) })
}

// paced calls f so many times a period, evenly, until ctx ends.
func paced(ctx context.Context, times int, period time.Duration, f func() error) error {
	const beat = 10 * time.Millisecond
	tick := time.NewTicker(beat)
	defer tick.Stop()
	begun, done := time.Now(), 0
	for {
		due := int(time.Since(begun).Seconds() / period.Seconds() * float64(times))
		for ; done < due; done++ {
			if err := f(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (r *run) recoverOn(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(r.AtOnce + 1)
	g.Go(func() error {
		return paced(ctx, r.PerMinute, time.Minute, func() error {
			due := time.Now()
			g.Go(func() error { return r.recoverOne(ctx, due) })
			return nil
		})
	})
	return g.Wait()
}

// recoverOne recovers the last messages of a subtree.
func (r *run) recoverOne(ctx context.Context, due time.Time) error {
	subtree := rand.IntN(r.Subtrees)
	r.mu.Lock()
	first := r.seqs[subtree][0]
	r.mu.Unlock()
	err := r.recoverFrom(ctx, subtree, first)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("subtree %d: %w", subtree, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took = append(r.took, time.Since(due))
	return nil
}

func (r *run) recoverFrom(ctx context.Context, subtree int, first uint64) error {
	s, err := r.client.Subscribe(ctx, client.SubscribeOptions{
		Filters: []string{fmt.Sprintf("%s/s%d/**", r.prefix, subtree)}, From: client.AfterSeq(first - 1), UntilTip: true,
	})
	if err != nil {
		return err
	}
	defer s.Close()
	n := 0
	for ; ; n++ {
		d, err := s.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if n == 0 && d.Seq != first {
			return fmt.Errorf("it begins with seq %d, want %d", d.Seq, first)
		}
	}
	if n < size {
		return fmt.Errorf("it has %d messages behind seq %d, want %d at least", n, first-1, size)
	}
	return nil
}

// note ends a line of the report now and then, and when the run ends.
func (r *run) note(ctx context.Context, report *Report) error {
	tick := time.NewTicker(r.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		// The last one is due when ctx ends.
		if err := r.line(context.WithoutCancel(ctx), report); err != nil {
			return err
		}
	}
}

func (r *run) line(ctx context.Context, report *Report) (err error) {
	r.mu.Lock()
	line := lineOf(r.took)
	r.took = nil
	r.mu.Unlock()
	if line.Memory, err = r.Memory(ctx); err != nil {
		return err
	}
	report.Lines = append(report.Lines, line)
	r.Step(line)
	return nil
}
