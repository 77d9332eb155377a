package procs

import (
	"context"
	"testing"
	"time"

	"chorale/internal/procs"
	"chorale/jepsen/netns"
)

// partition is one harm to the network. It says which nodes are lost to which.
type partition struct {
	what string
	// cut does it; a leads, b and c follow.
	cut func(w *town, a, b, c *netns.Host) error
	// lost lists pairs of which the first cannot connect to the second; 3 is the clients.
	lost [][2]int
	// left says that two nodes and the clients still make a majority among them.
	left bool
}

var partitions = []partition{
	{"the leader is cut off from the followers", func(w *town, a, b, c *netns.Host) error {
		return w.net.Part([]*netns.Host{a}, []*netns.Host{b, c})
	}, [][2]int{{0, 1}, {0, 2}, {1, 0}, {2, 0}}, true},
	{"a follower is cut off from everybody", func(w *town, a, b, c *netns.Host) error {
		return w.net.Unplug(b)
	}, [][2]int{{1, 0}, {1, 2}, {0, 1}, {2, 1}, {3, 1}}, true},
	{"the leader and a follower are cut off from each other", func(w *town, a, b, c *netns.Host) error {
		return w.net.Part([]*netns.Host{a}, []*netns.Host{b})
	}, [][2]int{{0, 1}, {1, 0}}, true},
	{"the leader is not heard by the followers", func(w *town, a, b, c *netns.Host) error {
		return first(w.net.Cut(a, b), w.net.Cut(a, c))
	}, [][2]int{{0, 1}, {0, 2}, {1, 0}, {2, 0}}, true},
	{"all are cut off from each other", func(w *town, a, b, c *netns.Host) error {
		return w.net.Part([]*netns.Host{a}, []*netns.Host{b}, []*netns.Host{c})
	}, [][2]int{{0, 1}, {0, 2}, {1, 0}, {1, 2}, {2, 0}, {2, 1}}, false},
	{"the leader is cut off from everybody", func(w *town, a, b, c *netns.Host) error {
		return w.net.Unplug(a)
	}, [][2]int{{0, 1}, {0, 2}, {1, 0}, {2, 0}, {3, 0}}, true},
	{"the leader does not hear the followers", func(w *town, a, b, c *netns.Host) error {
		return first(w.net.Cut(b, a), w.net.Cut(c, a))
	}, [][2]int{{0, 1}, {0, 2}, {1, 0}, {2, 0}}, true},
	{"the followers are cut off from each other", func(w *town, a, b, c *netns.Host) error {
		return w.net.Part([]*netns.Host{b}, []*netns.Host{c})
	}, [][2]int{{1, 2}, {2, 1}}, true},
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestPartitions cuts nodes off from each other and from the clients, in turn, while
// publishers publish and readers read. Each cut is shown to be one, and as long as there
// is a majority it stores what is published behind the cut.
func TestPartitions(t *testing.T) {
	t.Parallel()
	w := newTown(t, *seed, small...)
	end := w.traffic(w.shuffled)
	for round := range *rounds {
		w.part(round, partitions[round%len(partitions)])
	}
	end()
}

// part does one harm for a while and heals it.
func (w *town) part(round int, p partition) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	pause := func(most time.Duration) { time.Sleep(time.Duration(w.rng.Int64N(int64(most)))) }
	pause(time.Second)
	leader, err := w.cluster.Leader(ctx)
	w.must(err)
	nodes := []*procs.Node{leader}
	for _, n := range w.shuffled() {
		if n != leader {
			nodes = append(nodes, n)
		}
	}
	hosts := append(w.hostsOf(nodes...), w.net.Clients())
	check := func(cut bool) {
		for _, pair := range p.lost {
			w.reached(hosts[pair[0]], nodes[pair[1]].API, !cut)
		}
	}
	check(false)
	w.note("round %d: %s (%s leads, then %s, %s)", round, p.what, nodes[0].Name, nodes[1].Name, nodes[2].Name)
	w.must(p.cut(w, hosts[0], hosts[1], hosts[2]))
	check(true)
	if p.left {
		w.stores(ctx, publishers+1+round)
	}
	pause(2 * time.Second)
	w.note("round %d: healed", round)
	w.must(w.net.Heal())
	check(false)
	for _, n := range w.cluster.Nodes {
		w.must(n.AwaitReady(ctx, 0))
	}
}

// stores publishes a message behind the cut and waits until it is stored.
func (w *town) stores(ctx context.Context, publisher int) {
	w.t.Helper()
	p, err := newPublisher(w.rec, publisher, few, w.shuffled()...)
	w.must(err)
	w.must(p.publish(ctx, p.draw()))
	w.close(p)
}
