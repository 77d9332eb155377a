package procs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"chorale/api"
	"chorale/internal/procs"
	"chorale/node/server"

	"google.golang.org/grpc/metadata"
)

// agree waits until each member, asked for what it knows by itself, names the same leader
// and the same members with the same votes: these voters and nobody else.
func (a *arena) agree(voters ...string) {
	a.t.Helper()
	slices.Sort(voters)
	want := "members " + strings.Join(voters, " VOTER VOTER, ") + " VOTER VOTER"
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	for {
		views := map[string]string{}
		leaders := map[string]bool{}
		same := true
		for _, n := range a.cluster.Nodes {
			view, leader, err := ownWord(ctx, n)
			if err != nil {
				view = err.Error()
			}
			views[n.Name], leaders[leader] = view, true
			same = same && view == want
		}
		if same && len(leaders) == 1 && !leaders[""] {
			return
		}
		if ctx.Err() != nil {
			a.t.Fatalf("the nodes do not agree on %s\nviews %q\nleaders %v", want, views, leaders)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// ownWord is what a node itself knows of Raft's configuration and of the list of members.
// A call that another node passed on is answered so.
func ownWord(ctx context.Context, n *procs.Node) (view, leader string, err error) {
	c, err := procs.Dial(n)
	if err != nil {
		return "", "", err
	}
	defer c.Close()
	status, err := c.Status(ctx, n.API)
	if err != nil {
		return "", "", err
	}
	var list *api.ListMembersResponse
	err = c.Cluster(metadata.AppendToOutgoingContext(ctx, server.ForwardedKey, "1"), func(ctx context.Context, c api.ClusterClient) (err error) {
		list, err = c.ListMembers(ctx, &api.ListMembersRequest{})
		return err
	})
	if err != nil {
		return "", "", err
	}
	if list.NodeId != n.Name {
		return "", "", fmt.Errorf("node %s answers in the place of %s", list.NodeId, n.Name)
	}
	var out []string
	for _, m := range list.Members {
		if m.Role != api.Member_NONE || m.Wish != api.Member_NONE {
			out = append(out, fmt.Sprintf("%s %v %v", m.NodeId, m.Role, m.Wish))
		}
	}
	slices.Sort(out)
	return "members " + strings.Join(out, ", "), status.LeaderId, nil
}
