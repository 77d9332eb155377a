package client

import (
	"fmt"
	"time"

	"chorale/client/batch"
	"chorale/client/nodes"
	"chorale/message"
)

// What a publisher does when an answer breaks the plain course. It all runs in the
// publisher's goroutine between two sessions.

// refused handles a batch that breaks a rule of the node, although it passed ours.
// Numbers must not have holes, so a refused unit cannot just be left out. The batch
// is halved until the refused unit stands alone. That unit fails; what follows it
// goes on under a fresh producer, because copies under the old one may still be on
// their way through a node, and only the hole at the refused number keeps them from
// being stored. A producer that the caller gave cannot be changed, nor can a
// publisher go on if the unit may have been stored by an earlier try: it ends.
func (p *Publisher) refused(r batch.Refusal) {
	p.mu.Lock()
	b := p.queue[0]
	if r.PayloadLimit > 0 {
		p.payloadLimit.Store(min(p.payloadLimit.Load(), int64(min(r.PayloadLimit, message.MaxPayloadBytes))))
	}
	if n := len(b.Units); n > 1 {
		halves := []*batch.Batch{b.Part(0, n/2, b.First), b.Part(n/2, n, b.First+uint64(n/2))}
		b.Frame.Release()
		p.queue = append(halves, p.queue[1:]...)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	if b.Uncertain {
		p.fail(fmt.Errorf("%w: a node refuses number %d, which was sent before: %s", ErrProducer, b.First, r.Text))
		return
	}
	p.retire(b, func() { b.Fail(fmt.Errorf("%w: %s", ErrInvalid, nodes.Brief(r.Text))) })
	if p.given() {
		p.fail(fmt.Errorf("%w: number %d was refused, and those behind it cannot be stored without it: %s", ErrProducer, b.First, r.Text))
		return
	}
	p.renew()
}

// unknown handles a producer that the cluster does not know. If the oldest batch
// cannot be stored (a publisher that was idle for long), another identity does as
// well; otherwise nobody can tell any more what became of it.
func (p *Publisher) unknown() {
	p.mu.Lock()
	b := p.queue[0]
	p.mu.Unlock()
	switch {
	case b.Uncertain:
		p.fail(fmt.Errorf("%w: the cluster has forgotten the producer; the outcome from number %d on is uncertain", ErrProducer, b.First))
	case p.given():
		p.fail(fmt.Errorf("%w: the cluster does not know the producer, so number %d cannot follow", ErrProducer, b.First))
	default:
		p.renew()
	}
}

// gap handles the answer that units are missing before the oldest batch. What was
// decided is never sent again, so if the cluster lacks that, it has lost it, or the
// caller's first number was wrong. Any other gap closes when the queue is sent
// again.
func (p *Publisher) gap(g batch.GapError) {
	p.mu.Lock()
	first := p.queue[0].First
	p.mu.Unlock()
	if g.Next < first {
		p.fail(fmt.Errorf("%w: its next number is %d in the cluster and %d here", ErrProducer, g.Next, first))
	}
}

func (p *Publisher) given() bool { return p.options.Producer != (ProducerID{}) }

// renew gives the publisher a fresh identity and everything undecided new numbers
// under it. The caller knows that none of it is or will be stored under the old.
func (p *Publisher) renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open.Units) > 0 {
		p.closeOpen()
	}
	old, next := p.producer, uint64(1)
	p.producer = randomProducer()
	for i, b := range p.queue {
		b.Encode(old)
		p.queue[i] = b.Part(0, len(b.Units), next)
		p.queue[i].Uncertain = false
		b.Frame.Release()
		next += uint64(len(b.Units))
	}
	p.open.First = next
}

// overdue ends the publisher if its oldest unit has waited for too long.
func (p *Publisher) overdue() {
	p.mu.Lock()
	oldest := p.oldest()
	late := oldest != nil && time.Since(oldest.Since) >= p.options.GiveUpAfter
	p.mu.Unlock()
	if !late {
		return
	}
	why := ""
	if node, err := p.waits.Trouble(); err != nil {
		why = fmt.Sprintf("; the last trouble was: node %s: %v", node, err)
	}
	p.fail(fmt.Errorf("%w: number %d was not answered for %v%s", ErrUnavailable, oldest.First, p.options.GiveUpAfter, why))
}

// fail ends the publisher: the goroutine resolves what is left.
func (p *Publisher) fail(err error) {
	p.mu.Lock()
	if p.failure == nil {
		p.failure = err
	}
	p.mu.Unlock()
	p.cancel()
}

// abandon resolves what the publisher leaves undecided.
func (p *Publisher) abandon() {
	p.giveUp.Stop()
	p.waits.End()
	p.mu.Lock()
	p.closed = true
	left := append(p.queue, p.open)
	if p.failure == nil && p.resolved < p.accepted {
		p.failure = fmt.Errorf("%w: the publisher, before everything was decided", ErrClosed)
	}
	cause := p.failure
	p.queue, p.open = nil, &batch.Batch{}
	p.mu.Unlock()
	for _, b := range left {
		kind := ErrUnpublished
		if b.Uncertain {
			kind = ErrUncertain
		}
		b.Fail(fmt.Errorf("%w: %w", kind, cause))
		b.Frame.Release()
		p.room.Give(b.Units...)
		p.mu.Lock()
		p.settle(len(b.Units))
		p.mu.Unlock()
	}
}
