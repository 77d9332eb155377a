package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"chorale/message"
	"chorale/raftfsm"

	"github.com/hashicorp/raft"
)

// TestPublish: any node takes batches; all nodes deliver the same.
func TestPublish(t *testing.T) {
	inBubble(t, 3, nil, func(c *cluster) {
		leader, follower := c.leader(), c.follower()
		outcomes, err := leader.publish(batchOf(message.ProducerID{}, 0, "a/b", "one", "two"))
		if err != nil || len(outcomes) != 1 || outcomes[0] != (raftfsm.Outcome{Kind: raftfsm.Stored, Seq: 1, Units: 2}) {
			t.Fatal(outcomes, err)
		}
		if outcomes, err = follower.publish(batchOf(message.ProducerID{}, 0, "a/c", "three")); err != nil || outcomes[0].Seq != 3 {
			t.Fatal(outcomes, err)
		}
		got := strings.Join(c.sameEverywhere(), "; ")
		if want := "1 a/b one; 2 a/b two; 3 a/c three"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := follower.read(0, 3, "a/c"); len(got) != 1 || got[0] != "3 a/c three" {
			t.Errorf("filtered: %q", got)
		}
	})
}

// TestRefused: what a batch can be refused for, before anything is proposed.
func TestRefused(t *testing.T) {
	inBubble(t, 1, func(s *Settings) { s.PayloadLimit = 10 }, func(c *cluster) {
		n := c.leader()
		damaged := batchOf(message.ProducerID{}, 0, "a", "x")
		damaged[len(damaged)-1] ^= 1
		for name, b := range map[string][]byte{
			"empty":       nil,
			"garbage":     []byte("GET / HTTP/1.1\r\n\r\n with some more bytes behind"),
			"damaged":     damaged,
			"bad topic":   batchOf(message.ProducerID{}, 0, "a//b", "x"),
			"star topic":  batchOf(message.ProducerID{}, 0, "a/*", "x"),
			"big payload": batchOf(message.ProducerID{}, 0, "a", "12345678901"),
		} {
			if o, err := n.publish(b); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v, %v", name, o, err)
			}
		}
		if end := n.engine.End(); end != 0 {
			t.Errorf("refused batches left %d messages", end)
		}
		n.mustPublish("a", "1234567890")
	})
}

// TestOrder: the batches of one caller are answered and stored in its order, many
// in flight, on the leader and through a follower. The queue holds a few of them, so
// each must give its place back.
func TestOrder(t *testing.T) {
	inBubble(t, 3, func(s *Settings) { s.QueueBytes = 1 << 10 }, func(c *cluster) {
		for _, n := range []*testNode{c.leader(), c.follower()} {
			const batches = 500
			done := make(chan uint64, batches)
			for i := range batches {
				n.engine.Submit(context.Background(), batchOf(message.ProducerID{}, 0, string(n.id), fmt.Sprint(i)), func(o []raftfsm.Outcome, err error) {
					if err != nil {
						t.Error(err)
						o = make([]raftfsm.Outcome, 1)
					}
					done <- o[0].Seq
				})
			}
			last := uint64(0)
			for range batches {
				if seq := <-done; seq <= last {
					t.Fatalf("answered with seq %d after %d", seq, last)
				} else {
					last = seq
				}
			}
		}
		c.sameEverywhere()
	})
}

// TestLeaderLost: a producer that retries goes through the loss of two leaders
// without losing or repeating anything.
func TestLeaderLost(t *testing.T) {
	inBubble(t, 3, nil, func(c *cluster) {
		producer := message.ProducerID{1}
		const units = 300
		for number := uint64(1); number <= units; {
			n := c.nodes[number%3]
			outcomes, err := n.publish(batchOf(producer, number, "a/b", fmt.Sprint(number)))
			switch {
			case err == nil && (outcomes[0].Kind == raftfsm.Stored || outcomes[0].Kind == raftfsm.Duplicate):
				number++
			case errors.Is(err, ErrUnavailable), errors.Is(err, ErrUnknown):
				pass(50 * time.Millisecond)
			default:
				t.Fatal(number, outcomes, err)
			}
			if number == 100 || number == 200 {
				leader := c.leader()
				leader.isolate()
				go func() {
					pass(3 * time.Second)
					leader.connect()
				}()
			}
		}
		pass(5 * time.Second)
		got := c.sameEverywhere()
		if len(got) != units {
			t.Fatalf("%d messages, want %d", len(got), units)
		}
		for i, line := range got {
			if want := fmt.Sprintf("%d a/b %d", i+1, i+1); line != want {
				t.Fatalf("message %d is %q, want %q", i, line, want)
			}
		}
	})
}

// TestLeaderIsOldNews: a follower that hears of its leader before it listens for news of it must not
// wait for the next election. (Found by the simulation.)
func TestLeaderIsOldNews(t *testing.T) {
	inBubble(t, 3, nil, func(c *cluster) {
		e := c.follower().engine
		e.leading.Set("", false)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- e.lead(ctx) }()
		pass(time.Second)
		if id, _ := e.Leader(); id != c.leader().id {
			t.Errorf("the follower thinks that %q leads, it is %s", id, c.leader().id)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestCutOff: a leader that is cut off answers what it has in flight as unknown,
// then refuses, and a submission to a full queue ends with its context.
func TestCutOff(t *testing.T) {
	inBubble(t, 3, func(s *Settings) { s.QueueBytes = 4 << 10 }, func(c *cluster) {
		old := c.leader()
		old.isolate()
		if _, err := old.publish(batchOf(message.ProducerID{}, 0, "a", "x")); !errors.Is(err, ErrUnknown) {
			t.Errorf("in flight while the leader is cut off: %v", err)
		}
		if _, err := old.publish(batchOf(message.ProducerID{}, 0, "a", "x")); !errors.Is(err, ErrUnavailable) {
			t.Errorf("without a leader: %v", err)
		}
		old.connect()
		c.until("the old leader follows", func() bool { id, local := old.engine.Leader(); return !local && id == c.leader().id })
		pass(2 * time.Second) // it may have brought a higher term, and with it another election
		c.leader().mustPublish("a", "y")

		leader := c.leader()
		leader.isolate()
		big := batchOf(message.ProducerID{}, 0, "a", strings.Repeat("x", 3000))
		answered := make(chan error, 2)
		leader.engine.Submit(context.Background(), big, func(_ []raftfsm.Outcome, err error) { answered <- err })
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		leader.engine.Submit(ctx, big, func(_ []raftfsm.Outcome, err error) { answered <- err })
		if err := <-answered; !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a full queue: %v", err)
		}
		if err := <-answered; !errors.Is(err, ErrUnknown) {
			t.Errorf("the batch that filled it: %v", err)
		}
		leader.connect()
	})
}

// TestRestart: nodes that end and start again, some from a snapshot, go on.
func TestRestart(t *testing.T) {
	small := func(s *Settings) {
		s.SnapshotBytes = 32 << 10
		s.Raft = RaftConfig()
		s.Raft.TrailingLogs = 4
	}
	inBubble(t, 3, small, func(c *cluster) {
		fill := func(from int) {
			for i := range 100 {
				c.leader().mustPublish(fmt.Sprintf("t/%d", i%7), fmt.Sprintf("%d %s", from+i, strings.Repeat("x", 500)))
			}
			pass(2 * snapshotCheck)
		}
		fill(0)
		for round := range 3 {
			n := c.nodes[round]
			if err := n.stop(); err != nil {
				t.Fatal(err)
			}
			fill(1000 * (round + 1))
			n.start()
		}
		c.sameEverywhere()
		for _, n := range c.nodes {
			if err := n.stop(); err != nil {
				t.Error(err)
			}
		}
		for _, n := range c.nodes {
			if list, _ := n.snaps.List(); len(list) == 0 {
				t.Errorf("%s has no snapshot", n.id)
			}
			n.start()
		}
		c.leader()
		if got := c.sameEverywhere(); len(got) != 400 {
			t.Errorf("%d messages, want 400", len(got))
		}
		for _, n := range c.nodes {
			c.until(fmt.Sprintf("the tip of %s is filled", n.id), func() bool { return n.engine.Floor() == 1 })
		}
		c.sameEverywhere()
	})
}

// TestQuietSnapshot: a node takes a snapshot of less when nothing comes any more, so that its
// next start has little to replay; not of very little, and not while something comes.
func TestQuietSnapshot(t *testing.T) {
	const size = 64 << 10
	inBubble(t, 1, func(s *Settings) { s.SnapshotBytes = size }, func(c *cluster) {
		n := c.leader()
		taken := func() int {
			list, err := n.snaps.List()
			if err != nil {
				t.Fatal(err)
			}
			return len(list)
		}
		publish := func() { n.mustPublish("a/b/c", strings.Repeat("x", 1000)) }
		for range 5 {
			publish()
		}
		if pass(3 * quietChecks * snapshotCheck); taken() > 0 {
			t.Errorf("a snapshot of less than an eighth of %d bytes", size)
		}
		for range 20 {
			publish()
			pass(quietChecks * snapshotCheck / 2)
		}
		if taken() > 0 {
			t.Error("a snapshot while something came")
		}
		if pass((quietChecks + 2) * snapshotCheck); taken() != 1 {
			t.Errorf("%d snapshots of a quiet node, want 1", taken())
		}
		if bytes, _ := n.engine.machine.Applied(); bytes > 0 {
			t.Errorf("a start would replay %d bytes", bytes)
		}
		if pass(3 * quietChecks * snapshotCheck); taken() != 1 {
			t.Errorf("%d snapshots where nothing was added", taken())
		}
	})
}

// TestFetch: a follower that was sent a snapshot fetches the files that the
// manifest names from its peers.
func TestFetch(t *testing.T) {
	inBubble(t, 3, func(s *Settings) {
		s.SnapshotBytes = 32 << 10
		s.Raft = RaftConfig()
		s.Raft.TrailingLogs = 1
	}, func(c *cluster) {
		away := c.follower()
		away.isolate()
		for i := range 300 {
			c.leader().mustPublish(fmt.Sprintf("t/%d", i%5), strings.Repeat("y", 600))
		}
		pass(3 * snapshotCheck)
		for _, n := range c.nodes {
			if n != away && n.engine.Status().History.Files == 0 {
				t.Fatalf("%s has no files", n.id)
			}
		}
		// What TrailingLogs leaves is as large as trailingMin; cut it by hand.
		leader := c.leader()
		r := leader.engine.running()
		rc := r.ReloadableConfig()
		rc.TrailingLogs = 1
		if err := r.ReloadConfig(rc); err != nil {
			t.Fatal(err)
		}
		leader.mustPublish("t/1", "z")
		if err := r.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		away.connect()
		c.until("the follower has the stream", func() bool { return away.engine.End() == leader.engine.End() })
		c.until("the follower has the files", func() bool { return away.engine.Status().History.Missing == 0 })
		fetched := int64(0)
		for _, n := range c.nodes {
			fetched += n.fetched.Load()
		}
		if fetched == 0 {
			t.Error("no file was fetched: the follower was not sent a snapshot")
		}
		c.sameEverywhere()
	})
}

// TestGraceful: a leader that ends hands leadership over, faster than an election.
func TestGraceful(t *testing.T) {
	inBubble(t, 3, nil, func(c *cluster) {
		leader, follower := c.leader(), c.follower()
		start := time.Now()
		if err := leader.stop(); err != nil {
			t.Fatal(err)
		}
		// The follower may not have heard of the new leader: then nothing is stored.
		c.until("it is published", func() bool {
			_, err := follower.publish(batchOf(message.ProducerID{}, 0, "a", "x"))
			if err != nil && !errors.Is(err, ErrUnavailable) {
				t.Error(err)
			}
			return err == nil
		})
		if d := time.Since(start); d > 250*time.Millisecond {
			t.Errorf("a planned change of leader took %v", d)
		}
	})
}

// TestSingle: a cluster of one.
func TestSingle(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		n := c.leader()
		n.mustPublish("a", "x")
		if err := n.stop(); err != nil {
			t.Fatal(err)
		}
		n.start()
		c.leader().mustPublish("a", "y")
		if got := c.sameEverywhere(); len(got) != 2 {
			t.Errorf("%q", got)
		}
	})
}

// TestProducer: only the leader answers, and it knows what was just stored.
func TestProducer(t *testing.T) {
	inBubble(t, 3, nil, func(c *cluster) {
		producer := message.ProducerID{7}
		leader, follower := c.leader(), c.follower()
		if _, err := follower.publish(batchOf(producer, 1, "a", "x", "y")); err != nil {
			t.Fatal(err)
		}
		if last, err := leader.engine.Producer(context.Background(), producer); last != 2 || err != nil {
			t.Errorf("%d, %v", last, err)
		}
		if last, err := leader.engine.Producer(context.Background(), message.ProducerID{8}); last != 0 || err != nil {
			t.Errorf("unknown: %d, %v", last, err)
		}
		if _, err := follower.engine.Producer(context.Background(), producer); !errors.Is(err, ErrNotLeader) {
			t.Errorf("on a follower: %v", err)
		}
		if _, err := follower.publishLocal(batchOf(producer, 3, "a", "z")); !errors.Is(err, ErrNotLeader) {
			t.Errorf("passed on twice: %v", err)
		}
	})
}

func (n *testNode) publishLocal(batch []byte) (out []raftfsm.Outcome, err error) {
	done := make(chan struct{})
	n.engine.SubmitLocal(context.Background(), batch, func(o []raftfsm.Outcome, e error) {
		out, err = o, e
		close(done)
	})
	<-done
	return out, err
}

// TestConflictingBootstrap: a node with state is never founded again.
func TestConflictingBootstrap(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		if err := c.nodes[0].engine.Bootstrap(c.configuration()); !errors.Is(err, raft.ErrCantBootstrap) {
			t.Error(err)
		}
	})
}
