package client

import (
	"fmt"
	"time"
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
func (p *Publisher) refused(r refusal) {
	p.mu.Lock()
	b := p.queue[0]
	if limit := int64(r.payloadLimit); limit > 0 && limit < p.payloadLimit.Load() {
		p.payloadLimit.Store(limit)
	}
	if n := len(b.units); n > 1 {
		halves := []*batch{b.part(0, n/2, b.first), b.part(n/2, n, b.first+uint64(n/2))}
		b.frame.Release()
		p.queue = append(halves, p.queue[1:]...)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	if b.uncertain {
		p.fail(fmt.Errorf("%w: a node refuses number %d, which was sent before: %s", ErrProducer, b.first, r.text))
		return
	}
	p.retire(b, func() { b.fail(fmt.Errorf("%w: %s", ErrInvalid, r.text)) })
	if p.given() {
		p.fail(fmt.Errorf("%w: number %d was refused, and those behind it cannot be stored without it: %s", ErrProducer, b.first, r.text))
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
	case b.uncertain:
		p.fail(fmt.Errorf("%w: the cluster has forgotten the producer; the outcome from number %d on is uncertain", ErrProducer, b.first))
	case p.given():
		p.fail(fmt.Errorf("%w: the cluster does not know the producer, so number %d cannot follow", ErrProducer, b.first))
	default:
		p.renew()
	}
}

// gap handles the answer that units are missing before the oldest batch. What was
// decided is never sent again, so if the cluster lacks that, it has lost it, or the
// caller's first number was wrong. Any other gap closes when the queue is sent
// again.
func (p *Publisher) gap(g gapError) {
	p.mu.Lock()
	first := p.queue[0].first
	p.mu.Unlock()
	if g.next < first {
		p.fail(fmt.Errorf("%w: its next number is %d in the cluster and %d here", ErrProducer, g.next, first))
	}
}

func (p *Publisher) given() bool { return p.options.Producer != (ProducerID{}) }

// renew gives the publisher a fresh identity and everything undecided new numbers
// under it. The caller knows that none of it is or will be stored under the old.
func (p *Publisher) renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open.units) > 0 {
		p.closeOpen()
	}
	old, next := p.producer, uint64(1)
	p.producer = randomProducer()
	for i, b := range p.queue {
		b.encode(old)
		p.queue[i] = b.part(0, len(b.units), next)
		p.queue[i].uncertain = false
		b.frame.Release()
		next += uint64(len(b.units))
	}
	p.open.first = next
}

// overdue ends the publisher if its oldest unit has waited for too long.
func (p *Publisher) overdue() {
	p.mu.Lock()
	oldest := p.oldest()
	late := oldest != nil && time.Since(oldest.since) >= p.options.GiveUpAfter
	p.mu.Unlock()
	if late {
		p.fail(fmt.Errorf("%w: number %d was not answered for %v", ErrUnavailable, oldest.first, p.options.GiveUpAfter))
	}
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
	p.mu.Lock()
	p.closed = true
	left := append(p.queue, p.open)
	if p.failure == nil && p.resolved < p.accepted {
		p.failure = fmt.Errorf("%w: the publisher, before everything was decided", ErrClosed)
	}
	cause := p.failure
	p.queue, p.open = nil, &batch{}
	p.mu.Unlock()
	for _, b := range left {
		kind := ErrUnpublished
		if b.uncertain {
			kind = ErrUncertain
		}
		b.fail(fmt.Errorf("%w: %w", kind, cause))
		b.frame.Release()
		p.vacate(b.units...)
		p.mu.Lock()
		p.settle(len(b.units))
		p.mu.Unlock()
	}
}
