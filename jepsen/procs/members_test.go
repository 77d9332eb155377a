package procs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"chorale/api"
	"chorale/client"
	"chorale/internal/procs"
)

// longestGap is how long the cluster may take to store the next message while
// members change, on a machine that has other things to do: 2 s is what is promised.
const longestGap = 5 * time.Second

// TestMembers replaces every node of a cluster, one by one, while publishers publish and
// readers recover: three, four, three nodes, three times over. A node that was removed
// is refused with its old folder, and is taken back with an empty one. It bounds how long
// publishers wait, so no other test of this package runs beside it.
func TestMembers(t *testing.T) {
	if *judged != "" {
		t.Skip("a history is judged again")
	}
	a := newArena(t, *seed)
	founders := slices.Clone(a.cluster.Nodes)
	var joiners []*procs.Node
	for _, name := range []string{"n4", "n5", "n6"} {
		n, err := a.cluster.Joiner(name)
		a.must(err)
		joiners = append(joiners, n)
	}
	everybody := slices.Concat(founders, joiners)
	t.Cleanup(func() { (&procs.Cluster{Nodes: everybody}).Stop() })

	end := a.traffic(func() []*procs.Node { return everybody })
	for i, n := range joiners {
		a.join(n)
		a.remove(founders[i])
	}
	a.note("%s comes back with its old folder", founders[0].Name)
	limit, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a.must(founders[0].Start())
	a.removedBy(limit, founders[0])
	a.note("%s comes back with an empty folder", founders[0].Name)
	a.must(os.RemoveAll(founders[0].Dir))
	again := a.cluster.Rejoiner(founders[0])
	everybody[0] = again
	a.join(again)

	end()
	a.gaps()
}

// join starts a node, kills it a few times while it joins, and waits until it votes.
func (a *arena) join(n *procs.Node) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	a.note("%s joins", n.Name)
	a.must(n.Start())
	for range a.rng.IntN(3) {
		time.Sleep(time.Duration(a.rng.Int64N(int64(800 * time.Millisecond))))
		a.note("kill %s", n.Name)
		a.must(n.Kill())
		a.must(n.Start())
	}
	a.cluster.Nodes = append(a.cluster.Nodes, n)
	a.becomes(ctx, n, api.Member_VOTER)
	a.must(n.AwaitReady(ctx, 0))
}

// becomes waits for a role that a node is to have.
func (a *arena) becomes(ctx context.Context, n *procs.Node, role api.Member_Role) {
	a.t.Helper()
	a.until(ctx, fmt.Sprintf("%s is a %v", n.Name, role), func(m *api.Member) bool { return m.GetNodeId() == n.Name && m.Role == role && m.Wish == role })
}

// change changes a member. It asks again as an operator would while nobody leads, or while
// the leader has not heard of enough nodes yet.
func (a *arena) change(ctx context.Context, n *procs.Node, what api.ChangeMemberRequest_Change) {
	a.t.Helper()
	c, err := procs.Dial(a.cluster.Nodes...)
	a.must(err)
	defer c.Close()
	for uncertain := false; ; time.Sleep(100 * time.Millisecond) {
		err := c.Cluster(ctx, func(ctx context.Context, c api.ClusterClient) error {
			_, err := c.ChangeMember(ctx, &api.ChangeMemberRequest{Change: what, NodeId: n.Name})
			return err
		})
		refused := errors.Is(err, client.ErrRefused)
		switch {
		case err == nil, refused && uncertain: // it was done already
			return
		case ctx.Err() != nil, !refused && !errors.Is(err, client.ErrUnavailable) && !errors.Is(err, client.ErrUncertain):
			a.t.Fatalf("%v of %s: %v", what, n.Name, err)
		}
		uncertain = uncertain || errors.Is(err, client.ErrUncertain)
	}
}

// remove removes a node and waits until its process has ended with the reason.
func (a *arena) remove(n *procs.Node) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	a.note("%s is removed", n.Name)
	a.cluster.Nodes = slices.DeleteFunc(a.cluster.Nodes, func(m *procs.Node) bool { return m == n })
	a.change(ctx, n, api.ChangeMemberRequest_REMOVE)
	a.removedBy(ctx, n)
	a.becomes(ctx, n, api.Member_NONE)
}

func (a *arena) removedBy(ctx context.Context, n *procs.Node) {
	a.t.Helper()
	said, err := n.Ended(ctx)
	a.must(err)
	if !strings.Contains(said, "was removed from the cluster") || !strings.Contains(said, "empty its data folder") {
		a.t.Errorf("%s ends with %q", n.Name, said)
	}
}

// ask makes a call through the nodes that are members now.
func (a *arena) ask(ctx context.Context, call func(context.Context, api.ClusterClient) error) {
	a.t.Helper()
	c, err := procs.Dial(a.cluster.Nodes...)
	a.must(err)
	defer c.Close()
	a.must(c.Cluster(ctx, call))
}

// until waits until a member is as it should be.
func (a *arena) until(ctx context.Context, what string, is func(*api.Member) bool) {
	a.t.Helper()
	for {
		var list *api.ListMembersResponse
		a.ask(ctx, func(ctx context.Context, c api.ClusterClient) (err error) {
			list, err = c.ListMembers(ctx, &api.ListMembersRequest{})
			return err
		})
		if slices.ContainsFunc(list.Members, is) {
			return
		}
		if ctx.Err() != nil {
			a.t.Fatalf("not in time: %s: %v", what, list.Members)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// gaps reports the longest time between two neighbours of the stream, by the leaders'
// clock, which is one clock here.
func (a *arena) gaps() {
	longest := time.Duration(0)
	for _, r := range a.rec.History().Reads {
		if r.Reader != finals {
			continue
		}
		for i := 1; i < len(r.Messages); i++ {
			longest = max(longest, time.Duration(r.Messages[i].Time-r.Messages[i-1].Time))
		}
	}
	a.t.Logf("the longest time between two messages: %v", longest)
	if longest > longestGap {
		a.t.Errorf("publishers waited for %v", longest)
	}
}
