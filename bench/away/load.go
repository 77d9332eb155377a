package away

import (
	"context"
	"fmt"
	"sync"
	"time"

	"chorale/client"
)

// beat is how often the messages that are due are published.
const beat = 10 * time.Millisecond

// load publishes at a steady rate and notes the longest time without an acknowledgement.
type load struct {
	rate    int
	payload []byte

	mu    sync.Mutex
	acked int
	last  time.Time // of an acknowledgement, or of the last mark
	gap   time.Duration
	first error
}

// run publishes until ctx ends.
func (l *load) run(ctx context.Context, c *client.Client) error {
	p, err := c.Publisher(client.PublisherOptions{})
	if err != nil {
		return err
	}
	tick := time.NewTicker(beat)
	defer tick.Stop()
	begun, done := time.Now(), 0
	for ctx.Err() == nil {
		for due := int(time.Since(begun).Seconds() * float64(l.rate)); done < due; done++ {
			m := client.Message{Topic: fmt.Sprintf("bench/away/p%d/t%d", done%7, done%topics), Payload: l.payload}
			if err := p.PublishFunc(context.WithoutCancel(ctx), m, l.answered); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	if err := p.Close(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil && l.acked != done {
		return fmt.Errorf("%d messages were published, %d acknowledged", done, l.acked)
	}
	return l.first
}

func (l *load) answered(_ client.Ack, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.first = err
		return
	}
	l.acked++
	l.note()
}

func (l *load) note() {
	now := time.Now()
	if !l.last.IsZero() {
		l.gap = max(l.gap, now.Sub(l.last))
	}
	l.last = now
}

// mark returns the longest gap since the last mark.
func (l *load) mark() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note()
	gap := l.gap
	l.gap = 0
	return gap
}
