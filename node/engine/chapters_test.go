package engine

import (
	"path"
	"testing"

	"chorale/raftfsm/level"
	"chorale/segments"
	"chorale/segments/format"
)

// stores counts a node's stores, and those of them that have chapters.
func (n *testNode) stores() (all, chapters int) {
	n.c.t.Helper()
	for _, m := range n.engine.history.Manifest().Files {
		if m.Kind != segments.KindStore {
			continue
		}
		f, err := n.files.Open(path.Join(Dir, m.Name()))
		if err != nil {
			n.c.t.Fatal(err)
		}
		x, err := format.Open(f, m.Bytes, m.Name())
		if err != nil {
			n.c.t.Fatal(err)
		}
		if all++; x.Header.Chapter > 0 {
			chapters++
		}
		if err := f.Close(); err != nil {
			n.c.t.Fatal(err)
		}
	}
	return all, chapters
}

// TestChaptersWaitForAll: as long as one member is of a build that does not read stores
// with chapters, the cluster compacts without them; then with them, and all nodes build
// the same.
func TestChaptersWaitForAll(t *testing.T) {
	settings := func(s *Settings) {
		compacting(s)
		reading(level.Chapters - 1)(s)
	}
	inBubble(t, 3, settings, func(c *cluster) {
		for _, n := range c.nodes {
			c.traffic(c.leader(), 5)
			c.settled()
			if all, chapters := c.leader().stores(); all == 0 || chapters > 0 {
				t.Errorf("before %s is upgraded, %d of %d stores have chapters", n.id, chapters, all)
			}
			n.upgrade(level.Chapters)
		}
		c.until("the level is in the log", func() bool { return c.use().InUse == level.Chapters })
		c.traffic(c.leader(), 9)
		c.settled()
		if all, chapters := c.leader().stores(); chapters == 0 {
			t.Errorf("none of %d stores has chapters", all)
		}
		c.sameEverywhere()
		for _, n := range c.nodes {
			if n.engine.mismatches.Load() > 0 {
				t.Errorf("%s built %d files that others did not", n.id, n.engine.mismatches.Load())
			}
		}
	})
}
