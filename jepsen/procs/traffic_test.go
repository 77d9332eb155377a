package procs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"chorale/client"
	"chorale/internal/procs"
	"chorale/jepsen/history"
	"chorale/message"
)

// publisher publishes as one producer through all rounds.
type publisher struct {
	id       int
	rec      *record
	nodes    string // that its client knows
	p        *client.Publisher
	client   *client.Client
	rng      *rand.Rand
	produced uint64
	size     int // of payloads, if not 0: bytes that do not compress
	answered sync.WaitGroup
	meter    meter
}

// few undecided messages make a publisher wait: it goes no faster than answers come.
const few = 500

// newPublisher is the publisher of an id with at most so many undecided messages; 0 is as
// many as a client allows.
func newPublisher(rec *record, id, undecided int, nodes ...*procs.Node) (*publisher, error) {
	c, err := procs.Dial(nodes...)
	if err != nil {
		return nil, err
	}
	var producer client.ProducerID
	binary.BigEndian.PutUint64(producer[:], uint64(id))
	out := &publisher{id: id, rec: rec, client: c, rng: rand.New(rand.NewPCG(uint64(id), 1))}
	out.p, err = c.Publisher(client.PublisherOptions{
		Producer: producer, FirstNumber: 1, MaxMessages: undecided, GiveUpAfter: 10 * time.Minute, OnWait: out.meter.wait,
	})
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		out.nodes += n.Name
	}
	return out, nil
}

// run publishes for a while, as fast as answers come but no more than a few hundred
// messages a second.
func (p *publisher) run(ctx context.Context) {
	pace := time.NewTicker(3 * time.Millisecond)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
			if err := p.publish(ctx, p.draw()); err != nil {
				return
			}
		}
	}
}

func (p *publisher) draw() client.Message {
	m := client.Message{
		Topic:   fmt.Sprintf("app/p%d/t%d", p.id, p.rng.IntN(20)),
		Payload: fmt.Appendf(nil, "%d#%d %x", p.id, p.produced+1, make([]byte, p.rng.IntN(100))),
	}
	if p.size > 0 {
		more := make([]byte, p.size)
		for i := range more {
			more[i] = byte(p.rng.Uint32())
		}
		m.Payload = append(m.Payload, more...)
	}
	switch p.rng.IntN(4) {
	case 0:
		m.Topic = "shared/by/all"
	case 1:
		m.Headers = []client.Header{{Key: "n", Value: fmt.Append(nil, p.produced)}}
	}
	return m
}

// publish sends one message and notes it and, when it comes, the answer.
func (p *publisher) publish(ctx context.Context, m client.Message) error {
	p.produced++
	body := bodyOf(m.Headers, m.Payload)
	unit := p.rec.Unit(history.Unit{Client: p.id, Number: p.produced, Messages: []history.Draft{{Topic: m.Topic, Body: body}}})
	attempt := p.rec.Invoke(unit, p.nodes)
	p.answered.Add(1)
	err := p.p.PublishFunc(ctx, m, func(a client.Ack, err error) {
		defer p.answered.Done()
		p.rec.Answer(attempt, answer(a, err))
		p.meter.answer(a.Seq, err)
	})
	if err != nil { // it was not taken, and done will not be called
		p.rec.Answer(attempt, history.Attempt{Result: history.Failed, Error: err.Error()})
		p.answered.Done()
		p.produced--
	}
	return err
}

func answer(a client.Ack, err error) history.Attempt {
	switch {
	case errors.Is(err, client.ErrUnpublished), errors.Is(err, client.ErrInvalid):
		return history.Attempt{Result: history.Failed, Error: err.Error()}
	case err != nil:
		return history.Attempt{Result: history.Unknown, Error: err.Error()}
	case a.Forgotten:
		return history.Attempt{Result: history.Forgotten}
	case a.Duplicate:
		return history.Attempt{Result: history.Duplicate, Seq: a.Seq}
	}
	return history.Attempt{Result: history.Stored, Seq: a.Seq}
}

// close waits until everything is answered.
func (p *publisher) close(ctx context.Context) error {
	err := p.p.Close(ctx)
	p.answered.Wait()
	return errors.Join(err, p.client.Close())
}

// mostBody is how much of a message a history keeps.
const mostBody = 512

// bodyOf is headers and payload as every node keeps them; of a large message it is their
// hash, so that a long history fits into memory.
func bodyOf(headers []client.Header, payload []byte) []byte {
	body := message.NewRecord(message.Draft{Headers: headers, Payload: payload}, 0, 1, 0, 0).Body()
	if len(body) > mostBody {
		sum := sha256.Sum256(body)
		return sum[:]
	}
	return body
}

// read reads from the beginning to the end that the first node knows, or until ctx
// ends, and notes the session.
func read(ctx context.Context, rec *record, reader int, untilTip bool, filters []string, nodes ...*procs.Node) error {
	_, err := readOn(ctx, rec, reader, 0, untilTip, filters, nodes...)
	return err
}

// readOn is read from behind a seq, and tells how far it came.
func readOn(ctx context.Context, rec *record, reader int, after uint64, untilTip bool, filters []string, nodes ...*procs.Node) (uint64, error) {
	c, err := procs.Dial(nodes...)
	if err != nil {
		return after, err
	}
	defer c.Close()
	s, err := c.Subscribe(ctx, client.SubscribeOptions{Filters: filters, From: client.AfterSeq(after), UntilTip: untilTip})
	if err != nil {
		return after, err
	}
	defer s.Close()
	r := history.Read{Reader: reader, Filters: filters, After: after, To: after}
	for _, n := range nodes {
		r.Node += n.Name
	}
	defer func() { rec.Read(r) }()
	for {
		d, err := s.Next(ctx)
		switch {
		case errors.Is(err, io.EOF), err != nil && ctx.Err() != nil:
			r.To = max(r.To, s.Position().Seq)
			return r.To, nil
		case err != nil:
			return r.To, fmt.Errorf("reader %d: %w", reader, err)
		}
		r.Messages = append(r.Messages, rec.seen(d))
		r.To = d.Seq
	}
}

// record is the history of one cluster while it happens. Safe for concurrent use.
type record struct {
	history.Recorder

	mu    sync.Mutex
	bySeq map[uint64][]byte // bodies of the messages that readers have seen
}

// seen is a message as a history keeps it.
func (r *record) seen(d client.Delivery) history.Message {
	return history.Message{Seq: d.Seq, Prev: d.Prev, Time: d.Time.UnixNano(), Topic: d.Topic, Body: r.same(d.Seq, bodyOf(d.Headers, d.Payload))}
}

// same keeps what many readers see of one message once; what differs stays apart.
func (r *record) same(seq uint64, body []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	first, ok := r.bySeq[seq]
	switch {
	case ok && bytes.Equal(first, body):
		return first
	case r.bySeq == nil:
		r.bySeq = map[uint64][]byte{}
	}
	if !ok {
		r.bySeq[seq] = body
	}
	return body
}
