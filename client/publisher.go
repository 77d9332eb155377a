package client

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"chorale/client/batch"
	"chorale/client/waits"
	"chorale/message"
)

const (
	batchesInFlight   = 8
	maxMessages       = 16_384
	defaultBytes      = 32 << 20
	defaultGiveUpTime = 2 * time.Minute
)

// PublisherOptions are the options of a publisher. The zero value is right for
// most.
type PublisherOptions struct {
	// Producer is who the messages are from; zero means a random one. A program
	// that gives its own can continue after a restart: it publishes the same
	// messages under the same numbers, and none is stored twice.
	Producer ProducerID
	// FirstNumber is the number of the first unit; 0 means 1. Only with Producer.
	FirstNumber uint64
	// MaxMessages bounds the messages that are accepted and not yet decided; 0 and
	// everything above 16,384 mean 16,384.
	MaxMessages int
	// MaxBytes bounds the same in encoded bytes; 0 means 32 MiB. A unit that is
	// larger by itself is let through alone.
	MaxBytes int64
	// GiveUpAfter is how long a message may stay undecided before the publisher
	// ends, with ErrUncertain for what it has sent; 0 means 2 minutes.
	GiveUpAfter time.Duration
	// OnWait is told why nothing is decided; nil means that nobody wants to know. See
	// Wait.
	OnWait func(Wait)
}

// Publisher publishes messages in the order in which it is given them, as one
// idempotent producer, over one connection after the other. Safe for concurrent
// use; the order is that in which the calls get through.
type Publisher struct {
	client  *Client
	options PublisherOptions
	room    *batch.Room
	// wake tells the goroutine that there may be something to send.
	wake   chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{} // closed when the goroutine has ended

	mu sync.Mutex
	// queue holds the batches that are not decided, in the order of their numbers:
	// queue[:sent] are on the wire. open takes units and is not in the queue yet.
	queue []*batch.Batch
	sent  int
	open  *batch.Batch
	spare []*batch.Batch
	// Units, since the publisher was made: resolved <= accepted.
	accepted, resolved uint64
	waiting            []flush
	producer           ProducerID
	closed             bool  // takes no more
	failure            error // why it ended by itself

	waits *waits.Teller

	stall  *time.Timer // an answer is due
	giveUp *time.Timer // the oldest unit is due

	// payloadLimit is the least that a node was heard to allow.
	payloadLimit atomic.Int64
}

// flush is someone who waits until so many units are resolved.
type flush struct {
	units uint64
	done  chan struct{}
}

// Publisher makes a publisher. Close it when done.
func (c *Client) Publisher(o PublisherOptions) (*Publisher, error) {
	if o.FirstNumber > 1 && o.Producer == (ProducerID{}) {
		return nil, fmt.Errorf("%w: a first number of %d needs the producer that it belongs to", ErrInvalid, o.FirstNumber)
	}
	if o.MaxMessages <= 0 || o.MaxMessages > maxMessages {
		o.MaxMessages = maxMessages
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultBytes
	}
	if o.GiveUpAfter <= 0 {
		o.GiveUpAfter = defaultGiveUpTime
	}
	p := &Publisher{
		client: c, options: o, producer: o.Producer,
		room: batch.NewRoom(o.MaxMessages, o.MaxBytes),
		wake: make(chan struct{}, 1), ended: make(chan struct{}),
		open:  &batch.Batch{First: max(o.FirstNumber, 1)},
		waits: waits.New(o.OnWait),
	}
	p.payloadLimit.Store(message.MaxPayloadBytes)
	if p.producer == (ProducerID{}) {
		p.producer = randomProducer()
	}
	p.ctx, p.cancel = context.WithCancel(c.ctx)
	p.giveUp = time.AfterFunc(time.Hour, p.overdue)
	p.giveUp.Stop()
	if err := c.start(p.run); err != nil {
		return nil, err
	}
	return p, nil
}

func randomProducer() (id ProducerID) {
	rand.Read(id[:])
	return id
}

// Publish accepts a message and returns its future outcome. It blocks while the
// publisher is full, until ctx ends; an accepted message no longer depends on ctx.
// Topic, headers and payload are copied before it returns.
func (p *Publisher) Publish(ctx context.Context, m Message) *Result {
	r := new(Result)
	entry := [1]message.Entry{m.entry()}
	if err := p.accept(ctx, (*future)(r), entry[:]); err != nil {
		r.resolve(Ack{}, err)
	}
	return r
}

// PublishFunc is Publish with a callback, which saves the future: done is called
// once with what Result.Wait would return. If PublishFunc returns an error, the
// message was not accepted and done is not called.
//
// Callbacks are called in the order of publishing by the goroutine that receives
// answers, so they must not block, not even in Publish.
func (p *Publisher) PublishFunc(ctx context.Context, m Message, done func(Ack, error)) error {
	entry := [1]message.Entry{m.entry()}
	return p.accept(ctx, callback(done), entry[:])
}

// PublishAtomic accepts messages over any topics that are stored together, one
// behind the other, or not at all. See Publish.
func (p *Publisher) PublishAtomic(ctx context.Context, unit ...Message) *Result {
	r := new(Result)
	entries := make([]message.Entry, len(unit))
	for i, m := range unit {
		entries[i] = m.entry()
	}
	if err := p.accept(ctx, (*future)(r), entries); err != nil {
		r.resolve(Ack{}, err)
	}
	return r
}

func (m Message) entry() message.Entry {
	return message.Entry{Topic: m.Topic, Draft: message.Draft{Headers: m.Headers, Payload: m.Payload}, Expected: m.ExpectedLastSeq}
}

// accept makes the entries a unit of the open batch.
func (p *Publisher) accept(ctx context.Context, to batch.Resolver, entries []message.Entry) error {
	size, err := batch.Check(entries, int(p.payloadLimit.Load()))
	if err != nil {
		return invalid{err}
	}
	u := batch.Unit{To: to, Messages: len(entries), Bytes: size}
	if err := p.room.Take(ctx, u); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.over(); err != nil {
		p.room.Give(u)
		return err
	}
	if len(p.open.Units) > 0 && !p.open.Fits(len(entries), size) {
		p.closeOpen()
	}
	p.open.Add(u, entries)
	p.accepted++
	if len(p.open.Units) == 1 {
		p.open.Since = time.Now()
		if len(p.queue) == 0 {
			p.giveUp.Reset(p.options.GiveUpAfter)
		}
		p.notify()
	}
	return nil
}

// over is why the publisher takes no more. The lock is held.
func (p *Publisher) over() error {
	switch {
	case p.failure != nil:
		return fmt.Errorf("%w: %w", ErrClosed, p.failure)
	case p.closed || p.ctx.Err() != nil:
		return fmt.Errorf("%w: the publisher", ErrClosed)
	}
	return nil
}

// Producer is who the publisher publishes as. One that was not given may change
// when a node refuses a message or has forgotten the producer.
func (p *Publisher) Producer() ProducerID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.producer
}

// Flush waits until everything that was accepted before is decided, or ctx ends.
// What became of each message its Result says; the error is the context's, or why
// the publisher ended.
func (p *Publisher) Flush(ctx context.Context) error {
	p.mu.Lock()
	f := flush{p.accepted, make(chan struct{})}
	if p.resolved >= f.units {
		close(f.done)
	} else {
		p.waiting = append(p.waiting, f)
	}
	p.mu.Unlock()
	select {
	case <-f.done:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.failure
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close takes no more messages, waits as Flush does, and ends the publisher. When
// it returns, every Result is resolved, whatever the error.
func (p *Publisher) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.Flush(ctx)
	p.cancel()
	<-p.ended
	return err
}
