// Package members is the command that shows and changes who belongs to a cluster.
package members

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"chorale/api"
	"chorale/client"
	"chorale/cmd/connect"

	"github.com/spf13/cobra"
)

const membersLong = `Show and change who belongs to the cluster. Any node can be asked; the leader does it.

A node joins by itself: started with an empty data folder and --join, it is let in as a
non-voter, copies what it lacks, and votes once log and files have caught up; with
--non-voter it stays a read replica. "add" lets the cluster choose the role instead,
before the node is started.

A node that is removed neither votes nor serves any more, and ends; with its old data
folder it is refused for good. With an empty one it joins again as a new node. So a
node whose disk is lost is removed first, and then started with an empty folder.

Nobody is removed because it is silent, unless the leader runs with serve
--remove-dead-after. What would leave the cluster without a majority of living voters
is refused.`

type membersCmd struct {
	connect.Connection
	json     bool
	nonVoter bool
}

// New makes the command; each of its parts connects by itself.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "members",
		Short: "Show and change which nodes belong to the cluster",
		Long:  membersLong,
		Example: "  chorale members list\n  chorale members remove n3\n  chorale members add n4 --non-voter\n" +
			"  chorale members transfer-leadership n2",
	}
	add := func(sub *cobra.Command, m *membersCmd, run func(cmd *cobra.Command, args []string) error) {
		sub.RunE = run
		m.AddFlags(sub)
		sub.Flags().BoolVar(&m.json, "json", false, "print a JSON object")
		if sub.Args == nil {
			sub.Args = cobra.ExactArgs(1)
			sub.ValidArgsFunction = m.complete
		}
		cmd.AddCommand(sub)
	}
	var list, invite, remove, promote, demote, transfer membersCmd
	show := &cobra.Command{
		Use: "list", Short: "Show role, health and address of each node", Args: cobra.NoArgs,
		Long: "Show what each node is and is meant to be, whether gossip believes it alive, and how far\n" +
			"the leader knows it to be. Nodes that were removed are listed as long as they are remembered.\n\n" +
			"GOSSIP is alive, dead (it vanished, or ended with an error), left (it ended gently), drained\n(chorale drain ended it), or unknown.",
	}
	add(show, &list, list.list)
	invitation := &cobra.Command{
		Use: "add ID", Short: "Choose the role of a node that is to join",
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		Long: "Choose the role that a node has when it joins. Then start it, with an empty data folder and\n--join. Without this it joins as a voter, or as its own --non-voter says.",
	}
	add(invitation, &invite, func(cmd *cobra.Command, args []string) error {
		if invite.nonVoter {
			return invite.change(cmd, args[0], api.ChangeMemberRequest_ADD_NON_VOTER, "may join as a non-voter: start it with an empty data folder and --join")
		}
		return invite.change(cmd, args[0], api.ChangeMemberRequest_ADD, "may join as a voter: start it with an empty data folder and --join")
	})
	invitation.Flags().BoolVar(&invite.nonVoter, "non-voter", false, "as a read replica that never votes")
	add(&cobra.Command{Use: "remove ID", Short: "Remove a node for good",
		Long: "Remove a node for good: it ends, and with its data folder it is never taken back. Its disk\nmay be lost; then it joins again with an empty folder, as a new node under its old id.",
	}, &remove, func(cmd *cobra.Command, args []string) error {
		return remove.change(cmd, args[0], api.ChangeMemberRequest_REMOVE, "is removed: it ends, and is taken back with an empty data folder only")
	})
	add(&cobra.Command{Use: "promote ID", Short: "Let a node vote, once it has caught up",
		Long: "Let a non-voter vote, as soon as its log and its files have caught up and stayed so.",
	}, &promote, func(cmd *cobra.Command, args []string) error {
		return promote.change(cmd, args[0], api.ChangeMemberRequest_PROMOTE, "votes as soon as it has caught up")
	})
	add(&cobra.Command{Use: "demote ID", Short: "Make a voter a read replica",
		Long: "Take a node's vote. It keeps its data and serves subscriptions; it does not lead any more.",
	}, &demote, func(cmd *cobra.Command, args []string) error {
		return demote.change(cmd, args[0], api.ChangeMemberRequest_DEMOTE, "is to be a non-voter")
	})
	hand := &cobra.Command{
		Use: "transfer-leadership [ID]", Short: "Let another voter lead", Args: cobra.MaximumNArgs(1), ValidArgsFunction: transfer.complete,
		Long: "Let a voter lead that has caught up: the one of this name, or the one that has come\nfarthest. Publishers wait for a moment.",
	}
	add(hand, &transfer, transfer.transfer)
	return cmd
}

func (m *membersCmd) ask(ctx context.Context) (out *api.ListMembersResponse, err error) {
	c, err := m.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	out, err = listMembers(ctx, c)
	return out, m.Explain(err)
}

func listMembers(ctx context.Context, c *client.Client) (out *api.ListMembersResponse, err error) {
	err = c.Cluster(ctx, func(ctx context.Context, n api.ClusterClient) (err error) {
		out, err = n.ListMembers(ctx, &api.ListMembersRequest{})
		return err
	})
	return out, err
}

func (m *membersCmd) list(cmd *cobra.Command, _ []string) error {
	out, err := m.ask(cmd.Context())
	if err != nil {
		return err
	}
	if m.json {
		return printJSON(cmd.OutOrStdout(), out)
	}
	return print(cmd.OutOrStdout(), out)
}

// explain leaves a refusal as it is: it says what to do.
func (m *membersCmd) explain(err error) error {
	switch {
	case errors.Is(err, client.ErrUnavailable):
		return m.Explain(err)
	case errors.Is(err, client.ErrUncertain):
		return fmt.Errorf("%w\nIt may have been done, or may still be done once a majority runs: chorale members list shows what is WANTED and who leads;\nask again only when it shows a leader, and that nothing was done", err)
	}
	return err
}

func (m *membersCmd) change(cmd *cobra.Command, id string, what api.ChangeMemberRequest_Change, done string) error {
	c, err := m.Connect(cmd.Context())
	if err != nil {
		return err
	}
	defer c.Close()
	err = c.Cluster(cmd.Context(), func(ctx context.Context, n api.ClusterClient) error {
		_, err := n.ChangeMember(ctx, &api.ChangeMemberRequest{Change: what, NodeId: id})
		return api.Once(err)
	})
	if err != nil {
		return m.explain(err)
	}
	return m.tell(cmd.OutOrStdout(), id, done)
}

// tell prints what was done with a node: a sentence, or an object for a program.
func (m *membersCmd) tell(w io.Writer, id, done string) error {
	if m.json {
		return json.NewEncoder(w).Encode(struct {
			Node string `json:"node_id"`
			Done string `json:"done"`
		}{id, done})
	}
	_, err := fmt.Fprintf(w, "node %s %s\n", id, done)
	return err
}

func (m *membersCmd) transfer(cmd *cobra.Command, args []string) error {
	c, err := m.Connect(cmd.Context())
	if err != nil {
		return err
	}
	defer c.Close()
	q, leader := &api.TransferLeadershipRequest{NodeId: strings.Join(args, "")}, ""
	err = c.Cluster(cmd.Context(), func(ctx context.Context, n api.ClusterClient) error {
		r, err := n.TransferLeadership(ctx, q)
		leader = r.GetLeaderId()
		return api.Once(err)
	})
	if err != nil {
		return m.explain(err)
	}
	if err := m.awaitLeader(cmd.Context(), leader); err != nil {
		return err
	}
	return m.tell(cmd.OutOrStdout(), leader, "leads")
}

// leadWait is longer than the one that is to lead takes to be elected.
const leadWait = 10 * time.Second

// awaitLeader waits until the cluster has this leader, so that the next command finds it:
// that Raft has told a node to stand for election is not yet that it leads.
func (m *membersCmd) awaitLeader(ctx context.Context, leader string) error {
	tick := time.NewTicker(endCheck)
	defer tick.Stop()
	for late := time.After(leadWait); ; {
		if list, err := m.ask(ctx); err == nil && list.LeaderId == leader {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-late:
			return fmt.Errorf("node %s was chosen, and does not lead within %v: chorale members list shows who does", leader, leadWait)
		}
	}
}

// complete offers the ids of the nodes as the one argument.
func (m *membersCmd) complete(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	return connect.CompleteOne(connect.Complete(&m.Connection, func(ctx context.Context, c *client.Client, word string) ([]string, error) {
		list, err := listMembers(ctx, c)
		var ids []string
		for _, n := range list.GetMembers() {
			if strings.HasPrefix(n.NodeId, word) && n.Wish != api.Member_NONE {
				ids = append(ids, n.NodeId)
			}
		}
		return ids, err
	}))(cmd, args, word)
}
