// Package limits is an operator who changes what a simulated cluster keeps, of the stream and of
// its subtrees.
package limits

import (
	"context"
	"math/rand/v2"
	"time"

	"chorale/compactor"
	"chorale/jepsen/history"
	"chorale/node/engine"
	"chorale/raftfsm"
	"chorale/raftfsm/kept"
	"chorale/retention"
	"chorale/segments"
)

// Operator changes limits. Call is made on who leads.
type Operator struct {
	Rng    *rand.Rand
	Stream bool                              // changes the limit of the whole stream
	Rules  bool                              // changes the rules of subtrees
	Try    func(call Call) error             // once
	Insist func(what string, call Call) bool // until it succeeds
}

// Call is what the node that leads is asked.
type Call = func(context.Context, *engine.Engine) error

// Run changes limits now and then, until ctx ends; in the end everything that is left is kept,
// so that the final readers all get the same.
func (o Operator) Run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-time.After(time.Duration(o.Rng.Int64N(int64(3 * time.Second)))):
		case <-ctx.Done():
		}
		// A try: where nobody leads, or not all read rules yet, those before stay.
		if o.Rules && (!o.Stream || o.Rng.IntN(2) == 0) {
			_ = o.Try(ruling(someRules(o.Rng)))
			continue
		}
		_ = o.Try(keeping(raftfsm.Retention{Age: int64(pick(o.Rng, 0, time.Second, 4*time.Second)), Bytes: pick(o.Rng, 0, int64(4<<10), 64<<10)}))
	}
	if o.Rules {
		o.Insist("the end of the rules", ruling(nil))
	}
	if o.Stream {
		o.Insist("the end of the retention", keeping(raftfsm.Retention{}))
	}
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

func keeping(r raftfsm.Retention) Call {
	return func(ctx context.Context, e *engine.Engine) error { return e.SetRetention(ctx, r) }
}

// ruling puts rules in the place of those that the leader knows behind all that was proposed.
func ruling(rules []retention.Rule) Call {
	return func(ctx context.Context, e *engine.Engine) error {
		k, err := e.Retention(ctx)
		if err != nil || len(rules)+len(k.Subtrees.Rules.List) == 0 {
			return err
		}
		return e.SetRules(ctx, kept.Change{Known: k.Subtrees.Rules.Number, Rules: rules})
	}
}

// someRules are for subtrees of each depth, and for topics.
func someRules(rng *rand.Rand) (out []retention.Rule) {
	for _, filter := range []string{"app/**", "app/orders", "app/orders/**", "app/orders/created", "app/prices/**", "app/rare/**", "sys/**", "sys/log/n1/warn", "x/**"} {
		if rng.IntN(3) > 0 {
			continue
		}
		r := retention.Rule{Filter: filter, Age: int64(pick(rng, 0, 300*time.Millisecond, time.Second, 4*time.Second)), Bytes: pick(rng, 0, int64(1<<10), 16<<10)}
		if r.Check() == nil {
			out = append(out, r)
		}
	}
	return out
}

// Floors are floors as a history has them.
func Floors(list []retention.Floor) (out []history.Floor) {
	for _, f := range list {
		out = append(out, history.Floor{Filter: f.Filter, Seq: f.Seq})
	}
	return out
}

// Shown are the events that files show.
func Shown(m segments.Manifest) (events []string) {
	for _, r := range m.Ranges() {
		if !r.Full() {
			events = append(events, "a merge left out what had gone")
		}
		if r.Files[0].Level > compactor.TopLevel {
			events = append(events, "a range was rewritten where it is")
		}
	}
	return events
}
