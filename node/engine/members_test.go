package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"chorale/disk"
	"chorale/message"
	"chorale/node/engine/roster"
	"chorale/raftfsm/members"

	"github.com/hashicorp/raft"
)

// withFolders gives each node the incarnation that its number says.
func withFolders(s *Settings) {
	fmt.Sscanf(string(s.ID), "n%d", &s.Incarnation)
}

// add is a further machine with an empty disk, whose node runs but is no member.
func (c *cluster) add(id string, folder members.Incarnation) *testNode {
	n := &testNode{
		c: c, id: raft.ServerID(id), settings: c.nodes[0].settings, files: disk.NewMem(uint64(folder)),
		store: raft.NewInmemStore(), snaps: raft.NewInmemSnapshotStore(),
	}
	n.settings.ID, n.settings.Incarnation = n.id, folder
	c.logMu.Lock()
	c.nodes = append(c.nodes, n)
	c.logMu.Unlock()
	n.start()
	return n
}

// wipe is the same machine with a new disk.
func (n *testNode) wipe(folder members.Incarnation) {
	n.files, n.store, n.snaps = disk.NewMem(uint64(folder)), raft.NewInmemStore(), raft.NewInmemSnapshotStore()
	n.settings.Incarnation = folder
}

func (n *testNode) request() roster.JoinRequest {
	data, _ := n.store.LastIndex()
	return roster.JoinRequest{ID: n.id, Incarnation: n.settings.Incarnation, Address: raft.ServerAddress(n.id), Voter: true, HasData: data > 0, Reads: n.settings.withDefaults().Reads}
}

// join asks the leader as a node does: again and again, until it is told yes or no.
func (c *cluster) join(q roster.JoinRequest) error {
	c.t.Helper()
	for range 100 {
		err := c.leader().engine.Roster().Join(context.Background(), q)
		var refused *roster.Refusal
		if err == nil || errors.As(err, &refused) {
			return err
		}
		pass(100 * time.Millisecond)
	}
	c.t.Fatal("no leader answers")
	return nil
}

func (c *cluster) introduceAll() {
	c.t.Helper()
	for _, n := range c.nodes {
		if n.engine != nil {
			if err := c.join(n.request()); err != nil {
				c.t.Fatal(err)
			}
		}
	}
}

// is reports what a node is in the leader's configuration.
func (c *cluster) is(id raft.ServerID) string {
	for _, s := range c.leader().engine.Servers() {
		if s.ID == id {
			return s.Suffrage.String()
		}
	}
	return "none"
}

func (c *cluster) untilIs(id raft.ServerID, want string) {
	c.t.Helper()
	c.until(fmt.Sprintf("%s is %s", id, want), func() bool { return c.is(id) == want })
}

// refusal checks the reason of a refusal.
func refusal(t *testing.T, err error, reason string) {
	t.Helper()
	var r *roster.Refusal
	if !errors.As(err, &r) || r.Reason != reason {
		t.Errorf("%v, want a refusal because of %s", err, reason)
	}
}

// TestLifeOfMembers: a node joins a running cluster and becomes a voter once it has
// log and files; it is removed, and stays removed until it comes with an empty folder.
func TestLifeOfMembers(t *testing.T) {
	inBubble(t, 3, withFolders, func(c *cluster) {
		c.introduceAll()
		for i := range 60 {
			c.leader().mustPublish("app/a", fmt.Sprint(i), string(make([]byte, 2000)))
		}
		c.until("there are files", func() bool { return len(c.leader().engine.Files()) > 2 })

		n4 := c.add("n4", 4)
		if err := c.join(n4.request()); err != nil {
			t.Fatal(err)
		}
		c.untilIs("n4", "Nonvoter")
		c.untilIs("n4", "Voter")
		if h := n4.engine.Health(); h.MissingFiles > 0 {
			t.Errorf("it votes and lacks %d files", h.MissingFiles)
		}
		c.sameEverywhere()

		if err := c.leader().engine.Roster().Remove(context.Background(), "n4"); err != nil {
			t.Fatal(err)
		}
		c.untilIs("n4", "none")
		var removed *roster.RemovedError
		if err := <-n4.ended; !errors.As(err, &removed) {
			t.Errorf("the removed node ends with %v", err)
		}
		n4.isolate()
		n4.engine = nil
		refusal(t, c.join(n4.request()), roster.ReasonRemoved)

		// Its log may not say what was committed. But nobody talks to it, and it disturbs nobody.
		term := c.leader().engine.Status().Term
		n4.start()
		pass(20 * time.Second)
		if why := n4.engine.NotReady(); why == "" {
			t.Error("it is ready")
		}
		if got := c.leader().engine.Status().Term; got != term {
			t.Errorf("the term was %d and is %d", term, got)
		}
		n4.stop()
		n4.wipe(44)
		n4.start()
		if err := c.join(n4.request()); err != nil {
			t.Fatal(err)
		}
		c.untilIs("n4", "Voter")
		c.leader().mustPublish("app/a", "last")
		c.sameEverywhere()
	})
}

// TestWipedVoter: an empty folder is not taken for the voter whose id it has, whether
// that one has introduced itself or not.
func TestWipedVoter(t *testing.T) {
	inBubble(t, 3, withFolders, func(c *cluster) {
		n := c.follower()
		n.stop()
		n.wipe(77)
		refusal(t, c.join(n.request()), roster.ReasonOtherFolder)
		c.introduceAll()
		refusal(t, c.join(n.request()), roster.ReasonOtherFolder)
		if err := c.leader().engine.Roster().Remove(context.Background(), n.id); err != nil {
			t.Fatal(err)
		}
		c.untilIs(n.id, "none")
		n.start()
		if err := c.join(n.request()); err != nil {
			t.Fatal(err)
		}
		c.untilIs(n.id, "Voter")
	})
}

// TestRemoveLeader: the leader hands over before it goes.
func TestRemoveLeader(t *testing.T) {
	inBubble(t, 3, withFolders, func(c *cluster) {
		c.introduceAll()
		leader := c.leader()
		pass(2 * time.Second)
		if err := leader.engine.Roster().Remove(context.Background(), leader.id); err != nil {
			t.Fatal(err)
		}
		var removed *roster.RemovedError
		if err := <-leader.ended; !errors.As(err, &removed) {
			t.Errorf("the removed leader ends with %v", err)
		}
		leader.isolate()
		leader.engine = nil
		c.untilIs(leader.id, "none")
		c.leader().mustPublish("a", "x")
		c.sameEverywhere()
	})
}

// TestSafeQuorum: what would leave no majority alive is refused, and says so.
func TestSafeQuorum(t *testing.T) {
	inBubble(t, 3, withFolders, func(c *cluster) {
		c.introduceAll()
		down := c.follower()
		down.stop()
		for _, n := range c.nodes { // although the one that is down answered a moment ago
			if n != c.leader() && n != down {
				refusal(t, c.leader().engine.Roster().Remove(context.Background(), n.id), roster.ReasonQuorum)
			}
		}
		c.leader().mustPublish("a", "x")
		pass(5 * time.Second)
		leader := c.leader()
		r := leader.engine.Roster()
		var other raft.ServerID
		for _, n := range c.nodes {
			if n != leader && n != down {
				other = n.id
			}
		}
		for _, id := range []raft.ServerID{leader.id, other} {
			refusal(t, r.Remove(context.Background(), id), roster.ReasonQuorum)
			refusal(t, r.SetVoter(context.Background(), id, false), roster.ReasonQuorum)
		}
		refusal(t, r.Remove(context.Background(), "nobody"), roster.ReasonUnknown)
		_, err := r.Transfer(context.Background(), down.id)
		refusal(t, err, roster.ReasonBehind)
		if err := r.Remove(context.Background(), down.id); err != nil {
			t.Fatal(err)
		}
		c.untilIs(down.id, "none")
		pass(2 * time.Second)
		if err := c.leader().engine.Roster().Remove(context.Background(), other); err != nil {
			t.Fatal(err) // of two that live, one may go
		}
		c.untilIs(other, "none")
		refusal(t, c.leader().engine.Roster().Remove(context.Background(), c.leader().id), roster.ReasonLastVoter)
		if _, err := c.leader().publish(batchOf(message.ProducerID{}, 0, "a", "y")); err != nil {
			t.Fatal(err)
		}
	})
}

// TestChangeUnknown: the outcome of a change that a leader could not put through before it
// lost its majority is not known, and is found out later.
func TestChangeUnknown(t *testing.T) {
	inBubble(t, 3, withFolders, func(c *cluster) {
		c.introduceAll()
		pass(2 * time.Second)
		leader := c.leader()
		leader.isolate()
		if err := leader.engine.Roster().Invite(context.Background(), "n9", true); !errors.Is(err, ErrUnknown) {
			t.Errorf("invited without a majority: %v", err)
		}
		leader.connect()
		pass(5 * time.Second)
		c.leader().mustPublish("a", "x")
		c.sameEverywhere()
	})
}

// TestNonVoter: who joins as a non-voter stays one until it is promoted, and then can
// be demoted again.
func TestNonVoter(t *testing.T) {
	inBubble(t, 3, withFolders, func(c *cluster) {
		c.introduceAll()
		n4 := c.add("n4", 4)
		q := n4.request()
		q.Voter = false
		if err := c.join(q); err != nil {
			t.Fatal(err)
		}
		c.untilIs("n4", "Nonvoter")
		pass(time.Minute)
		if got := c.is("n4"); got != "Nonvoter" {
			t.Errorf("after a minute it is %s", got)
		}
		_, err := c.leader().engine.Roster().Transfer(context.Background(), "n4")
		refusal(t, err, roster.ReasonNotVoter)
		for _, voter := range []bool{true, false} {
			if err := c.leader().engine.Roster().SetVoter(context.Background(), "n4", voter); err != nil {
				t.Fatal(err)
			}
			c.untilIs("n4", map[bool]string{true: "Voter", false: "Nonvoter"}[voter])
		}
		c.leader().mustPublish("a", "x")
		c.sameEverywhere()
	})
}

// TestTransfer: leadership goes where it is asked to go.
func TestTransfer(t *testing.T) {
	inBubble(t, 3, withFolders, func(c *cluster) {
		pass(3 * time.Second)
		for _, n := range slices.Clone(c.nodes) {
			pass(2 * time.Second)
			if to, err := c.leader().engine.Roster().Transfer(context.Background(), n.id); err != nil || to != n.id {
				t.Fatalf("to %s: %s, %v", n.id, to, err)
			}
			c.until("it leads", func() bool { return c.leader() == n })
		}
	})
}

// TestDeadAreRemoved: who is silent for longer than the operator allows is removed for
// good, one at a time, and never where no majority would be left; who comes back in time
// stays.
func TestDeadAreRemoved(t *testing.T) {
	const allowed = time.Minute
	impatient := func(s *Settings) {
		withFolders(s)
		s.RemoveDead = allowed
	}
	inBubble(t, 5, impatient, func(c *cluster) {
		c.introduceAll()
		leader := c.leader()
		var others []*testNode
		for _, n := range c.nodes {
			if n != leader {
				others = append(others, n)
			}
		}
		others[0].stop()
		pass(allowed - 5*time.Second)
		others[0].start()
		pass(2 * allowed)
		if s := c.is(others[0].id); s != "Voter" {
			t.Fatalf("who came back in time is %s", s)
		}
		for i, n := range others[:2] {
			n.stop()
			pass(allowed - 5*time.Second)
			if s := c.is(n.id); s != "Voter" {
				t.Fatalf("dead node %d is %s before its time", i, s)
			}
			c.untilIs(n.id, "none")
		}
		// Of three voters one is dead and goes; of the two that are left none may.
		others[2].stop()
		pass(allowed)
		c.untilIs(others[2].id, "none")
		others[3].stop()
		pass(3 * allowed)
		for _, s := range leader.engine.Servers() {
			if s.ID == others[3].id {
				return
			}
		}
		t.Error("the last but one voter was removed without a majority")
	})
}

// TestRemovalWaitsForTheConfiguration: a node stays as long as only it and the one that was
// just promoted know that this one votes. The third, which answers but hears nothing of
// Raft, would deny it its vote.
func TestRemovalWaitsForTheConfiguration(t *testing.T) {
	inBubble(t, 3, withFolders, func(c *cluster) {
		c.introduceAll()
		leader := c.leader()
		var deaf, other *testNode
		for _, n := range c.nodes {
			if n != leader {
				deaf, other = n, deaf
			}
		}
		n4 := c.add("n4", 4)
		if err := c.join(n4.request()); err != nil {
			t.Fatal(err)
		}
		deaf.transport.DisconnectAll()
		for _, n := range c.nodes {
			n.transport.Disconnect(deaf.transport.LocalAddr())
		}
		c.untilIs("n4", "Voter")
		if err := leader.engine.Roster().Remove(context.Background(), other.id); err != nil {
			t.Fatal(err) // two of three know
		}
		c.untilIs(other.id, "none")
		refusal(t, leader.engine.Roster().Remove(context.Background(), "n4"), roster.ReasonBehind)
		refusal(t, leader.engine.Roster().Remove(context.Background(), leader.id), roster.ReasonBehind)
		deaf.connect()
		c.until("it may go", func() bool { return c.leader().engine.Roster().Remove(context.Background(), "n4") == nil })
		c.untilIs("n4", "none")
	})
}
