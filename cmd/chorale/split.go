package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"chorale/bench/layout"
	"chorale/cmd/connect"
	"chorale/cmd/settings"
	"chorale/cmd/show"
	"chorale/compactor"

	"github.com/spf13/cobra"
)

const splitLong = `Compare ways to lay topics out over stores. Volumes come from a sample stream (the
format of import; a message counts min(size, 1 MiB) + 32 bytes), or with --live from
a running cluster.

  fixed3       topics with the same first three levels share a store
  partition    a store a topic partition
  topic        a store a topic
  adaptive     what Chorale does: large topics alone, small relatives together
  lower_bound  a waste over topics that no layout with that many stores undercuts

Waste is what a reader of one topic, or of one subtree, must read besides what it
asked for.`

type splitCmd struct {
	connect.Connection
	live   bool
	stores string
	json   bool
	html   string
}

func newSplitCmd() *cobra.Command {
	p := splitCmd{}
	cmd := &cobra.Command{
		Use:   "split FILE | --live",
		Short: "Compare layouts of topics over stores",
		Long:  splitLong,
		Example: `  chorale split testdata/forge.tsv.zst --html layout.html
  chorale split --live --stores 500 --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: p.run,
	}
	p.AddFlags(cmd)
	f := cmd.Flags()
	f.BoolVar(&p.live, "live", false, "take the volumes from the cluster at --addr")
	f.StringVar(&p.stores, "stores", layout.Heuristic, "budget of adaptive: so `many`, or fixed3 for as many as fixed3 opens")
	f.BoolVar(&p.json, "json", false, "print JSON")
	f.StringVar(&p.html, "html", "", "write a page with the trees side by side to this `file`")
	return cmd
}

func (p *splitCmd) run(cmd *cobra.Command, args []string) error {
	if p.live == (len(args) == 1) {
		return settings.Usagef("want a FILE or --live")
	}
	step := func(what string) { fmt.Fprintf(cmd.ErrOrStderr(), "%s …\n", what) }
	if p.json || !show.IsTerminal(cmd.ErrOrStderr()) {
		step = func(string) {}
	}
	step("reading")
	stream, volumes, err := p.volumes(cmd.Context(), args)
	if err != nil {
		return err
	}
	if len(volumes) == 0 {
		return fmt.Errorf("%s has no topics to split", stream)
	}
	tree := compactor.NewTree(volumes)
	budget, err := layout.ParseBudget(p.stores, tree)
	if err != nil {
		return settings.Usagef("--stores: %w", err)
	}
	c, err := layout.Compare(cmd.Context(), stream, tree, budget, step)
	if err != nil {
		return err
	}
	if p.html != "" {
		if err := writePage(p.html, c); err != nil {
			return err
		}
	}
	if p.json {
		return c.WriteJSON(cmd.OutOrStdout())
	}
	return c.WriteTable(cmd.OutOrStdout())
}

func (p *splitCmd) volumes(ctx context.Context, args []string) (string, []compactor.Volume, error) {
	if p.live {
		return p.liveVolumes(ctx)
	}
	f, err := os.Open(args[0])
	if err != nil {
		return "", nil, &settings.UsageError{Err: err}
	}
	defer f.Close()
	stream := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(filepath.Base(args[0]), ".zst"), ".gz"), ".tsv")
	volumes, err := layout.Volumes(ctx, f)
	if err != nil {
		err = fmt.Errorf("%s: %w", args[0], err)
	}
	return stream, volumes, err
}

func (p *splitCmd) liveVolumes(ctx context.Context) (string, []compactor.Volume, error) {
	c, err := p.Dial()
	if err != nil {
		return "", nil, err
	}
	defer c.Close()
	var volumes []compactor.Volume
	for t, err := range c.Topics(ctx) {
		if err != nil {
			return "", nil, p.Explain(err)
		}
		volumes = append(volumes, compactor.Volume{Topic: t.Name, Bytes: t.Bytes, Messages: t.Messages})
	}
	return "the cluster", volumes, nil
}

func writePage(name string, c layout.Comparison) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	w := bufio.NewWriter(f)
	if err := c.WritePage(w); err != nil {
		return err
	}
	return w.Flush()
}
