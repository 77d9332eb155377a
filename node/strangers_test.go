package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"chorale/api"
)

// TestStrangers: a node that is told to join another cluster than its folder's ends
// and says so; the one that it asked notes it and goes on.
func TestStrangers(t *testing.T) {
	t.Parallel()
	one := single(t, t.TempDir())
	a, _ := boot(t, one)
	publish(t, dial(t, a.API), "a", "of one")
	two := single(t, t.TempDir())
	two.ID = "duo"
	b, stop := boot(t, two)
	publish(t, dial(t, b.API), "a", "of two")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	joins := two
	joins.Join = []string{a.Gossip}
	wants(t, refused(t, joins), "join", a.Gossip, "want nodes of cluster", two.Dir, "node "+one.ID,
		"To keep what the folder has, leave out join", "restored from a backup", "made of this one by chorale recover-quorum")
	deadline := time.Now().Add(patience)
	for !one.LogOutput.(*testLog).says("a node of another cluster") {
		if time.Now().After(deadline) {
			t.Fatal("nobody noticed")
		}
		<-time.After(10 * time.Millisecond)
	}
	b, _ = boot(t, two)
	for want, address := range map[string]string{"of one": a.API, "of two": b.API} {
		if got := recoverAll(t, dial(t, address)); len(got) != 1 || got[0] != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func (l *testLog) says(what string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.b.String(), what)
}

// TestJoinOfOneCluster: where gossip has met nodes of two clusters an empty node is let
// into that which its --join names.
func TestJoinOfOneCluster(t *testing.T) {
	t.Parallel()
	seeds := freeAddresses(t, 2)
	w := &town{t: t, nodes: map[string]*citizen{}}
	t.Cleanup(func() {
		for id := range w.nodes {
			if err := w.stop(id); err != nil {
				t.Errorf("%s ended with %v", id, err)
			}
		}
	})
	for i, id := range []string{"e", "f"} {
		w.add(id, func(c *Config) { c.BootstrapExpect, c.Gossip.Bind = 1, seeds[i] })
		w.awaitReady(id)
	}
	cluster := func(id string) string {
		s, err := w.nodes[id].client.GetStatus(t.Context(), &api.GetStatusRequest{})
		if err != nil {
			return err.Error()
		}
		return s.ClusterId
	}
	if cluster("e") == cluster("f") {
		t.Fatal("one cluster")
	}
	// One of f's that knows an address of e's too: from now on gossip is of both.
	w.add("f2", func(c *Config) { c.Join = seeds[1:] })
	w.awaitReady("f2")
	if err := w.stop("f2"); err != nil {
		t.Fatal(err)
	}
	w.nodes["f2"].config.Join = []string{seeds[1], seeds[0]}
	w.start("f2")
	w.awaitReady("f2")
	for i, id := range []string{"e", "f"} {
		for k := range 3 {
			name := fmt.Sprintf("%s-%d", id, k)
			w.add(name, func(c *Config) { c.Join = seeds[i : i+1] })
			w.awaitReady(name)
			if got, want := cluster(name), cluster(id); got != want {
				t.Errorf("%s is of %s, want %s", name, got, want)
			}
		}
	}
}
