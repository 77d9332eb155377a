// Package connect is what every command that talks to a cluster has in common: the
// flag that names nodes, the client made of it, and what to do when none answers.
package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"chorale/client"
	"chorale/cmd/settings"

	"github.com/spf13/cobra"
)

// DefaultAddr is where a node listens unless it is told otherwise.
const DefaultAddr = "127.0.0.1:7070"

// Connection is embedded by a command that talks to a cluster.
type Connection struct {
	Addrs []string // API addresses, after the flags were parsed
}

// AddFlags adds --addr.
func (n *Connection) AddFlags(cmd *cobra.Command) {
	n.Addrs = []string{DefaultAddr}
	cmd.Flags().Var(&settings.Addresses{List: &n.Addrs}, "addr", "API addresses of one or more nodes")
}

// Dial makes a client and waits for nobody.
func (n *Connection) Dial() (*client.Client, error) {
	c, err := client.Dial(n.Addrs, client.Options{})
	if err != nil {
		return nil, &settings.UsageError{Err: err}
	}
	return c, nil
}

// Connect is Dial for commands that would wait for a node to appear: where none
// answers at all now, a person wants to hear that at once.
func (n *Connection) Connect(ctx context.Context) (*client.Client, error) {
	c, err := n.Dial()
	if err != nil {
		return nil, err
	}
	if _, err := c.Status(ctx, ""); err != nil {
		c.Close()
		return nil, n.Explain(err)
	}
	return c, nil
}

// Waiting prints to w why a command waits for nodes, a line each time.
func Waiting(w io.Writer) func(client.Wait) {
	return func(wait client.Wait) { fmt.Fprintf(w, "chorale: %v\n", wait) }
}

// Explain adds to an error of the client what to do about it.
func (n *Connection) Explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, client.ErrUnavailable):
		return fmt.Errorf("%w\nIs a node running at %s? --addr or %s names others; chorale status shows how a cluster is",
			err, strings.Join(n.Addrs, ", "), settings.EnvName("addr"))
	default:
		return err
	}
}
