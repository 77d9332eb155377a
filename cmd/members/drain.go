package members

import (
	"context"
	"fmt"

	"chorale/api"
	"chorale/cmd/connect"

	"github.com/spf13/cobra"
)

const drainLong = `End a node for maintenance without anybody noticing: it hands leadership over, answers
the publishes that it took, sends its subscribers to other nodes, and stops. It stays a
member, and goes on where it was when it is started again. To take it out of the
cluster, see chorale members remove.

Refused where the other voters would have no majority.`

// NewDrain makes the command.
func NewDrain() *cobra.Command {
	var m membersCmd
	cmd := &cobra.Command{
		Use: "drain ID", Short: "Stop a node gently, for maintenance", Long: drainLong,
		Example: "  chorale drain n2", Args: cobra.ExactArgs(1), RunE: m.drain, ValidArgsFunction: m.complete,
	}
	m.AddFlags(cmd)
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
		if err := c.Cluster(cmd.Context(), func(ctx context.Context, k api.ClusterClient) error {
			_, err := k.Drain(ctx, &api.DrainRequest{NodeId: n.NodeId})
			return err
		}); err != nil {
			return node.Explain(err)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "node %s ends; it stays a member\n", n.NodeId)
		return err
	}
	return fmt.Errorf("node %s is not known here: chorale members list shows who is", args[0])
}
