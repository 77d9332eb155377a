package procs

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"chorale/api"
	"chorale/internal/procs"
)

// middling leaves some dozen segments at the rate of the long form too, and sends a
// snapshot to whoever joins.
var middling = []string{"--segment-size", "1MiB", "--tip-size", "4MiB", "--snapshot-size", "4MiB"}

// TestLife is the life of a cluster whose machines have an address each: three, five and
// three nodes, every one of the first three replaced, one moved to another address.
// Whoever was removed has its machine switched off: it does not even refuse.
func TestLife(t *testing.T) {
	t.Parallel()
	w := newTown(t, *seed, middling...)
	founders := slices.Clone(w.cluster.Nodes)
	var joiners []*procs.Node
	for _, name := range []string{"n4", "n5", "n6"} {
		joiners = append(joiners, w.settler(name))
	}
	l := w.begin(w.all...)
	l.step("three nodes", func() {})
	l.step("n4 joins", func() { w.arrive(joiners[0]) })
	l.step("n5 joins: five nodes", func() { w.arrive(joiners[1]) })
	l.step("n4 moves", func() { l.knows(w.move(joiners[0])) })
	out := func() {
		n := w.oldest(&founders)
		l.step(fmt.Sprintf("%s is replaced: removed, and switched off", n.Name), func() { w.leave(n) })
	}
	out()
	l.step("n6 joins: five nodes", func() { w.arrive(joiners[2]) })
	out()
	out()
	w.agree("n4", "n5", "n6")
	l.end()
}

// oldest takes one of the founders away: the one that leads, if one does.
func (w *town) oldest(founders *[]*procs.Node) *procs.Node {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	n, err := w.cluster.Leader(ctx)
	w.must(err)
	i := max(slices.Index(*founders, n), 0)
	n = (*founders)[i]
	*founders = slices.Delete(*founders, i, i+1)
	return n
}

// arrive starts a node that joins, and waits until it votes.
func (w *town) arrive(n *procs.Node) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	n.Meet(w.cluster.Nodes...)
	w.must(n.Start())
	w.cluster.Nodes = append(w.cluster.Nodes, n)
	w.becomes(ctx, n, api.Member_VOTER)
	w.must(n.AwaitReady(ctx, 0))
}

// leave removes a node and switches its machine off.
func (w *town) leave(n *procs.Node) {
	w.t.Helper()
	w.remove(n)
	w.must(w.net.Unplug(w.host(n)))
	w.reached(w.net.Clients(), n.API, false)
}

// move stops a node, gives its machine another address, and starts it there.
func (w *town) move(n *procs.Node) *procs.Node {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	n.Stop()
	w.must(w.host(n).Move())
	moved := n.Moved(placeOn(w.host(n)))
	i := slices.Index(w.cluster.Nodes, n)
	moved.Meet(slices.Delete(slices.Clone(w.cluster.Nodes), i, i+1)...)
	w.cluster.Nodes[i] = moved
	w.all = append(w.all, moved)
	w.must(moved.Start())
	w.must(moved.AwaitReady(ctx, 0))
	w.reached(w.net.Clients(), moved.API, true)
	w.reached(w.net.Clients(), n.API, false)
	return moved
}

// TestWipes adds a node, promotes it and removes another one, round after round. The one
// that was removed is refused with its old folder, and is the next that is added, with an
// empty one. All nodes name the same members throughout.
func TestWipes(t *testing.T) {
	t.Parallel()
	w := newTown(t, *seed, middling...)
	absent := w.settler("n4")
	l := w.begin(w.all...)
	for round := range *rounds {
		leaves := w.cluster.Nodes[0] // who has been there for the longest time
		if round%3 == 0 {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			leader, err := w.cluster.Leader(ctx)
			cancel()
			w.must(err)
			leaves = leader
		}
		l.step(fmt.Sprintf("%d: %s in, %s out", round+1, absent.Name, leaves.Name), func() { w.add(absent); w.wipe(leaves) })
		absent = w.cluster.Rejoiner(leaves)
		w.all = append(w.all, absent)
	}
	l.end()
}

func (w *town) names() (out []string) {
	for _, n := range w.cluster.Nodes {
		out = append(out, n.Name)
	}
	return out
}

// add lets a node join without a vote, and then gives it one.
func (w *town) add(n *procs.Node) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	w.change(ctx, n, api.ChangeMemberRequest_ADD_NON_VOTER)
	n.With("--non-voter")
	n.Meet(w.cluster.Nodes...)
	w.must(n.Start())
	w.cluster.Nodes = append(w.cluster.Nodes, n)
	w.becomes(ctx, n, api.Member_NON_VOTER)
	w.change(ctx, n, api.ChangeMemberRequest_PROMOTE)
	w.becomes(ctx, n, api.Member_VOTER)
	w.must(n.AwaitReady(ctx, 0))
	w.agree(w.names()...)
}

// wipe removes a node, which comes back with its old folder and is refused, and empties
// the folder.
func (w *town) wipe(n *procs.Node) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	w.remove(n)
	w.agree(w.names()...)
	w.note("%s comes back with its old folder", n.Name)
	n.Meet(w.cluster.Nodes...)
	w.must(n.Start())
	w.removedBy(ctx, n)
	w.agree(w.names()...)
	w.must(os.RemoveAll(n.Dir))
}
