package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"chorale/jepsen/history"
	"chorale/jepsen/sim/ledger"
	"chorale/message"
	"chorale/raftfsm"
)

const (
	// window is how many batches a publisher has on their way.
	window = 3
	// patience is how long a publisher waits for an answer before it gives the
	// connection up.
	patience = 5 * time.Second
)

// publisher sends units and, if it has an identity, retries them until each has a
// final answer. For one goroutine.
type publisher struct {
	c        *cluster
	id       int
	name     string
	producer message.ProducerID // zero: a plain publisher, which never retries
	rng      *rand.Rand
	number   uint64
	made     int
	node     int
	trouble  string // why the last round left something
}

func (c *cluster) publisher(id int, producer bool) *publisher {
	p := &publisher{c: c, id: id, name: fmt.Sprintf("p%d", id), rng: c.rng("publisher", id)}
	if producer {
		p.producer = ledger.ProducerOf(id)
	}
	return p
}

// flying is a batch that was sent.
type flying struct {
	units    []outgoing
	attempts []int
	answered chan struct{}
	outcomes []raftfsm.Outcome
	err      error
	once     sync.Once
}

// run publishes until ctx ends, then only until everything is answered for good.
func (p *publisher) run(ctx context.Context) {
	var waiting []outgoing // without a final answer, oldest first
	for ctx.Err() == nil || len(waiting) > 0 {
		if len(waiting) == 0 {
			for range window {
				waiting = append(waiting, p.draw()...)
			}
		}
		left := p.round(waiting)
		if len(left) > 0 { // another node, a little later
			p.node = p.rng.IntN(nodes)
			time.Sleep(time.Duration(p.rng.Int64N(int64(100 * time.Millisecond))))
		}
		if waiting = left; p.producer == (message.ProducerID{}) {
			waiting = nil
		}
		time.Sleep(time.Duration(p.rng.Int64N(2 * int64(p.c.plan.meanPause))))
		if p.c.expired() {
			return
		}
	}
}

// draw makes the units of one batch.
func (p *publisher) draw() []outgoing {
	var out []outgoing
	for range 1 + p.rng.IntN(p.c.plan.maxUnits) {
		number := uint64(0)
		if p.producer != (message.ProducerID{}) {
			p.number++
			number = p.number
		}
		p.made++
		out = append(out, p.c.draw(p.rng, p.id, number, fmt.Sprintf("%s#%d", p.name, p.made)))
	}
	return out
}

// round sends the units in a few batches, one behind the other, and returns those
// that have no final answer. Borders of batches are drawn anew in each round.
func (p *publisher) round(units []outgoing) []outgoing {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var sent []*flying
	for rest := units; len(rest) > 0; {
		n := min(1+p.rng.IntN(2*p.c.plan.maxUnits), len(rest))
		f := p.send(ctx, rest[:n])
		sent, rest = append(sent, f), rest[n:]
	}
	var left []outgoing
	for _, f := range sent {
		<-f.answered
		left = append(left, p.settle(f)...)
	}
	return left
}

// send gives a batch to the publisher's node. It is answered once: by the engine,
// by the loss of the node, or by the end of patience.
func (p *publisher) send(ctx context.Context, units []outgoing) *flying {
	f := &flying{units: units, answered: make(chan struct{})}
	m := p.c.machines[p.node]
	for _, u := range units {
		f.attempts = append(f.attempts, p.c.rec.Invoke(u.index, m.name))
	}
	node := m.process()
	if node == nil {
		f.answer(nil, fmt.Errorf("%w: %s is down", errRefused, m.name))
		return f
	}
	batch := encode(units, p.producer)
	calls, done := context.WithCancel(ctx)
	go func() {
		defer done()
		select {
		case <-node.down:
			f.answer(nil, fmt.Errorf("the connection to %s broke", m.name))
		case <-ctx.Done():
			f.answer(nil, ctx.Err())
		case <-f.answered:
		}
	}()
	node.engine.Submit(calls, batch, f.answer)
	return f
}

func (f *flying) answer(outcomes []raftfsm.Outcome, err error) {
	f.once.Do(func() {
		f.outcomes, f.err = outcomes, err
		close(f.answered)
	})
}

// settle notes the answers of a batch and returns the units that have no final one.
func (p *publisher) settle(f *flying) []outgoing {
	as, bad := answers(f.units, f.outcomes, f.err)
	if bad != nil {
		p.c.found("bad-answer", "%s: %v", p.name, bad)
		return nil
	}
	var left []outgoing
	for i, a := range as {
		u := f.units[i]
		p.c.rec.Answer(f.attempts[i], a)
		switch a.Result {
		case history.Stored, history.Duplicate:
			for k, m := range u.unit.Messages {
				p.c.learn(m.Topic, a.Seq+uint64(k))
			}
		case history.Refused:
			p.c.learn(u.unit.Messages[a.Index].Topic, a.Seq)
		case history.Forgotten:
		default:
			left, p.trouble = append(left, u), fmt.Sprintf("%s %s", a.Result, a.Error)
		}
	}
	return left
}
