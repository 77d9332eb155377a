package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"chorale/api"
	"chorale/client"
	"chorale/cmd/connect"
	"chorale/cmd/settings"
	"chorale/cmd/show"

	"github.com/spf13/cobra"
)

const verifyLong = `Compare the data files of all nodes: which files hold which messages, by their
hashes, and whether each node has them, in their length. Nodes that --addr leaves out
are found.

Every node reads all its files once in a while by itself (serve --scrub-every); with
--deep it reads them now, 64 MiB a second, and what it finds bad is repaired. Messages
that are in no file yet are not compared.

With --against it compares messages instead, those of two clusters: of one and of
another that was founded from a backup of it, say, whose files part with the first
compaction. Both are read, from the oldest message that both keep to the newest one, or
to that of --to. Name as many nodes of each as there are: where one lacks a file, another
is read; if none can give it, that ends the comparison.

It exits with 1 if a node differs or does not answer.`

const (
	// verifyTries is how often nodes that differ are asked again, a second later: a node
	// may be a moment behind.
	verifyTries = 5
	verifyPause = time.Second
)

type verifyCmd struct {
	statusCmd
	deep    bool
	against []string
	to      uint64
}

func newVerifyCmd() *cobra.Command {
	var v verifyCmd
	cmd := &cobra.Command{
		Use:     "verify",
		Short:   "Compare the data files of all nodes",
		Long:    verifyLong,
		Example: "  chorale verify\n  chorale verify --deep --json\n  chorale verify --against restored.example.org:7070 --to 123456",
		Args:    cobra.NoArgs,
		RunE:    v.verify,
	}
	v.AddFlags(cmd)
	cmd.Flags().BoolVar(&v.json, "json", false, "print a JSON object")
	cmd.Flags().BoolVar(&v.deep, "deep", false, "let every node read all its files first")
	cmd.Flags().Var(&settings.Addresses{List: &v.against}, "against", "API addresses of another cluster: compare messages")
	cmd.Flags().Uint64Var(&v.to, "to", 0, "with --against: the last `seq` to compare; 0 is the newest that both have")
	return cmd
}

func (v *verifyCmd) verify(cmd *cobra.Command, _ []string) error {
	switch {
	case len(v.against) > 0 && v.deep:
		return settings.Usagef("--deep is of files, and --against compares messages: give one of them")
	case v.to > 0 && len(v.against) == 0:
		return settings.Usagef("--to needs --against")
	}
	if len(v.against) > 0 {
		return v.compare(cmd)
	}
	c, err := v.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	known, err := v.ask(cmd.Context(), c)
	if err != nil {
		return v.Explain(err)
	}
	var nodes []show.NodeFiles
	var differences []show.Difference
	for try := 0; ; try++ {
		nodes = nodes[:0]
		for _, n := range known {
			// Reading takes long: meanwhile a node that was asked before has gone on. So nodes
			// that differ then are asked again for what there is, as without --deep.
			nodes = append(nodes, v.files(cmd.Context(), n, v.deep && try == 0))
		}
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		differences = show.Compare(nodes)
		if len(differences) == 0 || foundBad(nodes) || try == verifyTries {
			break
		}
		select {
		case <-time.After(verifyPause):
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		}
	}
	print := show.Verify
	if v.json {
		print = show.VerifyJSON
	}
	return errors.Join(print(cmd.OutOrStdout(), nodes, differences), verdict(nodes, differences))
}

// foundBad reports whether this very question has found a file bad: it is being repaired,
// so that the next one might not tell of it.
func foundBad(nodes []show.NodeFiles) bool {
	for _, n := range nodes {
		if slices.ContainsFunc(n.Files, func(f *api.FileCheck) bool { return f.State == api.FileCheck_BAD }) {
			return true
		}
	}
	return false
}

// verdict is why the nodes do not prove to be the same, and what to do.
func verdict(nodes []show.NodeFiles, differences []show.Difference) error {
	clusters := make(map[string]string)
	for _, n := range nodes {
		clusters[n.Address] = n.Cluster
	}
	if err := connect.OneCluster(clusters); err != nil {
		return err
	}
	switch n := len(differences); {
	case n > 0 && show.OnlyLayout(differences):
		return fmt.Errorf("%d differences, all in which files hold the messages: some nodes are one step of compaction ahead of others; run chorale verify again in a minute", n)
	case n > 0:
		return fmt.Errorf("%d differences: nodes fetch what they lack from each other, so run chorale verify again in a minute; "+
			"if a file stays missing, chorale status says why", n)
	}
	for _, n := range nodes {
		if n.Err != nil {
			return fmt.Errorf("the node at %s did not answer, so it is not compared: start it, remove it if it is a member (chorale members remove), or leave it out of --addr: %w", n.Address, n.Err)
		}
	}
	return nil
}

// files asks one node for all pages; deep: it reads its files first.
func (v *verifyCmd) files(ctx context.Context, known show.NodeStatus, deep bool) show.NodeFiles {
	out := show.NodeFiles{Address: known.Address, Node: known.Status.GetNodeId(), Err: known.Err}
	if out.Err != nil {
		return out
	}
	c, err := client.Dial([]string{known.Address}, client.Options{})
	if err != nil {
		out.Err = err
		return out
	}
	defer c.Close()
	q := &api.VerifyFilesRequest{Deep: deep}
	for more := true; more && out.Err == nil; {
		out.Err = c.Cluster(ctx, func(ctx context.Context, node api.ClusterClient) error {
			r, err := node.VerifyFiles(ctx, q)
			if err != nil {
				return err
			}
			out.Files = append(out.Files, r.Files...)
			out.Cluster, out.Oldest, out.End, more = r.ClusterId, r.OldestSeq, r.EndSeq, r.More
			if n := len(r.Files); n > 0 {
				q.AfterSeq, q.AfterHash = r.Files[n-1].FirstSeq, r.Files[n-1].Hash
			}
			return nil
		})
	}
	return out
}
