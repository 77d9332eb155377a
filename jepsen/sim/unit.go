package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"chorale/jepsen/history"
	"chorale/message"
	"chorale/node/engine"
	"chorale/raftfsm"
)

// outgoing is a unit on its way into a batch.
type outgoing struct {
	index  int // in the history
	unit   history.Unit
	drafts []message.Draft
}

// topics of the simulation: partitions of many and of few topics, subtrees that
// are themselves topics, some rare.
var topics = []string{
	"app/orders/created", "app/orders/created/eu", "app/orders/filled", "app/orders",
	"app/prices/a", "app/prices/b", "app/prices/c/bid", "app/prices/c/ask", "sys", "sys/log", "sys/log/n1/warn", "x/y/z/deep/er",
}

var filterSets = [][]string{
	{"**"}, {"app/**"}, {"app/orders"}, {"app/orders/**"}, {"app/*/created"}, {"sys", "sys/log/**"},
	{"app/prices/c/**", "app/prices/a"}, {"x/**"}, {"*/log"}, {"none/of/this"}, {"app/**", "app/orders/**", "sys/**"},
}

// topic draws a name: few are frequent, and now and then one is new.
func topic(rng *rand.Rand) string {
	if rng.IntN(40) == 0 {
		return fmt.Sprintf("app/rare/t%d", rng.IntN(200))
	}
	return topics[min(rng.IntN(len(topics)), rng.IntN(len(topics)))]
}

// draw makes a unit and notes it in the history.
func (c *cluster) draw(rng *rand.Rand, client int, number uint64, tag string) outgoing {
	o := outgoing{unit: history.Unit{Client: client, Number: number}}
	for i := range 1 + rng.IntN(c.plan.maxUnitMessages) {
		d := message.Draft{Payload: fmt.Appendf(nil, "%s.%d ", tag, i)}
		switch rng.IntN(12) {
		case 0:
			d.Headers, d.Payload = []message.Header{{Key: "id", Value: d.Payload}}, nil
		case 1:
			d.Payload = append(d.Payload, make([]byte, rng.IntN(20*c.plan.payload))...)
		default:
			d.Payload = append(d.Payload, make([]byte, rng.IntN(c.plan.payload))...)
		}
		m := history.Draft{Topic: topic(rng), Body: message.NewRecord(d, 0, 1, 0, 0).Body()}
		if i == 0 && rng.IntN(100) < c.plan.conditional {
			expected := c.expectation(rng, m.Topic)
			m.Expected = &expected
		}
		o.unit.Messages, o.drafts = append(o.unit.Messages, m), append(o.drafts, d)
	}
	o.index = c.rec.Unit(o.unit)
	return o
}

// expectation is mostly what was last heard of a topic.
func (c *cluster) expectation(rng *rand.Rand, topic string) uint64 {
	if rng.IntN(10) == 0 {
		return uint64(rng.IntN(50))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[topic]
}

func (c *cluster) learn(topic string, seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[topic] = max(c.known[topic], seq)
}

func encode(units []outgoing, producer message.ProducerID) []byte {
	var b message.Builder
	for _, o := range units {
		entries := make([]message.Entry, len(o.drafts))
		for i, d := range o.drafts {
			entries[i] = message.Entry{Topic: o.unit.Messages[i].Topic, Draft: d, Expected: o.unit.Messages[i].Expected}
		}
		b.Add(o.unit.Number, entries...)
	}
	return b.Encode(nil, producer)
}

var results = map[raftfsm.OutcomeKind]history.Result{
	raftfsm.Stored: history.Stored, raftfsm.Duplicate: history.Duplicate, raftfsm.DuplicateForgotten: history.Forgotten,
	raftfsm.ConditionFailed: history.Refused, raftfsm.NumberGap: history.Gap, raftfsm.ProducerUnknown: history.ProducerUnknown,
}

// errRefused is the answer of a node that is down: nothing was sent.
var errRefused = errors.New("connection refused")

// answers gives each unit of a batch what its outcome says.
func answers(units []outgoing, outcomes []raftfsm.Outcome, err error) ([]history.Attempt, error) {
	out := make([]history.Attempt, 0, len(units))
	if err != nil {
		a := history.Attempt{Result: history.Unknown, Error: err.Error()}
		if errors.Is(err, engine.ErrUnavailable) || errors.Is(err, engine.ErrInvalid) || errors.Is(err, errRefused) {
			a.Result = history.Failed
		}
		for range units {
			out = append(out, a)
		}
		return out, nil
	}
	for _, o := range outcomes {
		seq := o.Seq
		for range o.Units {
			if len(out) == len(units) {
				return nil, fmt.Errorf("outcomes %v for a batch of %d units", outcomes, len(units))
			}
			out = append(out, history.Attempt{Result: results[o.Kind], Seq: seq, Index: o.Index})
			if o.Kind == raftfsm.Stored || o.Kind == raftfsm.Duplicate {
				seq += uint64(len(units[len(out)-1].drafts))
			}
		}
	}
	if len(out) != len(units) {
		return nil, fmt.Errorf("outcomes %v for a batch of %d units", outcomes, len(units))
	}
	return out, nil
}
