package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"chorale/api"
	"chorale/client"
	"chorale/cmd/show"
)

// progress is a line on a terminal that says how much of a recovery is done, and how
// long the rest will take; where nobody watches it is nothing. As a writer it passes on
// what is written, above the line. Safe for concurrent use.
type progress struct {
	mu      sync.Mutex
	w       io.Writer
	watched bool
	visible bool // the line is on the screen
	limit   uint64
	after   uint64            // the seq behind which the recovery began
	total   *api.ExplainTotal // nil as long as no node has told

	messages, bytes uint64 // delivered
	scanned, tip    uint64 // seqs

	// The line is drawn from samples; what changes in a second is smoothed.
	sampled     time.Time
	last        sample
	speed, rate float64 // parts of the whole and bytes a second
}

// sample is how far a recovery was at some time.
type sample struct {
	done  float64 // part of the whole
	bytes uint64
}

const (
	// sampleEvery is how often the line changes, smoothing how long a change of pace
	// takes to show.
	sampleEvery = 250 * time.Millisecond
	smoothing   = 3 * time.Second
	clearLine   = "\r\x1b[K"
)

// Write implements io.Writer.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hide()
	return p.w.Write(b)
}

// begin starts the line of an open subscription: it asks a node what the subscription
// will read while that goes on. The caller calls end.
func (p *progress) begin(ctx context.Context, c *client.Client, sub *client.Subscription) (end func()) {
	if !p.watched {
		return func() {}
	}
	start := sub.Position()
	p.after, p.scanned, p.sampled = start.Seq, start.Seq, time.Now()
	ctx, cancel := context.WithCancel(ctx)
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		for r, err := range c.Explain(ctx, client.SubscribeOptions{From: client.Resume(start)}) {
			if err == nil && r.Total != nil {
				p.told(r.Total)
			}
		}
	}()
	return func() {
		cancel()
		<-asked
		p.mu.Lock()
		defer p.mu.Unlock()
		p.hide()
	}
}

// told takes what is to be read. Without it, seqs have to do.
func (p *progress) told(total *api.ExplainTotal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = total
	p.last.done = p.done()
	p.speed = p.rate / float64(max(total.Bytes.GetEstimate(), 1))
}

// add notes a batch that was delivered, and draws the line if it is time.
func (p *progress) add(b *client.Batch, tip uint64) {
	if p.watched {
		p.note(uint64(b.Len()), uint64(len(b.Records())), b.ScannedSeq(), tip, time.Now())
	}
}

func (p *progress) note(messages, bytes, scanned, tip uint64, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.messages += messages
	p.bytes += bytes
	p.scanned, p.tip = scanned, max(p.tip, tip)
	passed := now.Sub(p.sampled)
	if passed < sampleEvery {
		return
	}
	is := sample{p.done(), p.bytes}
	weight := 1 - math.Exp(-passed.Seconds()/smoothing.Seconds())
	if p.rate == 0 {
		weight = 1
	}
	p.rate += weight * (float64(is.bytes-p.last.bytes)/passed.Seconds() - p.rate)
	p.speed += weight * ((is.done-p.last.done)/passed.Seconds() - p.speed)
	p.last, p.sampled, p.visible = is, now, true
	fmt.Fprint(p.w, clearLine, p.line(is.done))
}

// done is the part of the whole that is delivered: of the bytes that were told, or of
// the seqs, or of the messages that are wanted at most, whichever ends first.
func (p *progress) done() float64 {
	part := func(n, of uint64) float64 { return min(float64(n)/float64(max(of, 1)), 1) }
	done := 0.0
	switch {
	case p.total != nil:
		done = part(p.bytes, p.total.Bytes.GetEstimate())
	case p.tip > p.after:
		done = part(p.scanned-p.after, p.tip-p.after)
	}
	if p.limit > 0 {
		done = max(done, part(p.messages, p.limit))
	}
	return done
}

func (p *progress) line(done float64) string {
	messages := show.Plural(p.messages, "message")
	if p.total != nil {
		messages = show.Count(p.messages) + " of " + show.Counted(p.total.Messages) + " messages"
	}
	s := fmt.Sprintf("%3.0f %%  %s  %s/s", math.Floor(done*100), messages, show.Bytes(uint64(p.rate)))
	if left := (1 - done) / p.speed; p.speed > 0 && left < time.Hour.Seconds()*100 {
		d := time.Duration(left * float64(time.Second)).Round(time.Second)
		s += fmt.Sprintf("  %d:%02d left", int(d.Minutes()), int(d.Seconds())%60)
	}
	return s
}

// hide takes the line off the screen. Under mu.
func (p *progress) hide() {
	if p.visible {
		fmt.Fprint(p.w, clearLine)
		p.visible = false
	}
}
