package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"chorale/compactor"
	"chorale/node/engine/building"
	"chorale/raftfsm"
)

// compacting makes segments of a few messages, and of two ranges one, so slowly that
// every node learns of a plan before the first one has built it.
func compacting(s *Settings) {
	s.SegmentBytes = 2 << 10
	s.Compact, s.CompactRate = true, 64<<10
	s.Compaction = compactor.Settings{FanOut: 2, StoreBytes: 1 << 10, MaxStores: 3, MaxFiles: 100, ChapterBytes: 4 << 10}
}

// traffic publishes to a few topics until a node has cut so many segments more.
func (c *cluster) traffic(n *testNode, segments int) {
	c.t.Helper()
	for i := range segments * 20 {
		n.mustPublish(fmt.Sprintf("part%d/topic%d", i%2, i%5), strings.Repeat("x", 100))
	}
}

// levels is how many ranges of each level a node's manifest has.
func (n *testNode) levels() (out [compactor.TopLevel + 1]int) {
	for _, r := range compactor.Ranges(n.engine.history.Manifest()) {
		out[r.Level]++
	}
	return out
}

// settled waits until nothing is left to do: no plan, nothing missing, and the same
// files in the folders of all nodes.
func (c *cluster) settled() {
	c.t.Helper()
	var what string
	for range 3000 {
		if what = c.unsettled(); what == "" {
			return
		}
		pass(10 * time.Millisecond)
	}
	c.t.Fatalf("not within 30 s: %s", what)
}

func (c *cluster) unsettled() string {
	var want []string
	for _, n := range c.nodes {
		if n.engine == nil {
			continue
		}
		m := n.engine.history.Manifest()
		r := n.engine.machine.FSM.View().Retention
		_, due := compactor.Choose(compactor.Ranges(m), n.engine.settings.Compaction.Within(r.Bytes, r.Age))
		plan, _ := n.engine.machine.FSM.Plan()
		if missing := len(n.engine.history.Missing()); due || plan.Index != 0 || missing > 0 {
			return fmt.Sprintf("%s: due %v, plan %d, %d missing", n.id, due, plan.Index, missing)
		}
		var named []string
		for _, f := range m.Files {
			named = append(named, f.Name())
		}
		slices.Sort(named)
		files := n.folder()
		if !slices.Equal(files, named) {
			return fmt.Sprintf("%s has %q, its manifest names %q", n.id, files, named)
		}
		if want == nil {
			want = files
		}
		if !slices.Equal(files, want) {
			return fmt.Sprintf("%s has %q, want %q", n.id, files, want)
		}
	}
	return ""
}

// folder lists the data files of a machine.
func (n *testNode) folder() (names []string) {
	n.c.t.Helper()
	list, err := n.files.List(Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.c.t.Fatal(err)
	}
	for _, i := range list {
		names = append(names, i.Name())
	}
	return names
}

// TestCompaction: segments become stores, of each level, on all nodes by themselves.
func TestCompaction(t *testing.T) {
	inBubble(t, 3, compacting, func(c *cluster) {
		leader := c.leader()
		c.traffic(leader, 17)
		c.settled()
		if got := leader.levels(); got[0] > 1 || got[1] > 1 || got[2] > 1 || got[3] == 0 {
			t.Errorf("ranges of each level: %v", got)
		}
		c.sameEverywhere()
		for _, n := range c.nodes {
			if n.fetched.Load() > 0 || n.engine.mismatches.Load() > 0 {
				t.Errorf("%s gave away %d files, and built %d others", n.id, n.fetched.Load(), n.engine.mismatches.Load())
			}
		}
	})
}

// slowly compacts so slowly that a test can come between.
func slowly(s *Settings) {
	compacting(s)
	s.CompactRate = 1 << 10
}

// activePlan waits for a plan and returns its index.
func (c *cluster) activePlan() uint64 {
	c.t.Helper()
	var index uint64
	c.until("there is a plan", func() bool {
		plan, _ := c.leader().engine.machine.FSM.Plan()
		index = plan.Index
		return index != 0
	})
	return index
}

// TestPlanOutlivesLeader: the next leader ends the plan of the one before it, from
// its own build.
func TestPlanOutlivesLeader(t *testing.T) {
	inBubble(t, 3, slowly, func(c *cluster) {
		old := c.leader()
		c.traffic(old, 2)
		plan := c.activePlan()
		if err := old.stop(); err != nil {
			t.Fatal(err)
		}
		leader := c.leader()
		if got := c.activePlan(); got != plan {
			t.Errorf("plan %d after plan %d", got, plan)
		}
		c.settled()
		if got := leader.levels(); got[1] == 0 {
			t.Errorf("ranges of each level: %v", got)
		}
		old.start()
		c.settled()
		c.sameEverywhere()
	})
}

// TestPlanOutlivesAll: after a restart of every node the plan is built again.
func TestPlanOutlivesAll(t *testing.T) {
	inBubble(t, 3, slowly, func(c *cluster) {
		c.traffic(c.leader(), 2)
		plan := c.activePlan()
		for _, n := range c.nodes {
			if err := n.stop(); err != nil {
				t.Fatal(err)
			}
		}
		for _, n := range c.nodes {
			n.files.Crash()
			n.start()
		}
		if got := c.activePlan(); got != plan {
			t.Errorf("plan %d after plan %d", got, plan)
		}
		c.settled()
		if got := c.leader().levels(); got[1] == 0 {
			t.Errorf("ranges of each level: %v", got)
		}
		c.sameEverywhere()
	})
}

// TestPlanAbandoned: what cannot be built is given up, and nothing is proposed for a
// while.
func TestPlanAbandoned(t *testing.T) {
	inBubble(t, 3, slowly, func(c *cluster) {
		leader := c.leader()
		c.traffic(leader, 2)
		plan := c.activePlan()
		leader.engine.compaction.Set(building.Result{Plan: plan, Failed: errors.New("for a test")})
		c.until("the plan is gone", func() bool {
			p, _ := leader.engine.machine.FSM.Plan()
			return p.Index == 0
		})
		pass(replanPause / 2)
		if p, _ := leader.engine.machine.FSM.Plan(); p.Index != 0 || leader.levels()[1] > 0 {
			t.Errorf("plan %d too early; ranges of each level: %v", p.Index, leader.levels())
		}
		pass(replanPause)
		c.settled()
		c.sameEverywhere()
	})
}

// TestLeftOver: what a crash brings back, or leaves behind, goes.
func TestLeftOver(t *testing.T) {
	inBubble(t, 1, compacting, func(c *cluster) {
		n := c.leader()
		c.traffic(n, 3)
		c.settled()
		if err := n.stop(); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"seg", "store"} {
			name := fmt.Sprintf("%s/%020d-%020d-%016x.%s", Dir, 3, 20, 0xdead, kind)
			if err := n.files.PutFile(name, []byte("of no manifest")); err != nil {
				t.Fatal(err)
			}
		}
		n.start()
		c.leader()
		c.settled()
		c.sameEverywhere()
	})
}

// TestOff: without the setting nothing is proposed, but what another leader has
// proposed is built.
func TestOff(t *testing.T) {
	inBubble(t, 1, compacting, func(c *cluster) {
		n := c.leader()
		n.settings.Compact = false
		if err := n.stop(); err != nil {
			t.Fatal(err)
		}
		n.start()
		c.traffic(c.leader(), 4)
		pass(10 * time.Second)
		if got := n.levels(); got[0] < 4 {
			t.Errorf("ranges of each level: %v", got)
		}
		p, _ := compactor.Choose(compactor.Ranges(n.engine.history.Manifest()), n.settings.Compaction)
		if _, err := n.engine.command(context.Background(), raftfsm.EncodePlan(raftfsm.Plan(p))); err != nil {
			t.Fatal(err)
		}
		c.until("it is built", func() bool { return n.levels()[1] == 1 })
		c.sameEverywhere()
	})
}

// TestDamagedInput: a plan waits for the repair of what it reads.
func TestDamagedInput(t *testing.T) {
	inBubble(t, 3, compacting, func(c *cluster) {
		follower := c.follower()
		c.traffic(follower, 1)
		c.until("there is a file", func() bool { return len(follower.folder()) > 0 })
		if err := follower.files.FlipBit(Dir+"/"+follower.folder()[0], 1000); err != nil {
			t.Fatal(err)
		}
		c.traffic(follower, 1)
		c.settled()
		c.sameEverywhere()
	})
}
