package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"chorale/message"
	"chorale/segments"
	"chorale/tip"
)

// harm is what happens to a file behind a node's back.
var harm = map[string]func(n *testNode, m segments.FileMeta, path string) error{
	"flipped": func(n *testNode, m segments.FileMeta, path string) error { return n.files.FlipBit(path, m.Bytes*4) },
	"cut":     func(n *testNode, m segments.FileMeta, path string) error { return n.files.Truncate(path, m.Bytes/2) },
	"removed": func(n *testNode, _ segments.FileMeta, path string) error { return n.files.Lose(path) },
}

// contents are the data files of a machine, byte by byte.
func (n *testNode) contents() map[string]string {
	n.c.t.Helper()
	out := make(map[string]string)
	for _, name := range n.folder() {
		b, err := n.files.ReadFile(Dir + "/" + name)
		if err != nil {
			n.c.t.Fatal(err)
		}
		out[name] = string(b)
	}
	return out
}

// identical checks that all machines have the same files, and these as before.
func (c *cluster) identical(before map[string]string) {
	c.t.Helper()
	for _, n := range c.nodes {
		got := n.contents()
		for name, b := range before {
			if got[name] != b {
				c.t.Fatalf("%s on %s is not as it was", name, n.id)
			}
		}
		if len(got) != len(before) {
			c.t.Fatalf("%s has %q", n.id, n.folder())
		}
	}
}

// bothKinds publishes until there are segments and stores.
func (c *cluster) bothKinds() {
	c.t.Helper()
	c.traffic(c.leader(), 3)
	for {
		c.settled()
		s := c.leader().engine.Status()
		if s.History.Stores > 1 && s.History.Files > s.History.Stores {
			break
		}
		c.traffic(c.leader(), 1)
	}
}

// kinds are a segment and two stores of a node's manifest.
func (n *testNode) kinds() []segments.FileMeta {
	n.c.t.Helper()
	var files, stores []segments.FileMeta
	for _, f := range n.engine.Files() {
		if f.Kind == segments.KindStore {
			stores = append(stores, f)
		} else {
			files = append(files, f)
		}
	}
	if len(files) == 0 || len(stores) < 2 {
		n.c.t.Fatalf("%d segments, %d stores", len(files), len(stores))
	}
	return []segments.FileMeta{files[0], stores[0], stores[1]}
}

// TestScrub: damage of each kind, to each kind of file, on one node and on all at
// different files, is found though nobody reads, and repaired; and who reads meanwhile
// gets no wrong message.
func TestScrub(t *testing.T) {
	for what, harm := range harm {
		t.Run(what, func(t *testing.T) {
			inBubble(t, 3, scrubbing, func(c *cluster) {
				c.bothKinds()
				before, want := c.leader().contents(), c.sameEverywhere()
				bad := int64(0)
				for round := range 4 {
					for i, n := range c.nodes {
						if round < 3 && i != round {
							continue // on one node alone, each in turn; then on all
						}
						for j, m := range n.kinds() {
							if round == 3 && j != i {
								continue
							}
							if err := harm(n, m, Dir+"/"+m.Name()); err != nil {
								t.Fatal(err)
							}
							bad++
						}
					}
					for _, n := range c.nodes {
						n.neverWrong(want)
					}
					pass(2 * scrubEvery)
					c.identical(before)
					if got := c.sameEverywhere(); !slices.Equal(got, want) {
						t.Fatalf("%d messages, want %d", len(got), len(want))
					}
				}
				found := int64(0)
				for _, n := range c.nodes {
					s := n.engine.Status()
					if found += s.Scrub.Bad; s.Lacking != "" || s.Scrub.Unread > 0 || time.Since(s.Scrub.Oldest) > 2*scrubEvery {
						t.Errorf("%s: %q, %+v", n.id, s.Lacking, s.Scrub)
					}
				}
				if found == 0 || found > bad {
					t.Errorf("the scrub found %d files, %d were damaged", found, bad)
				}
			})
		})
	}
}

// scrubEvery is short: a week of Raft's heartbeats is long even under virtual time.
const scrubEvery = time.Minute

func scrubbing(s *Settings) {
	compacting(s)
	s.ScrubEvery, s.TipBytes = scrubEvery, tip.MinBytes
}

// neverWrong reads everything from the node: whatever comes before an error is right,
// and an error is one that sends a client elsewhere.
func (n *testNode) neverWrong(want []string) {
	n.c.t.Helper()
	s, err := n.engine.Subscribe(n.c.t.Context(), SubscribeRequest{Filters: []string{"**"}, UntilTip: true})
	if err != nil {
		n.c.t.Fatal(err)
	}
	defer s.Close()
	for at := 0; err == nil; {
		var b []byte
		b, _, err = s.Next(n.c.t.Context(), nil, 1<<10)
		for ; len(b) > 0; at++ {
			r, rest, err := message.Split(b)
			if err != nil {
				n.c.t.Fatal(err)
			}
			if got := fmt.Sprintf("%d %s %s", r.Seq(), n.engine.TopicName(r.Topic()), r.Payload()); got != want[at] {
				n.c.t.Fatalf("%s served %.60q, want %.60q", n.id, got, want[at])
			}
			b = rest
		}
	}
	if !strings.Contains(err.Error(), "EOF") && !errors.Is(err, segments.ErrCorrupt) && !errors.Is(err, segments.ErrNotHere) {
		n.c.t.Fatal(err)
	}
}

// TestAloneWithMemory: a cluster of one node rebuilds what it has in memory still.
func TestAloneWithMemory(t *testing.T) {
	inBubble(t, 1, func(s *Settings) { s.ScrubEvery = scrubEvery }, func(c *cluster) {
		n := c.leader()
		c.traffic(n, 30)
		pass(time.Second) // the last segment is built
		c.settled()
		before, want := n.contents(), c.sameEverywhere()
		for _, m := range n.engine.Files() {
			if err := n.files.FlipBit(Dir+"/"+m.Name(), 2000); err != nil {
				t.Fatal(err)
			}
		}
		pass(2 * scrubEvery)
		c.identical(before)
		n.neverWrong(want)
		if s := n.engine.Status(); s.Scrub.Bad == 0 || s.History.Missing > 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestAlone: of what a cluster of one node has lost for good it says which file is
// missing and since when, to operators and to who wants it; it serves the rest, and
// takes the file back when somebody brings it.
func TestAlone(t *testing.T) {
	inBubble(t, 1, scrubbing, func(c *cluster) {
		n := c.leader()
		c.bothKinds()
		before, want := n.contents(), c.sameEverywhere()
		bad := n.kinds()[1]
		path := Dir + "/" + bad.Name()
		if err := n.files.FlipBit(path, 2000); err != nil {
			t.Fatal(err)
		}
		pass(2 * scrubEvery)
		said := n.engine.Lacking()
		for _, part := range []string{bad.Name(), "is missing since 2000-01-", "no other node gave"} {
			if !strings.Contains(said, part) {
				t.Errorf("%q does not say %q", said, part)
			}
		}
		s, err := n.engine.Subscribe(t.Context(), SubscribeRequest{Filters: []string{"**"}, After: bad.First - 1})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = s.Next(t.Context(), nil, 1<<20)
		s.Close()
		if !errors.Is(err, segments.ErrNotHere) || !strings.Contains(err.Error(), bad.Name()) || !strings.Contains(err.Error(), "no other node gave") {
			t.Errorf("a reader is told %v", err)
		}
		if got := n.read(bad.Last, n.engine.End(), "**"); !slices.Equal(got, want[bad.Last:]) {
			t.Errorf("%d messages behind the file, want %d", len(got), len(want)-int(bad.Last))
		}

		// It comes up without the file, too.
		if err := n.engine.running().Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		if err := n.stop(); err != nil {
			t.Fatal(err)
		}
		n.start()
		pass(2 * time.Minute) // in which the file might come
		c.until("it serves what it has", func() bool { return n.engine.NotReady() == "" })
		if !strings.Contains(n.engine.Lacking(), bad.Name()) {
			t.Errorf("after a start: %q", n.engine.Lacking())
		}
		n.neverWrong(want)
		if err := n.files.PutFile(path, []byte(before[bad.Name()])); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		c.identical(before)
		n.neverWrong(want)
		if n.engine.Lacking() != "" {
			t.Error(n.engine.Lacking())
		}
	})
}
