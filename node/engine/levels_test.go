package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"chorale/node/engine/roster"
	"chorale/raftfsm"
	"chorale/raftfsm/level"
)

// reading is a build that reads the log up to a level.
func reading(l level.Level) func(*Settings) {
	return func(s *Settings) {
		withFolders(s)
		s.Reads = level.Range{Lowest: level.First, Highest: l}
	}
}

// TestEarlierVersion: nothing is put in the log that would stop a node of an earlier
// version, until that is upgraded or is the one that goes.
func TestEarlierVersion(t *testing.T) {
	inBubble(t, 3, reading(level.Members), func(c *cluster) {
		old := c.follower()
		old.early.Store(true)
		pass(2 * time.Second)
		n4 := c.add("n4", 4)
		refusal(t, c.join(n4.request()), roster.ReasonOld)
		refusal(t, c.join(c.leader().request()), roster.ReasonOld)
		if list := c.leader().engine.Members(); len(list) > 0 {
			t.Errorf("the list is %v", list)
		}
		if err := c.leader().engine.Roster().Remove(context.Background(), old.id); err != nil {
			t.Fatal(err)
		}
		c.untilIs(old.id, "none")
		if err := c.join(n4.request()); err != nil {
			t.Fatal(err)
		}
		c.untilIs("n4", "Voter")
	})
}

// use is the level in use, as the leader says.
func (c *cluster) use() roster.Levels { return c.leader().engine.Status().Levels }

// upgrade starts a node as another build.
func (n *testNode) upgrade(l level.Level) {
	n.stop()
	n.settings.Reads.Highest = l
	n.start()
}

// TestLevel: what is new waits until all members are of a build that has it, those that
// are away and those that do not vote among them; then it is used at once, for ever.
func TestLevel(t *testing.T) {
	inBubble(t, 3, reading(level.Retention-1), func(c *cluster) {
		all := c.nodes
		set := func() error {
			return c.leader().engine.SetRetention(context.Background(), raftfsm.Retention{Age: int64(time.Hour)})
		}
		for _, n := range all[:2] {
			n.upgrade(level.Logged)
			c.leader()
		}
		pass(2 * time.Second)
		refusal(t, set(), roster.ReasonOld)
		if err := set(); !strings.Contains(err.Error(), "retain came with level 3 of the log, and level 2 is in use: node n3 runs an earlier version, which reads levels 1 to 2") {
			t.Errorf("it is refused with: %v", err)
		}
		all[2].stop()
		pass(5 * time.Second)
		refusal(t, set(), roster.ReasonOld)
		if got := c.use(); got.InUse != level.First || !strings.Contains(got.Held, "level 5 waits: node n3 does not answer; not used until then: plan, abandon, retain, expire, member") {
			t.Errorf("while it is away: %+v", got)
		}
		all[2].settings.Reads.Highest = level.Members
		all[2].start()
		c.until("all read it", func() bool { return set() == nil })
		if got := c.use(); got.InUse != level.Members || !strings.Contains(got.Held, "level 5 waits: node n3 runs an earlier version, which reads levels 1 to 4") {
			t.Errorf("when all read what came before levels: %+v", got)
		}
		all[2].upgrade(level.Logged)
		c.until("the level is in the log", func() bool { return c.use() == roster.Levels{InUse: level.Logged} })
		for _, n := range all {
			c.until("all know it", func() bool { return n.engine.Level() == level.Mark{Level: level.Logged} })
		}
	})
}

// TestLevelOfReplica: a read replica holds the level back, and a node that does not read
// the level in use is not let in.
func TestLevelOfReplica(t *testing.T) {
	inBubble(t, 1, reading(level.Logged), func(c *cluster) {
		c.until("the level is in the log", func() bool { return c.use().InUse == level.Logged })
		c.introduceAll()
		replica := c.add("n2", 2)
		q := replica.request()
		q.Voter = false
		q.Reads.Highest = level.Members
		refusal(t, c.join(q), roster.ReasonLevel)
		q.Reads = level.Range{Lowest: level.Logged + 1, Highest: level.Logged + 2}
		refusal(t, c.join(q), roster.ReasonLevel)
		q.Reads = replica.settings.Reads
		if err := c.join(q); err != nil {
			t.Fatal(err)
		}
		c.untilIs("n2", "Nonvoter")
		c.nodes[0].upgrade(level.Logged + 1)
		replica.stop()
		pass(10 * time.Second)
		if got := c.use(); got.InUse != level.Logged {
			t.Errorf("while the replica is away: %+v", got)
		}
		replica.settings.Reads.Highest++
		replica.start()
		c.until("it is raised", func() bool { return c.use() == roster.Levels{InUse: level.Logged + 1} })
	})
}

// TestLevelStops: a node that comes to a level that it does not read ends with what to do,
// also where it was sent a snapshot, and goes on when it is upgraded.
func TestLevelStops(t *testing.T) {
	inBubble(t, 3, reading(level.Logged), func(c *cluster) {
		c.until("the level is in the log", func() bool { return c.use().InUse == level.Logged })
		for _, n := range c.nodes[:2] {
			n.upgrade(level.Logged + 1)
			c.leader()
		}
		n3 := c.nodes[2]
		c.until("a new build leads", func() bool {
			if c.leader() == n3 {
				n3.stop()
				c.leader()
				n3.start()
			}
			return c.leader() != n3
		})
		// As if it had said that it reads it, and had been put back since.
		next := level.Mark{Level: level.Logged + 1, By: "v9"}
		if _, err := c.leader().engine.put(context.Background(), raftfsm.EncodeLevel(next)); err != nil {
			t.Fatal(err)
		}
		stops := func(how string) {
			t.Helper()
			var other *level.Error
			if err := <-n3.ended; !errors.As(err, &other) || other.Mark != next || !strings.Contains(err.Error(), "upgrade this node (v9 or a later version)") {
				t.Errorf("%s it ends with: %v", how, err)
			}
			n3.isolate()
			n3.engine = nil
		}
		stops("at the entry")
		n3.start()
		stops("started again")
		c.traffic(c.leader(), 3)
		if err := c.leader().engine.running().Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		n3.upgrade(level.Logged + 1)
		c.until("it is as far as the others", func() bool {
			return n3.engine.Level() == next && n3.engine.Status().View.LastSeq == c.leader().engine.Status().View.LastSeq
		})
	})
}
