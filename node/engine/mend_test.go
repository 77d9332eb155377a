package engine

import (
	"slices"
	"strings"
	"testing"
)

// TestDamagedEverywhere: a file of each kind that is damaged on all nodes at different
// places, or gone on one of them, is as it was again on all; and who reads meanwhile gets no
// wrong message.
func TestDamagedEverywhere(t *testing.T) {
	for first := range harm {
		t.Run(first, func(t *testing.T) {
			inBubble(t, 3, scrubbing, func(c *cluster) {
				c.bothKinds()
				before, want := c.leader().contents(), c.sameEverywhere()
				for round := range 3 {
					for _, m := range c.nodes[0].kinds() {
						path := Dir + "/" + m.Name()
						for i, n := range c.nodes {
							err := n.files.FlipBit(path, m.Bytes*int64(i+1)) // at 1/8, 2/8, 3/8
							if i == round {
								err = harm[first](n, m, path)
							}
							if err != nil {
								t.Fatal(err)
							}
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
					for _, n := range c.nodes {
						if n.engine.Lacking() != "" {
							t.Errorf("%s: %s", n.id, n.engine.Lacking())
						}
					}
				}
			})
		})
	}
}

// TestDamagedAlike: what is damaged at the same place on all nodes stays lost, and each says
// which part of which file it is.
func TestDamagedAlike(t *testing.T) {
	inBubble(t, 3, scrubbing, func(c *cluster) {
		c.bothKinds()
		want := c.sameEverywhere()
		bad := c.nodes[0].kinds()[1]
		for _, n := range c.nodes {
			if err := n.files.FlipBit(Dir+"/"+bad.Name(), 8*70); err != nil {
				t.Fatal(err)
			}
		}
		pass(3 * scrubEvery)
		for _, n := range c.nodes {
			for _, part := range []string{bad.Name(), "no other node gave", "nor do damaged copies make it up", "block 0, bytes 64 to ", "of 3 copies"} {
				if said := n.engine.Lacking(); !strings.Contains(said, part) {
					t.Errorf("%s: %q does not say %q", n.id, said, part)
				}
			}
			n.neverWrong(want)
		}
	})
}
