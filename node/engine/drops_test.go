package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"chorale/compactor"
	"chorale/recovery"
	"chorale/retention"
	"chorale/segments"
)

// dropping compacts, and has most messages in files alone.
func dropping(s *Settings) {
	compacting(s)
	s.TipBytes = 4 << 10
}

// TestFilesGoAtOnce: a store of which floors have left nothing goes, on all nodes, without that
// its range is merged. Deletion waits for who reads it; he is told the oldest seq that is left
// for him, and who wants more goes on with that.
func TestFilesGoAtOnce(t *testing.T) {
	inBubble(t, 3, dropping, func(c *cluster) {
		leader := c.leader()
		c.traffic(leader, 17)
		others, _ := c.leftEverywhere("part1/**")
		before, ranges := leader.folder(), len(leader.engine.history.Manifest().Ranges())
		given := make(map[*testNode]int64) // to a node that was behind, maybe
		for _, n := range c.nodes {
			given[n] = n.fetched.Load()
		}
		open := func(filter string) *Subscription {
			s, err := leader.subscribe(SubscribeRequest{Filters: []string{filter}, FromOldest: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, p, err := s.Next(context.Background(), nil, 100); err != nil || p.Count != 1 {
				t.Fatal(p, err)
			}
			return s
		}
		narrow, wide := open("part0/**"), open("**")
		c.rule(retention.Rule{Filter: "part0/**", Age: int64(10 * time.Second)})
		m := leader.engine.history.Manifest()
		c.until("files have gone", func() bool { return len(leader.engine.history.Manifest().Files) < len(m.Files) })
		pass(time.Minute)
		now := leader.engine.history.Manifest()
		if len(now.Ranges()) != ranges || len(now.Files) >= len(m.Files) {
			t.Errorf("%d files of %d ranges became %d of %d", len(m.Files), ranges, len(now.Files), len(now.Ranges()))
		}
		for _, f := range now.Files { // all that stays was there before
			if m.Index(f) < 0 {
				t.Errorf("%s was merged", f.Name())
			}
		}
		if waiting := len(leader.folder()); waiting == len(now.Files) || waiting > len(before) {
			t.Errorf("%d files are on the disk, %d in the manifest, while two read what has gone", waiting, len(now.Files))
		}
		oldest := leader.engine.machine.FSM.Floors().Of("part0/**")
		var overtaken *recovery.OvertakenError
		if _, _, err := narrow.Next(context.Background(), nil, 100); !errors.As(err, &overtaken) || overtaken.Oldest != oldest || !errors.Is(err, segments.ErrExpired) {
			t.Errorf("a reader in the middle of what has gone: %v, want one that names %d", err, oldest)
		}
		if _, p, err := wide.Next(context.Background(), nil, 100); err != nil || p.Count == 0 || wide.Position() > others[1] {
			t.Errorf("a reader of more: %+v, %v", p, err)
		}
		narrow.Close()
		wide.Close()
		for range 2 { // the second time behind a restart that comes with a power cut
			if left, _ := c.leftEverywhere("part1/**"); !slices.Equal(left, others) {
				t.Errorf("%d messages of others are left, want %d", len(left), len(others))
			}
			if left, _ := c.leftEverywhere("**"); len(left) != len(others) {
				t.Errorf("%d messages are left, want %d", len(left), len(others))
			}
			for _, n := range c.nodes {
				if more := n.fetched.Load() - given[n]; more > 0 || n.engine.mismatches.Load() > 0 {
					t.Errorf("%s gave away %d files, built %d others", n.id, more, n.engine.mismatches.Load())
				}
				if err := n.stop(); err != nil {
					t.Fatal(err)
				}
				n.files.Crash()
				n.start()
			}
			c.leader()
		}
	})
}

// TestWornRangesAreRewritten: ranges that are not merged any more, of which half has gone, are
// rewritten where they are, on all nodes alike; and no more often than that.
func TestWornRangesAreRewritten(t *testing.T) {
	alone := func(s *Settings) {
		dropping(s)
		s.Compaction.MaxStores = 1 // so that no file goes by itself
	}
	inBubble(t, 3, alone, func(c *cluster) {
		c.traffic(c.leader(), 17)
		others, _ := c.leftEverywhere("part1/**")
		before := c.leader().engine.history.Manifest()
		c.rule(retention.Rule{Filter: "part0/**", Age: int64(10 * time.Second)})
		pass(5 * time.Minute)
		if left, _ := c.leftEverywhere("**"); !slices.Equal(left, others) {
			t.Errorf("%d messages are left, want %d", len(left), len(others))
		}
		rewritten := c.leader().engine.history.Manifest()
		if len(rewritten.Ranges()) != len(before.Ranges()) {
			t.Errorf("%d ranges became %d", len(before.Ranges()), len(rewritten.Ranges()))
		}
		if before.Files[0].Level != compactor.TopLevel {
			t.Fatalf("no range came to the top: %v", c.leader().levels())
		}
		for i, f := range rewritten.Files {
			switch was := before.Files[i]; {
			case was.Level < compactor.TopLevel && f != was:
				t.Errorf("%s of level %d was rewritten", was.Name(), was.Level)
			case was.Level == compactor.TopLevel && (f.Level != was.Level+1 || f.Messages > was.Messages/2+1 || f.Bytes >= was.Bytes):
				t.Errorf("%d messages, %d bytes of level %d became %d, %d of level %d", was.Messages, was.Bytes, was.Level, f.Messages, f.Bytes, f.Level)
			}
		}
		pass(10 * time.Minute)
		if again := c.leader().engine.history.Manifest(); !slices.Equal(again.Files, rewritten.Files) {
			t.Error("files change, and nothing goes")
		}
		for _, n := range c.nodes {
			if n.engine.mismatches.Load() > 0 {
				t.Errorf("%s built %d other files", n.id, n.engine.mismatches.Load())
			}
		}
	})
}
