package engine

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"chorale/message"
	"chorale/raftfsm/kept"
	"chorale/recovery"
	"chorale/retention"
	"chorale/segments"
)

// rule puts rules in the place of those before.
func (c *cluster) rule(rules ...retention.Rule) {
	c.t.Helper()
	e := c.leader().engine
	k, err := e.Retention(context.Background())
	if err == nil {
		err = e.SetRules(context.Background(), kept.Change{Known: k.Subtrees.Rules.Number, Rules: rules})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// left reads what is left of a filter, as a client that proves each message by the one before
// and by the floors that it was told; and compares with what explain says.
func (n *testNode) left(filter string) (seqs []uint64, bytes int) {
	n.c.t.Helper()
	s, err := n.subscribe(SubscribeRequest{Filters: []string{filter}, FromOldest: true, UntilTip: true})
	if err != nil {
		n.c.t.Fatal(err)
	}
	defer s.Close()
	var told segments.Amount
	if err := s.Explain(func(p recovery.Part) error { told = told.Plus(p.Messages); return nil }); err != nil {
		n.c.t.Fatal(err)
	}
	var floors *retention.Floors
	last := map[uint32]uint64{}
	for {
		b, _, err := s.Next(context.Background(), nil, 4<<10)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			n.c.t.Fatal(err)
		}
		floors = floors.With(s.Floors()...)
		for len(b) > 0 {
			var r message.Record
			if r, b, err = message.Split(b); err != nil {
				n.c.t.Fatal(err)
			}
			if name, before := n.engine.TopicName(r.Topic()), max(last[r.Topic()], s.After); r.Prev() > before && r.Prev() >= floors.Of(name) {
				n.c.t.Fatalf("%s: message %d of %s follows %d, but %d was delivered, and its floor is %d", n.id, r.Seq(), name, r.Prev(), before, floors.Of(name))
			}
			last[r.Topic()] = r.Seq()
			seqs = append(seqs, r.Seq())
			bytes += message.Stride(len(r))
		}
	}
	if have := uint64(len(seqs)); have < told.Low || have > told.High {
		n.c.t.Fatalf("%s: %d messages of %s, told were %+v", n.id, have, filter, told)
	}
	return seqs, bytes
}

// leftEverywhere is what is left of a filter on all nodes.
func (c *cluster) leftEverywhere(filter string) (seqs []uint64, bytes int) {
	c.t.Helper()
	c.settled()
	leader := c.leader()
	seqs, bytes = leader.left(filter)
	for _, n := range c.nodes {
		c.until("it has come as far", func() bool {
			return n.engine.NotReady() == "" && n.engine.Status().Applied == leader.engine.Status().Applied
		})
		if got, _ := n.left(filter); len(got) != len(seqs) || len(got) > 0 && got[0] != seqs[0] {
			c.t.Fatalf("%s has %d messages of %s, %s %d", n.id, len(got), filter, leader.id, len(seqs))
		}
	}
	return seqs, bytes
}

// TestRuleByAge: a subtree is no older than its rule says, whatever part its messages are in,
// and everything else stays; a restart, and a rule that goes, change nothing.
func TestRuleByAge(t *testing.T) {
	inBubble(t, 3, compacting, func(c *cluster) {
		c.traffic(c.leader(), 9)
		all, _ := c.leftEverywhere("**")
		others, _ := c.leftEverywhere("part1/**")
		c.rule(retention.Rule{Filter: "part0/**", Age: int64(10 * time.Minute)})
		pass(5 * time.Minute)
		if got, _ := c.leftEverywhere("part0/**"); len(got) != len(all)-len(others) {
			t.Errorf("%d messages are left after half the time, want %d", len(got), len(all)-len(others))
		}
		end := c.leader().engine.End()
		c.leader().mustPublish("part0/topic0", "young")
		pass(6 * time.Minute)
		check := func(when string) {
			if got, _ := c.leftEverywhere("part0/**"); len(got) != 1 || got[0] != end+1 {
				t.Errorf("%s: %v are left, want %d", when, got, end+1)
			}
			if got, _ := c.leftEverywhere("**"); len(got) != len(others)+1 {
				t.Errorf("%s: %d messages of the stream are left, want %d", when, len(got), len(others)+1)
			}
		}
		check("behind the age")
		var expired *ExpiredError
		if _, err := c.leader().subscribe(SubscribeRequest{Filters: []string{"part0/**"}, After: 3}); !errors.As(err, &expired) || expired.Oldest != end+1 {
			t.Errorf("who is too late is told %v", err)
		}
		for _, n := range c.nodes {
			if err := n.stop(); err != nil {
				t.Fatal(err)
			}
			n.start()
		}
		check("behind a restart")
		c.rule()
		pass(20 * time.Minute)
		check("without a rule")
	})
}

// TestRuleByBytes: about as many bytes of a subtree stay as its rule says, never less, as long
// as there were as many.
func TestRuleByBytes(t *testing.T) {
	inBubble(t, 3, compacting, func(c *cluster) {
		const keep = 6 << 10
		c.rule(retention.Rule{Filter: "part0/**", Bytes: keep}, retention.Rule{Filter: "part0/topic0", Age: int64(time.Minute)})
		for range 6 {
			c.traffic(c.leader(), 8)
			pass(10 * time.Second)
			if got, bytes := c.leftEverywhere("part0/**"); bytes < keep && got[0] > 1 {
				t.Errorf("%d bytes are left, from %d on", bytes, got[0])
			}
		}
		got, bytes := c.leftEverywhere("part0/**")
		if got[0] == 1 || bytes > 4*keep {
			t.Errorf("%d bytes are left, from %d on", bytes, got[0])
		}
		if everything, _ := c.leftEverywhere("part1/**"); everything[0] > 3 {
			t.Errorf("others are left from %d on", everything[0])
		}
	})
}

// TestRulesRefused: a set follows on the one that is known, has good rules, and comes from the
// leader.
func TestRulesRefused(t *testing.T) {
	inBubble(t, 3, nil, func(c *cluster) {
		leader, ctx := c.leader().engine, context.Background()
		a := []retention.Rule{{Filter: "a", Age: 1}}
		c.rule(a...)
		if err := leader.SetRules(ctx, kept.Change{Known: 0, Rules: a}); !errors.Is(err, kept.ErrOtherRules) {
			t.Error(err)
		}
		if err := leader.SetRules(ctx, kept.Change{Known: 1, Rules: []retention.Rule{{Filter: "**", Age: 1}}}); !errors.Is(err, ErrInvalid) {
			t.Error(err)
		}
		if err := c.follower().engine.SetRules(ctx, kept.Change{Known: 1, Rules: a}); !errors.Is(err, ErrNotLeader) {
			t.Error(err)
		}
	})
}

// TestRuleFreesSpace: what has gone of a subtree leaves the files as these are merged, on all
// nodes alike; a restart finds what is left, and the tip begins behind it.
func TestRuleFreesSpace(t *testing.T) {
	inBubble(t, 3, compacting, func(c *cluster) {
		c.rule(retention.Rule{Filter: "part0/**", Age: int64(20 * time.Second)})
		for range 12 {
			c.traffic(c.leader(), 3)
			pass(time.Minute)
		}
		others, _ := c.leftEverywhere("part1/**")
		ranges := c.leader().engine.history.Manifest().Ranges()
		if r := ranges[0]; r.Full() || r.Messages() > (r.Last-r.First+1)*3/4 {
			for _, r := range ranges {
				t.Errorf("the range %d to %d has %d messages", r.First, r.Last, r.Messages())
			}
		}
		for _, n := range c.nodes {
			// What a majority has rewritten in no time the third node may fetch.
			if n.engine.mismatches.Load() > 0 || n.engine.history.Stats().Stray > 0 {
				t.Errorf("%s built %d other files: %+v", n.id, n.engine.mismatches.Load(), n.engine.history.Stats())
			}
			if err := n.stop(); err != nil {
				t.Fatal(err)
			}
			n.files.Crash()
			n.start()
		}
		pass(time.Minute)
		if again, _ := c.leftEverywhere("part1/**"); len(again) != len(others) || again[0] != others[0] {
			t.Errorf("%d messages are left behind a restart, want %d", len(again), len(others))
		}
	})
}
