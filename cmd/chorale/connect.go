package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"chorale/client"
	"chorale/cmd/retention"
	"chorale/cmd/settings"

	"github.com/spf13/cobra"
)

// defaultAddr is where a node listens unless it is told otherwise.
const defaultAddr = "127.0.0.1:7070"

// connection is what every command that talks to a cluster has: its flags, and
// the client made of them.
type connection struct{ addrs []string }

func (n *connection) addFlags(cmd *cobra.Command) {
	n.addrs = []string{defaultAddr}
	cmd.Flags().Var(&settings.Addresses{List: &n.addrs}, "addr", "API addresses of one or more nodes")
}

func (n *connection) dial() (*client.Client, error) {
	c, err := client.Dial(n.addrs, client.Options{})
	if err != nil {
		return nil, &settings.UsageError{Err: err}
	}
	return c, nil
}

// connect is dial for commands that would wait for a node to appear: where none
// answers at all now, a person wants to hear that at once.
func (n *connection) connect(ctx context.Context) (*client.Client, error) {
	c, err := n.dial()
	if err != nil {
		return nil, err
	}
	if _, err := c.Status(ctx, ""); err != nil {
		c.Close()
		return nil, n.explain(err)
	}
	return c, nil
}

// explain adds to an error of the client what to do about it.
func (n *connection) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, client.ErrUnavailable):
		return fmt.Errorf("%w\nIs a node running at %s? --addr or %s names others; chorale status shows how a cluster is",
			err, strings.Join(n.addrs, ", "), settings.EnvName("addr"))
	default:
		return err
	}
}

func newRetentionCmd() *cobra.Command {
	return retention.New(func() retention.Connection {
		n := new(connection)
		return retention.Connection{AddFlags: n.addFlags, Dial: n.dial, Explain: n.explain}
	})
}
