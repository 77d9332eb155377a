// Package connect is what every command that talks to a cluster has in common: the
// flag that names nodes, the client made of it, and what to do when none answers.
package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"chorale/client"
	"chorale/cmd/settings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// DefaultAddr is where a node listens unless it is told otherwise.
const DefaultAddr = "127.0.0.1:7070"

// Connection is embedded by a command that talks to a cluster.
type Connection struct {
	Addrs []string // API addresses, after the flags were parsed
	// Flag is the name of the flag that Addrs are of; "" is addr.
	Flag string
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

// askTimeout bounds how long Connect waits for a node that does not answer, where another
// one does.
const askTimeout = time.Second

// Connect is Dial for commands that would wait for a node to appear, or that change
// something: where none answers at all now, a person wants to hear that at once, and
// where the nodes are of several clusters, before anything is sent to one of them.
func (n *Connection) Connect(ctx context.Context) (*client.Client, error) {
	c, err := n.Dial()
	if err != nil {
		return nil, err
	}
	of := askAll(ctx, c)
	if err := oneCluster(of, n.flag()); err != nil {
		return nil, errors.Join(err, c.Close())
	} else if len(of) > 0 {
		return c, nil
	}
	if _, err := c.Status(ctx, ""); err != nil {
		c.Close()
		return nil, n.Explain(err)
	}
	return c, nil
}

func (n *Connection) flag() string { return cmp.Or(n.Flag, "addr") }

// askAll asks all nodes at once for the ids of their clusters, by address: of those that
// answer, "" if one has none yet.
func askAll(ctx context.Context, c *client.Client) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var g errgroup.Group
	var mu sync.Mutex
	of := make(map[string]string)
	for _, address := range c.Addresses() {
		g.Go(func() error {
			st, err := c.Status(ctx, address)
			if err != nil {
				return nil // another one may do
			}
			mu.Lock()
			defer mu.Unlock()
			of[address] = st.ClusterId
			return nil
		})
	}
	_ = g.Wait()
	return of
}

// OneCluster refuses nodes of several clusters: of is the id of the cluster of each, by
// address, "" if it has none yet.
func OneCluster(of map[string]string) error { return oneCluster(of, "addr") }

func oneCluster(of map[string]string, flag string) error {
	nodes := make(map[string][]string)
	for _, address := range slices.Sorted(maps.Keys(of)) {
		if id := of[address]; id != "" {
			nodes[id] = append(nodes[id], address)
		}
	}
	if len(nodes) < 2 {
		return nil
	}
	var all []string
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		all = append(all, strings.Join(nodes[id], " and ")+" of "+id)
	}
	return settings.Usagef("the nodes are of different clusters, %s: name those of one with --%s", strings.Join(all, ", "), flag)
}

// Waiting prints to w why a command waits for nodes, a line each time.
func Waiting(w io.Writer) func(client.Wait) {
	return func(wait client.Wait) { fmt.Fprintf(w, "chorale: %v\n", wait) }
}

// answers reports whether any of the nodes can be asked what it is.
func (n *Connection) answers() bool {
	c, err := n.Dial()
	if err != nil {
		return false
	}
	defer c.Close()
	return len(askAll(context.Background(), c)) > 0
}

// Explain adds to an error of the client what to do about it.
func (n *Connection) Explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, client.ErrUnavailable) && n.answers(): // one runs, and has said what to look for
		return err
	case errors.Is(err, client.ErrUnavailable):
		return fmt.Errorf("%w\nIs a node running at %s? --%s or %s names others; chorale status shows how a cluster is",
			err, strings.Join(n.Addrs, ", "), n.flag(), settings.EnvName(n.flag()))
	default:
		return err
	}
}
