package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"chorale/compactor"
	"chorale/message"
	"chorale/raftfsm"
	"chorale/segments"
)

// retain sets the retention on the leader.
func (c *cluster) retain(r raftfsm.Retention) {
	c.t.Helper()
	if err := c.leader().engine.SetRetention(context.Background(), r); err != nil {
		c.t.Fatal(err)
	}
}

// keptEverywhere waits until nothing is left to do, and checks that all running nodes
// keep the same files and deliver the same from the same oldest seq on, provably
// without a gap. It returns that seq.
func (c *cluster) keptEverywhere() (oldest uint64) {
	c.t.Helper()
	c.settled()
	end := c.leader().engine.End()
	var want []string
	for _, n := range c.nodes {
		if n.engine == nil {
			continue
		}
		c.until("it is ready", func() bool { return n.engine.NotReady() == "" && n.engine.End() == end })
		got, from := n.readOldest()
		if want == nil {
			want, oldest = got, from
		}
		if from != oldest || !slices.Equal(got, want) || uint64(len(got)) != end-oldest+1 {
			c.t.Fatalf("%s delivers %d messages from %d on, want %d from %d on to %d", n.id, len(got), from, len(want), oldest, end)
		}
	}
	return oldest
}

// readOldest reads everything that is kept, and checks each message's prev as a client
// does: the first of a topic follows one that lies before the start.
func (n *testNode) readOldest() (got []string, oldest uint64) {
	n.c.t.Helper()
	s, err := n.engine.Subscribe(context.Background(), SubscribeRequest{Filters: []string{"**"}, FromOldest: true, UntilTip: true})
	if err != nil {
		n.c.t.Fatal(err)
	}
	defer s.Close()
	if s.After+1 != s.Oldest {
		n.c.t.Fatalf("%s starts behind %d, the oldest is %d", n.id, s.After, s.Oldest)
	}
	last := map[uint32]uint64{}
	for s.Position() < s.Until {
		b, _, err := s.Next(context.Background(), nil, 4<<10)
		if err != nil {
			n.c.t.Fatal(err)
		}
		for len(b) > 0 {
			var r message.Record
			if r, b, err = message.Split(b); err != nil {
				n.c.t.Fatal(err)
			}
			if before := last[r.Topic()]; before > 0 && r.Prev() != before || before == 0 && r.Prev() > s.After {
				n.c.t.Fatalf("%s: message %d follows %d, but %d was delivered", n.id, r.Seq(), r.Prev(), before)
			}
			last[r.Topic()] = r.Seq()
			got = append(got, fmt.Sprintf("%d %s %s", r.Seq(), n.engine.TopicName(r.Topic()), r.Payload()))
		}
	}
	return got, s.Oldest
}

// TestRetentionByBytes: with segments and with stores of each level, about what was
// asked for stays, on all nodes the same.
func TestRetentionByBytes(t *testing.T) {
	inBubble(t, 3, compacting, func(c *cluster) {
		const keep = 24 << 10
		c.traffic(c.leader(), 17)
		c.retain(raftfsm.Retention{Bytes: keep})
		c.traffic(c.leader(), 40)
		c.until("something has gone", func() bool { return c.leader().engine.history.Oldest() > 1 })
		oldest := c.keptEverywhere()
		var bytes, first int64
		files := c.leader().engine.Files()
		for _, f := range files {
			bytes += f.Bytes
			if f.First == files[0].First {
				first += f.Bytes
			}
		}
		if bytes-first >= keep || bytes < keep {
			t.Errorf("%d bytes are kept, %d of them in the oldest range; at least %d should be, without that range less", bytes, first, keep)
		}
		for _, n := range c.nodes {
			if n.fetched.Load() > 0 || n.engine.mismatches.Load() > 0 || n.engine.history.Stats().Stray > 0 {
				t.Errorf("%s gave away %d files, built %d others: %+v", n.id, n.fetched.Load(), n.engine.mismatches.Load(), n.engine.history.Stats())
			}
		}
		c.retain(raftfsm.Retention{})
		c.traffic(c.leader(), 10)
		if got := c.keptEverywhere(); got != oldest {
			t.Errorf("the oldest is %d without a retention, %d before", got, oldest)
		}
	})
}

// TestRetentionByAge: a stream that has become quiet expires too, but for the newest
// range; a restarted node, and one that was away, come to the same.
func TestRetentionByAge(t *testing.T) {
	inBubble(t, 3, compacting, func(c *cluster) {
		c.traffic(c.leader(), 9)
		away := c.follower()
		if err := away.stop(); err != nil {
			t.Fatal(err)
		}
		c.retain(raftfsm.Retention{Age: int64(10 * time.Minute)})
		c.traffic(c.leader(), 9)
		if got := c.keptEverywhere(); got != 1 {
			t.Fatalf("the oldest is %d after a minute", got)
		}
		pass(20 * time.Minute)
		leader := c.leader()
		if got := len(compactor.Ranges(leader.engine.history.Manifest())); got != 1 {
			t.Errorf("%d ranges are left, want the newest", got)
		}
		away.start()
		for _, n := range c.nodes {
			if n != away {
				if err := n.stop(); err != nil {
					t.Fatal(err)
				}
				n.files.Crash()
				n.start()
			}
		}
		oldest := c.keptEverywhere()
		if oldest == 1 || oldest != c.leader().engine.Files()[0].First {
			t.Errorf("the oldest is %d", oldest)
		}
		k, err := c.leader().engine.Retention(context.Background())
		if want := (raftfsm.Retention{Age: int64(10 * time.Minute)}); err != nil || k.Retention != want || k.Oldest != oldest || k.OldestTime == 0 || k.Bytes == 0 {
			t.Errorf("%+v: %v", k, err)
		}
	})
}

// TestRetentionAndReaders: a reader in the middle of what goes is told which seq is the
// oldest, not given a gap; so is one that starts there; what a reader has open it reads
// to the end of.
func TestRetentionAndReaders(t *testing.T) {
	tune := func(s *Settings) {
		compacting(s)
		s.TipBytes = 4 << 10
	}
	inBubble(t, 3, tune, func(c *cluster) {
		leader := c.leader()
		c.traffic(leader, 20)
		c.settled()
		open := func(q SubscribeRequest) *Subscription {
			t.Helper()
			q.Filters = []string{"part0/**"}
			s, err := leader.subscribe(q)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		slow, fast := open(SubscribeRequest{FromOldest: true}), open(SubscribeRequest{After: leader.engine.End() - 1})
		defer slow.Close()
		defer fast.Close()
		if _, p, err := slow.Next(context.Background(), nil, 100); err != nil || p.Count != 1 {
			t.Fatal(p, err)
		}
		c.retain(raftfsm.Retention{Bytes: 1})
		c.until("all but the newest range has gone", func() bool { return len(leader.engine.history.Manifest().Ranges()) == 1 })
		oldest := leader.engine.history.Oldest()
		var err error
		for err == nil {
			_, _, err = slow.Next(context.Background(), nil, 100)
		}
		if want := fmt.Sprintf("the oldest message is %d", oldest); !errors.Is(err, segments.ErrExpired) || !strings.Contains(err.Error(), want) {
			t.Errorf("in the middle: %v, want %q", err, want)
		}
		if slow.Position()+1 >= oldest {
			t.Errorf("it was passed to %d, over a gap up to %d", slow.Position(), oldest)
		}
		if _, p, err := fast.Next(context.Background(), nil, 100); err != nil || p.Scanned != leader.engine.End() {
			t.Errorf("at the end: %+v, %v", p, err)
		}
		for _, after := range []uint64{0, 1, oldest - 2} {
			var expired *ExpiredError
			if _, err := leader.subscribe(SubscribeRequest{Filters: []string{"**"}, After: after}); !errors.As(err, &expired) || expired.Oldest != oldest {
				t.Errorf("behind %d: %v, the oldest is %d", after, err, oldest)
			}
		}
		for _, q := range []SubscribeRequest{{After: oldest - 1}, {FromOldest: true}, {FromTime: 1}} {
			s := open(q)
			if s.After != oldest-1 {
				t.Errorf("%+v starts behind %d, the oldest is %d", q, s.After, oldest)
			}
			s.Close()
		}
		slow.Close()
		c.keptEverywhere()
	})
}

// TestRetentionAndPlans: an expiry does not wait for a plan; what was built of it goes.
func TestRetentionAndPlans(t *testing.T) {
	inBubble(t, 3, slowly, func(c *cluster) {
		c.traffic(c.leader(), 6)
		plan := c.activePlan()
		c.retain(raftfsm.Retention{Bytes: 1})
		c.until("the plan is over", func() bool {
			p, _ := c.leader().engine.machine.FSM.Plan()
			return p.Index != plan
		})
		if oldest := c.keptEverywhere(); oldest == 1 {
			t.Error("nothing has gone")
		}
	})
}

// TestRetentionIsTheLeaders: others refuse to set and to tell it, and a limit that
// cannot be is invalid.
func TestRetentionIsTheLeaders(t *testing.T) {
	inBubble(t, 3, nil, func(c *cluster) {
		follower := c.follower().engine
		if err := follower.SetRetention(context.Background(), raftfsm.Retention{Age: 1}); !errors.Is(err, ErrNotLeader) {
			t.Errorf("set on a follower: %v", err)
		}
		if _, err := follower.Retention(context.Background()); !errors.Is(err, ErrNotLeader) {
			t.Errorf("asked of a follower: %v", err)
		}
		if err := c.leader().engine.SetRetention(context.Background(), raftfsm.Retention{Age: -1}); !errors.Is(err, ErrInvalid) {
			t.Errorf("a negative age: %v", err)
		}
	})
}
