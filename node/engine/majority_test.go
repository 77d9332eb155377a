package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chorale/message"
	"chorale/node/engine/roster"
	"chorale/raftfsm"
)

// mute lets nobody ask the node how far it is; Raft goes on with it.
func (n *testNode) mute() { n.reachable.Store(nil) }

// TestEditsWaitForAMajority: nothing is named that the leader alone has on its disk,
// whatever it is; when another voter has it too, all is named.
func TestEditsWaitForAMajority(t *testing.T) {
	inBubble(t, 3, compacting, func(c *cluster) {
		leader := c.leader()
		for _, n := range c.nodes {
			if n != leader {
				n.mute()
			}
		}
		c.traffic(leader, 3)
		pass(time.Minute)
		for _, n := range c.nodes {
			if files := n.engine.Files(); len(files) > 0 {
				t.Fatalf("%s names %d files that the leader alone is known to have", n.id, len(files))
			}
		}
		if built := len(leader.engine.history.Proposals()); built < 3 {
			t.Fatalf("the leader has built %d segments", built)
		}
		c.sameEverywhere()

		other := c.follower()
		other.reachable.Store(other.engine)
		c.until("the segments are named", func() bool { return len(leader.engine.history.Proposals()) == 0 })

		// The same with a plan: its layer is named when two have built it.
		c.until("they are compacted", func() bool { return leader.levels()[1] > 0 })
		other.mute()
		before := leader.levels()[1]
		c.until("another plan is there", func() bool {
			c.traffic(leader, 1)
			if plan, _ := leader.engine.machine.FSM.Plan(); plan.Index != 0 {
				return true
			}
			other.reachable.Store(other.engine)
			pass(time.Second)
			other.mute()
			return false
		})
		before = max(before, leader.levels()[1])
		pass(time.Minute)
		if now := leader.levels()[1]; now != before {
			t.Fatalf("%d layers are named, and were %d before the other nodes fell silent", now, before)
		}
		for _, n := range c.nodes {
			n.reachable.Store(n.engine)
		}
		c.settled()
		c.sameEverywhere()
	})
}

// TestPublishersWaitForFiles: what waits in memory for its files on a majority is
// bounded. Who publishes more waits, and is told why if that takes too long.
func TestPublishersWaitForFiles(t *testing.T) {
	inBubble(t, 3, compacting, func(c *cluster) {
		leader := c.leader()
		for _, n := range c.nodes {
			if n != leader {
				n.mute()
			}
		}
		var err error
		for i := 0; err == nil; i++ {
			if i > 100*heldStretches {
				t.Fatal("the memory grows without a bound")
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			answers := make(chan error, 1)
			leader.engine.Submit(ctx, batchOf(message.ProducerID{}, 0, "a", strings.Repeat("x", 100)), func(_ []raftfsm.Outcome, err error) { answers <- err })
			err = <-answers
			cancel()
			synctest.Wait() // until what was cut is built
		}
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "wait in memory") {
			t.Errorf("a publisher is told: %v", err)
		}
		if held := len(leader.engine.history.Proposals()); held != heldStretches+1 {
			t.Errorf("%d stretches are held, want one more than %d", held, heldStretches)
		}
		for _, n := range c.nodes {
			n.reachable.Store(n.engine)
		}
		leader.mustPublish("a", "at last")
		c.sameEverywhere()
	})
}

// TestRemovalWaitsForFiles: a node that may have the last copy of a file stays, as long
// as it can give it.
func TestRemovalWaitsForFiles(t *testing.T) {
	small := func(s *Settings) {
		withFolders(s)
		s.TipBytes = 8 << 10 // so that the first file cannot be made again from memory
	}
	inBubble(t, 3, small, func(c *cluster) {
		c.introduceAll()
		leader := c.leader()
		c.traffic(leader, 20)
		c.until("files are named", func() bool { return len(leader.engine.Files()) > 2 })
		c.until("they are everywhere", func() bool {
			for _, n := range c.nodes {
				if n.engine.history.Undurable() > 0 {
					return false
				}
			}
			return true
		})
		var others []*testNode
		for _, n := range c.nodes {
			if n != leader {
				others = append(others, n)
			}
		}
		// Both lose the same file, and the leader, which has it, does not give it.
		lost := leader.engine.Files()[0]
		leader.stingy.Store(true)
		for _, n := range others {
			if err := n.files.Mount().Remove(Dir + "/" + lost.Name()); err != nil {
				t.Fatal(err)
			}
			if err := n.engine.history.Verify(lost, func(int64) error { return nil }); err == nil {
				t.Fatal("the file is not missed")
			}
		}
		err := leader.engine.Roster().Remove(context.Background(), leader.id)
		var refused *roster.Refusal
		if !errors.As(err, &refused) || refused.Reason != roster.ReasonFiles {
			t.Fatalf("the node with the last copy may go: %v", err)
		}
		leader.stingy.Store(false)
		gone := others[0]
		if err := leader.engine.Roster().Remove(context.Background(), gone.id); err != nil {
			t.Fatalf("the others have fetched the file: %v", err)
		}
		<-gone.ended
		gone.isolate()
		gone.engine = nil
		c.untilIs(gone.id, "none")
	})
}
