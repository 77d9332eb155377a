package procs

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"chorale/internal/procs"
	"chorale/jepsen/netns"
)

// silence is how long nothing may come across a cut before we believe that it is one.
const silence = 300 * time.Millisecond

// town is an arena in which each node has a network namespace and an address of its own.
// The clients are at the bridge between them.
type town struct {
	*arena
	net   *netns.Network
	hosts map[string]*netns.Host // by the node's name
	all   []*procs.Node          // that ever were
}

func newTown(t *testing.T, seed uint64, extra ...string) *town {
	t.Helper()
	if *judged != "" {
		t.Skip("a history is judged again")
	}
	if netns.Missing() != nil {
		t.Skip(netns.Missing())
	}
	n, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	w := &town{net: n, hosts: map[string]*netns.Host{}}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { (&procs.Cluster{Nodes: w.all}).Stop() })
	var hosts []*netns.Host
	var places []procs.Place
	for range 3 {
		h, err := n.Host()
		if err != nil {
			t.Fatal(err)
		}
		hosts, places = append(hosts, h), append(places, placeOn(h))
	}
	c, err := procs.NewAt(program, t.TempDir(), places, extra...)
	if err != nil {
		t.Fatal(err)
	}
	w.all = slices.Clone(c.Nodes)
	for i, node := range c.Nodes {
		w.hosts[node.Name] = hosts[i]
	}
	w.arena = started(t, seed, c)
	return w
}

func placeOn(h *netns.Host) procs.Place { return procs.At(h.Addr().String(), h.Start) }

// settler prepares a node on a new host, which joins when it is started.
func (w *town) settler(name string) *procs.Node {
	w.t.Helper()
	h, err := w.net.Host()
	w.must(err)
	w.hosts[name] = h
	n := w.cluster.JoinerAt(name, placeOn(h))
	w.all = append(w.all, n)
	return n
}

func (w *town) host(n *procs.Node) *netns.Host { return w.hosts[n.Name] }

func (w *town) hostsOf(nodes ...*procs.Node) (out []*netns.Host) {
	for _, n := range nodes {
		out = append(out, w.host(n))
	}
	return out
}

// reached asserts that a host can connect to an address, or that what is sent there is
// lost without a word.
func (w *town) reached(from *netns.Host, address string, want bool) {
	w.t.Helper()
	limit := patience
	if !want {
		limit = silence
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	err := from.Reaches(ctx, address)
	var e net.Error
	if lost := errors.As(err, &e) && e.Timeout(); want && err != nil || !want && !lost {
		w.t.Errorf("from %s to %s: %v, want a connection: %t", from, address, err, want)
	}
}
