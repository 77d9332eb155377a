package procs

import (
	"context"
	"testing"
	"time"

	"chorale/client"
	"chorale/internal/procs"
)

// TestPublishAnywhere publishes the same through a follower, through the leader and
// through a node that loses leadership in the middle: the same result each time.
// Published again under the same numbers through another node, every message is
// answered with the seq of the first time.
func TestPublishAnywhere(t *testing.T) {
	t.Parallel()
	if *judged != "" {
		t.Skip("a history is judged again")
	}
	a := newArena(t, *seed)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	leader, err := a.cluster.Leader(ctx)
	a.must(err)
	var follower *procs.Node
	for _, n := range a.cluster.Nodes {
		if n != leader {
			follower = n
		}
	}
	const count = 1500
	for i, c := range []struct {
		what           string
		through, again *procs.Node
		inTheMiddle    func()
	}{
		{"through a follower", follower, leader, func() {}},
		{"through the leader", leader, follower, func() {}},
		{"through a node that loses leadership", leader, follower, func() { a.paused(leader) }},
	} {
		a.note("%s: %s", c.what, c.through.Name)
		p, err := newPublisher(a.rec, i+1, few, c.through)
		a.must(err)
		var sent []client.Message
		for k := range count {
			if k == count/2 {
				c.inTheMiddle()
			}
			sent = append(sent, p.draw())
			a.must(p.publish(ctx, sent[k]))
		}
		a.close(p)
		a.again(ctx, i+1, c.again, sent)
	}
	a.readAll()
	a.judge()
}

// again publishes what was acknowledged under the same numbers.
func (a *arena) again(ctx context.Context, producer int, through *procs.Node, sent []client.Message) {
	first := map[string]uint64{}
	h := a.rec.History()
	for _, at := range h.Attempts {
		if u := h.Units[at.Unit]; u.Client == producer {
			first[string(u.Messages[0].Body)] = at.Seq
		}
	}
	p, err := newPublisher(&record{}, producer, few, through)
	a.must(err)
	var acks []*client.Result
	for _, m := range sent {
		acks = append(acks, p.p.Publish(ctx, m))
	}
	for i, m := range sent {
		ack, err := acks[i].Wait(ctx)
		a.must(err)
		if want := first[string(bodyOf(m.Headers, m.Payload))]; ack.Seq != want || !ack.Duplicate {
			a.t.Fatalf("message %d again: %+v, the first time it got seq %d", i+1, ack, want)
		}
	}
	closing, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	a.must(p.close(closing))
}
