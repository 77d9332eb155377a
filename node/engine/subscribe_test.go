package engine

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"chorale/message"
	"chorale/raftfsm"
)

func (n *testNode) subscribe(q SubscribeRequest) (*Subscription, error) {
	return n.engine.Subscribe(context.Background(), q)
}

// TestSubscribeRefused: a start that cannot be is an error that says why, at once
// where it is sure, after a moment where a follower may only be behind.
func TestSubscribeRefused(t *testing.T) {
	inBubble(t, 3, nil, func(c *cluster) {
		leader, follower := c.leader(), c.follower()
		leader.mustPublish("a", "1", "2", "3")
		c.until("it has arrived", func() bool { return follower.engine.End() == 3 })

		for _, filters := range [][]string{nil, {""}, {"a//b"}, {"a/**/b"}, {"a", "b/"}} {
			if _, err := leader.subscribe(SubscribeRequest{Filters: filters}); !errors.Is(err, ErrInvalid) {
				t.Errorf("filters %q: %v", filters, err)
			}
		}
		all := []string{"**"}
		if _, err := leader.subscribe(SubscribeRequest{Filters: all, Cluster: raftfsm.ClusterID{1}}); !errors.Is(err, ErrOtherCluster) {
			t.Errorf("another cluster: %v", err)
		}
		if s, err := leader.subscribe(SubscribeRequest{Filters: all, Cluster: leader.engine.Cluster(), After: 3}); err != nil {
			t.Errorf("the end itself: %v", err)
		} else {
			s.Close()
		}
		for _, at := range []struct {
			node *testNode
			took time.Duration
		}{{leader, 0}, {follower, arrivalWait}} {
			start := time.Now()
			_, err := at.node.subscribe(SubscribeRequest{Filters: all, After: 4})
			var beyond *BeyondEndError
			if !errors.As(err, &beyond) || beyond.After != 4 || beyond.End != 3 || beyond.Final != (at.node == leader) {
				t.Errorf("%s, beyond the end: %v", at.node.id, err)
			}
			if d := time.Since(start); d != at.took {
				t.Errorf("%s answered after %v, want %v", at.node.id, d, at.took)
			}
		}
		// A leader that the others may have replaced cannot tell the stream's end.
		leader.isolate()
		_, err := leader.subscribe(SubscribeRequest{Filters: all, After: 4})
		var beyond *BeyondEndError
		if !errors.As(err, &beyond) || beyond.Final {
			t.Errorf("cut off, beyond the end: %v", err)
		}
	})
}

// TestSubscribeArrives: a position that the follower has not got yet is awaited.
func TestSubscribeArrives(t *testing.T) {
	inBubble(t, 3, nil, func(c *cluster) {
		leader, follower := c.leader(), c.follower()
		go func() {
			pass(arrivalWait / 2)
			leader.mustPublish("a", "1", "2", "3")
		}()
		s, err := follower.subscribe(SubscribeRequest{Filters: []string{"a"}, After: 2, UntilTip: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if s.After != 2 || s.Until != 3 || s.Oldest != 1 {
			t.Errorf("after %d, until %d, oldest %d", s.After, s.Until, s.Oldest)
		}
	})
}

// TestUntil: a subscription to the tip ends exactly there, also in the middle of
// what the cursor gives at once, and waits for an end that the leader has told.
func TestUntil(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		n := c.leader()
		n.mustPublish("a", "1", "2", "3")
		s, err := n.subscribe(SubscribeRequest{Filters: []string{"**"}, UntilTip: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		n.mustPublish("a", "4", "5")
		b, p, err := s.Next(context.Background(), nil, 1<<20)
		if err != nil || p.Count != 3 || p.Scanned != 3 || s.Position() != 3 {
			t.Fatalf("%+v, position %d, %v", p, s.Position(), err)
		}
		for last := uint64(0); len(b) > 0; {
			r, rest, _ := message.Split(b)
			if r.Seq() != last+1 || r.Seq() > 3 {
				t.Errorf("seq %d after %d", r.Seq(), last)
			}
			last, b = r.Seq(), rest
		}
		if err := s.Wait(context.Background()); err != nil {
			t.Error(err)
		}
		if _, p, err := s.Next(context.Background(), nil, 1<<20); !errors.Is(err, io.EOF) || p.Scanned != 3 {
			t.Errorf("%+v, %v", p, err)
		}

		go func() {
			pass(30 * time.Second)
			n.mustPublish("a", "6", "7")
		}()
		if got := n.read(0, 6, "**"); len(got) != 6 {
			t.Errorf("told that the end is 6: %q", got)
		}
		if got := n.read(7, 0, "**"); len(got) != 0 {
			t.Errorf("from the end to the end: %q", got)
		}
	})
}

// TestLive: a live subscription waits without time-out and is woken by what is
// published; from a time, it starts there.
func TestLive(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		n := c.leader()
		n.mustPublish("a/b", "old")
		pass(time.Hour)
		middle := time.Now().UnixNano()
		pass(time.Hour)
		live, err := n.subscribe(SubscribeRequest{Filters: []string{"a/**"}, FromTip: true})
		if err != nil {
			t.Fatal(err)
		}
		defer live.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := live.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nothing there: %v", err)
		}
		go func() {
			pass(time.Hour)
			n.mustPublish("a/b", "new")
		}()
		if err := live.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
		if _, p, err := live.Next(context.Background(), nil, 1<<20); p.Count != 1 || err != nil {
			t.Errorf("%+v, %v", p, err)
		}
		s, err := n.subscribe(SubscribeRequest{Filters: []string{"**"}, FromTime: middle})
		if err != nil || s.After != 1 {
			t.Fatalf("from a time: %+v, %v", s, err)
		}
		s.Close()
	})
}
