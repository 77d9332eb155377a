package members

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"chorale/api"
	"chorale/client"
	"chorale/cmd/connect"

	"github.com/spf13/cobra"
)

const drainLong = `End a node for maintenance without anybody noticing: it hands leadership over, answers
the publishes that it took, sends its subscribers to other nodes, and stops. It stays a
member, and goes on where it was when it is started again. To take it out of the
cluster, see chorale members remove.

Refused where the other voters would have no majority. The command returns when the node
has ended.`

// NewDrain makes the command.
func NewDrain() *cobra.Command {
	var m membersCmd
	cmd := &cobra.Command{
		Use: "drain ID", Short: "Stop a node gently, for maintenance", Long: drainLong,
		Example: "  chorale drain n2", Args: cobra.ExactArgs(1), RunE: m.drain, ValidArgsFunction: m.complete,
	}
	m.AddFlags(cmd)
	cmd.Flags().BoolVar(&m.json, "json", false, "print a JSON object")
	return cmd
}

// drain finds the node's address in the list of members, and asks the node itself.
func (m *membersCmd) drain(cmd *cobra.Command, args []string) error {
	list, err := m.ask(cmd.Context())
	if err != nil {
		return err
	}
	for _, n := range list.Members {
		if n.NodeId != args[0] {
			continue
		}
		if n.ApiAddress == "" || n.Gossip != "alive" {
			return fmt.Errorf("node %s does not run, as far as gossip knows (%s)", n.NodeId, n.Gossip)
		}
		node := connect.Connection{Addrs: []string{n.ApiAddress}}
		c, err := node.Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		var last string
		if err := c.Cluster(cmd.Context(), func(ctx context.Context, k api.ClusterClient) error {
			r, err := k.Drain(ctx, &api.DrainRequest{NodeId: n.NodeId})
			last = r.GetGossipAddress()
			return err
		}); err != nil {
			if errors.Is(err, client.ErrUnavailable) && !listens(cmd.Context(), n.ApiAddress) {
				return fmt.Errorf("%w\nNode %s seems to have ended just now: chorale members list will show it", err, n.NodeId)
			}
			return err
		}
		if err := awaitEnd(cmd.Context(), n, list.Members, last); err != nil {
			return err
		}
		return m.tell(cmd.OutOrStdout(), n.NodeId, "has ended; it stays a member")
	}
	return fmt.Errorf("node %s is not known here: chorale members list shows who is", args[0])
}

const (
	// endWait is longer than a node takes to end, even one whose disk hangs.
	endWait = 30 * time.Second
	// endCheck is how often the others are asked, endAnswer how long one has for it.
	endCheck  = 100 * time.Millisecond
	endAnswer = 2 * time.Second
)

// awaitEnd waits until a node has said goodbye to the others, or does not answer where
// none of them can be asked; and then until nobody listens at the last address that it
// had, if that can be seen from here.
func awaitEnd(ctx context.Context, n *api.Member, all []*api.Member, last string) error {
	var others []string
	for _, m := range all {
		if m.NodeId != n.NodeId && m.ApiAddress != "" && m.Gossip == "alive" {
			others = append(others, m.ApiAddress)
		}
	}
	tick := time.NewTicker(endCheck)
	defer tick.Stop()
	for late := time.After(endWait); !ended(ctx, n, others) || listens(ctx, last); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-late:
			return fmt.Errorf("node %s was told to end and has not ended within %v: its log says what it waits for", n.NodeId, endWait)
		}
	}
	return nil
}

func ended(ctx context.Context, n *api.Member, others []string) bool {
	ctx, cancel := context.WithTimeout(ctx, endAnswer)
	defer cancel()
	var list *api.ListMembersResponse
	ask := func(addresses []string) error {
		c, err := client.Dial(addresses, client.Options{})
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Cluster(ctx, func(ctx context.Context, k api.ClusterClient) (err error) {
			list, err = k.ListMembers(ctx, &api.ListMembersRequest{})
			return err
		})
	}
	if len(others) == 0 || ask(others) != nil {
		return ask([]string{n.ApiAddress}) != nil
	}
	i := slices.IndexFunc(list.Members, func(m *api.Member) bool { return m.NodeId == n.NodeId })
	return i < 0 || list.Members[i].Gossip != "alive"
}

func listens(ctx context.Context, address string) bool {
	d := net.Dialer{Timeout: endAnswer}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
