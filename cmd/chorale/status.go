package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"chorale/api"
	"chorale/client"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
)

const statusLong = `Show what the nodes know of themselves and of their cluster: those of --addr, and
the other members as far as they can be reached from here.

--ready asks only whether every node of --addr serves, for scripts and health
checks; with --wait it waits for it.`

// statusTimeout bounds the answer of one node.
const statusTimeout = 3 * time.Second

type statusCmd struct {
	connection
	json  bool
	ready bool
	wait  time.Duration
}

func newStatusCmd() *cobra.Command {
	var s statusCmd
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show who leads, and how far each node is",
		Long:    statusLong,
		Example: "  chorale status\n  chorale status --ready --wait 30s && echo go",
		Args:    cobra.NoArgs,
		RunE:    s.run,
	}
	s.addFlags(cmd)
	f := cmd.Flags()
	f.BoolVar(&s.json, "json", false, "print everything as a JSON object")
	f.BoolVar(&s.ready, "ready", false, "succeed if every node of --addr serves, and say nothing")
	f.DurationVar(&s.wait, "wait", 0, "with --ready: wait so long for it")
	return cmd
}

func (s *statusCmd) run(cmd *cobra.Command, _ []string) error {
	if s.wait != 0 && !s.ready {
		return usagef("--wait needs --ready")
	}
	c, err := s.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	if s.ready {
		return s.awaitReady(cmd.Context(), c)
	}
	nodes, err := s.ask(cmd.Context(), c)
	if s.json {
		return errors.Join(printStatusJSON(cmd.OutOrStdout(), nodes), err)
	}
	if err != nil {
		return s.explain(err)
	}
	return printStatus(cmd.OutOrStdout(), nodes)
}

// nodeStatus is what became of asking one node.
type nodeStatus struct {
	address string
	status  *api.GetStatusResponse
	err     error
}

// ask asks the nodes of the client, and then the members that they name and that
// were not among them. The error says that none answered.
func (s *statusCmd) ask(ctx context.Context, c *client.Client) ([]nodeStatus, error) {
	nodes := askAll(ctx, c)
	known := map[string]bool{}
	var members []*api.MemberStatus
	for _, n := range nodes {
		if n.err == nil {
			known[n.status.NodeId] = true
			members = append(members, n.status.Members...)
		}
	}
	if len(known) == 0 {
		return nodes, nodes[0].err
	}
	var others []string
	for _, m := range members {
		if !known[m.NodeId] && m.ApiAddress != "" {
			known[m.NodeId] = true
			others = append(others, m.ApiAddress)
		}
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

func askAll(ctx context.Context, c *client.Client) []nodeStatus {
	var out []nodeStatus
	for _, address := range c.Addresses() {
		one, cancel := context.WithTimeout(ctx, statusTimeout)
		st, err := c.Status(one, address)
		cancel()
		out = append(out, nodeStatus{address, st, err})
	}
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
			case n.err != nil:
				bad = append(bad, n.err.Error())
			case n.status.NotReady != "":
				bad = append(bad, fmt.Sprintf("node %s at %s is not ready: %s", n.status.NodeId, n.address, n.status.NotReady))
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

// jsonNode is a node in the output of --json; status is what docs of the API call
// GetStatusResponse.
type jsonNode struct {
	Address string          `json:"address"`
	Error   string          `json:"error,omitempty"`
	Status  json.RawMessage `json:"status,omitempty"`
}

func printStatusJSON(w io.Writer, nodes []nodeStatus) error {
	var list []jsonNode
	for _, n := range nodes {
		j := jsonNode{Address: n.address}
		if n.err != nil {
			j.Error = n.err.Error()
		} else {
			b, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(n.status)
			if err != nil {
				return err
			}
			j.Status = b
		}
		list = append(list, j)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{"nodes": list})
}

func printStatus(w io.Writer, nodes []nodeStatus) error {
	printCluster(w, nodes)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nNODE\tROLE\tHEALTH\tLAST SEQ\tBEHIND\tTIP\tFILES\tAPI")
	last := newest(nodes)
	var members []*api.MemberStatus
	listed := map[string]bool{}
	for _, n := range nodes {
		if n.err != nil {
			continue
		}
		listed[n.status.NodeId] = true
		if len(members) == 0 {
			members = n.status.Members
		}
	}
	for _, n := range nodes {
		if n.err == nil {
			fmt.Fprintln(t, row(n, last))
		}
	}
	for _, m := range members {
		if !listed[m.NodeId] {
			fmt.Fprintf(t, "%s\t%s\tno answer (gossip: %s)\t\t\t\t\t%s\n", m.NodeId, role(m), m.Gossip, m.ApiAddress)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, n := range nodes {
		if n.err != nil {
			fmt.Fprintf(w, "\n%s: %v\n", n.address, n.err)
		}
	}
	return nil
}

// newest is the status that has come farthest.
func newest(nodes []nodeStatus) *api.GetStatusResponse {
	answered := slices.DeleteFunc(slices.Clone(nodes), func(n nodeStatus) bool { return n.err != nil })
	return slices.MaxFunc(answered, func(a, b nodeStatus) int { return cmp.Compare(a.status.LastSeq, b.status.LastSeq) }).status
}

// printCluster writes what holds for the whole cluster.
func printCluster(w io.Writer, nodes []nodeStatus) {
	s := newest(nodes)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer t.Flush()
	fmt.Fprintf(t, "cluster\t%s\n", cmp.Or(s.ClusterId, "not founded yet"))
	fmt.Fprintf(t, "leader\t%s (term %d)\n", cmp.Or(s.LeaderId, "none"), s.RaftTerm)
	stream := "empty"
	if s.LastSeq > 0 {
		stream = fmt.Sprintf("seq %s to %s, the last at %s", formatCount(s.OldestSeq), formatCount(s.LastSeq),
			time.Unix(0, s.LastTime).Format("2006-01-02 15:04:05 MST"))
	}
	fmt.Fprintf(t, "stream\t%s\n", stream)
	fmt.Fprintf(t, "topics\t%s in %s partitions\n", formatCount(s.Topics), formatCount(s.Partitions))
	fmt.Fprintf(t, "producers\t%s remembered\n", formatCount(s.Producers))
}

// row is a node's line: behind counts messages that another node has already.
func row(n nodeStatus, last *api.GetStatusResponse) string {
	s := n.status
	health := "ready"
	if s.NotReady != "" {
		health = "not ready: " + s.NotReady
	}
	files := fmt.Sprintf("%d (%s)", s.History.GetSegments(), formatBytes(s.History.GetBytes()))
	if missing := s.History.GetMissingFiles(); missing > 0 {
		files += fmt.Sprintf(", %d missing", missing)
	}
	tip := fmt.Sprintf("%s of %s", formatBytes(s.Tip.GetBytes()), formatBytes(s.Tip.GetCapacityBytes()))
	return strings.Join([]string{s.NodeId, s.State, health, formatCount(s.LastSeq), formatCount(last.LastSeq - s.LastSeq), tip, files, n.address}, "\t")
}

func role(m *api.MemberStatus) string {
	switch {
	case m.Leader:
		return "leader"
	case m.Voter:
		return "follower"
	default:
		return "not a voter"
	}
}
