package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"chorale/api"
	"chorale/client"
	"chorale/cmd/connect"
	"chorale/cmd/settings"
	"chorale/cmd/show"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

const statusLong = `Show what the nodes know of themselves and of their cluster: those of --addr, and
the other members as far as they can be reached from here.

--watch looks again every second (--every), until it is interrupted, and shows how
fast messages come. On a terminal the tables stay in place; into a file or a pipe they
follow each other, with --json an object a line.

--ready asks only whether every node of --addr serves, for scripts and health
checks; with --wait it waits for it.`

// statusTimeout bounds the answer of one node.
const statusTimeout = 3 * time.Second

type statusCmd struct {
	connect.Connection
	json  bool
	ready bool
	wait  time.Duration
	watch bool
	every time.Duration
}

func newStatusCmd() *cobra.Command {
	s := statusCmd{every: time.Second}
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show who leads, and how far each node is",
		Long:    statusLong,
		Example: "  chorale status\n  chorale status --watch --every 5s\n  chorale status --ready --wait 30s && echo go",
		Args:    cobra.NoArgs,
		RunE:    s.run,
	}
	s.AddFlags(cmd)
	f := cmd.Flags()
	f.BoolVar(&s.json, "json", false, "print everything as a JSON object")
	f.BoolVar(&s.ready, "ready", false, "succeed if every node of --addr serves, and say nothing")
	f.Var(settings.SpanOrNone(&s.wait), "wait", "with --ready: wait so long for it")
	f.BoolVarP(&s.watch, "watch", "w", false, "look again and again, until it is interrupted")
	f.Var(settings.Span(&s.every), "every", "with --watch: how often to look")
	return cmd
}

func (s *statusCmd) run(cmd *cobra.Command, _ []string) error {
	switch {
	case s.wait != 0 && !s.ready:
		return settings.Usagef("--wait needs --ready")
	case s.watch && s.ready:
		return settings.Usagef("--watch shows what --ready leaves out: one of the two; --ready --wait waits for a cluster")
	case cmd.Flags().Changed("every") && !s.watch:
		return settings.Usagef("--every needs --watch")
	}
	c, err := s.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	switch {
	case s.ready:
		return s.awaitReady(cmd.Context(), c)
	case s.watch:
		return s.keepLooking(cmd, c)
	}
	nodes, err := s.ask(cmd.Context(), c)
	if err == nil {
		err = oneCluster(nodes)
	}
	if s.json {
		return errors.Join(show.StatusJSON(cmd.OutOrStdout(), nodes), err)
	}
	if err != nil {
		return s.Explain(err)
	}
	return show.Status(cmd.OutOrStdout(), nodes)
}

// ask asks the nodes of the client, and then the members that they name and that
// were not among them. The error says that none answered.
func (s *statusCmd) ask(ctx context.Context, c *client.Client) ([]show.NodeStatus, error) {
	nodes := askAll(ctx, c)
	others, answered := unasked(nodes)
	if !answered {
		return nodes, nodes[0].Err
	}
	if len(others) == 0 {
		return nodes, nil
	}
	rest, err := client.Dial(others, client.Options{})
	if err != nil {
		return nodes, err
	}
	defer rest.Close()
	return append(nodes, askAll(ctx, rest)...), nil
}

// oneCluster refuses to show nodes of several clusters as if they were of one.
func oneCluster(nodes []show.NodeStatus) error {
	of := make(map[string]string)
	for _, n := range nodes {
		of[n.Address] = n.Status.GetClusterId()
	}
	return connect.OneCluster(of)
}

// unasked is where the members are that nodes name and that are not among them, by
// id or by address: a node that did not answer is not asked a second time.
func unasked(nodes []show.NodeStatus) (addresses []string, answered bool) {
	known := map[string]bool{"": true}
	var members []*api.MemberStatus
	for _, n := range nodes {
		known[n.Address] = true
		if n.Err == nil {
			answered, known[n.Status.NodeId] = true, true
			members = append(members, n.Status.Members...)
		}
	}
	for _, m := range members {
		if !known[m.NodeId] && !known[m.ApiAddress] {
			known[m.NodeId] = true
			addresses = append(addresses, m.ApiAddress)
		}
	}
	return addresses, answered
}

// askAll asks the nodes of the client at once.
func askAll(ctx context.Context, c *client.Client) []show.NodeStatus {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	out := make([]show.NodeStatus, len(c.Addresses()))
	var g errgroup.Group
	for i, address := range c.Addresses() {
		g.Go(func() error {
			st, err := c.Status(ctx, address)
			out[i] = show.NodeStatus{Address: address, Status: st, Err: err}
			return nil // it is told beside the others
		})
	}
	_ = g.Wait()
	return out
}

// awaitReady returns when every node serves, or says which does not and why.
func (s *statusCmd) awaitReady(ctx context.Context, c *client.Client) error {
	deadline := time.Now().Add(s.wait)
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for {
		var bad []string
		for _, n := range askAll(ctx, c) {
			switch {
			case n.Err != nil:
				bad = append(bad, n.Err.Error())
			case n.Status.NotReady != "":
				bad = append(bad, fmt.Sprintf("node %s at %s is not ready: %s", n.Status.NodeId, n.Address, n.Status.NotReady))
			}
		}
		if len(bad) == 0 {
			return nil
		}
		if !time.Now().Before(deadline) {
			return errors.New(strings.Join(bad, "\n"))
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
