package main

import (
	"time"

	"chorale/api"
	"chorale/client"
	"chorale/cmd/connect"
	"chorale/cmd/settings"
	"chorale/cmd/show"

	"github.com/spf13/cobra"
)

const explainLong = `Show what a subscription would read from a node and deliver, up to the newest
message of now, before it reads one: the node looks into the tables of its files and
the indexes of its tip alone.

A line is a range of the stream: one segment, or the stores of a range, or what is in
memory. FILES is those with something wanted, of all of the range; READ is bytes of
blocks and tables in files, DECODED bytes of the records in these blocks, DELIVER bytes
of the records that are wanted.

Figures are exact, but for: what lies in the middle of the first range, if the start
does; what of the last range of files is read before the reader goes over to the tip;
and the bytes of more than 65,536 messages in the tip. These have a ~ and bounds.

The time is that of reading, without network and client, at the rates of all
subscriptions since the node started, or at assumed ones until that was 16 MiB.

--from is that of chorale subscribe. A TIME or an AGE may read a few blocks of stores to
find where it is.`

type explainCmd struct {
	connect.Connection
	from string
	json bool
}

func newExplainCmd() *cobra.Command {
	var x explainCmd
	cmd := &cobra.Command{
		Use:     "explain FILTER...",
		Short:   "Show what a subscription would read and deliver, and how long that takes",
		Long:    explainLong,
		Example: "  chorale explain 'app/orders/**' --from -2h",
		Args:    cobra.MinimumNArgs(1),
		RunE:    x.run,
	}
	x.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&x.from, "from", "first", "`where` to start: first, tip, SEQ, TIME or -AGE")
	f.BoolVar(&x.json, "json", false, "print everything as a JSON object")
	cmd.ValidArgsFunction = connect.CompleteTopics(&x.Connection)
	settings.CompleteFlag(cmd, "from", "first", "tip")
	return cmd
}

func (x *explainCmd) run(cmd *cobra.Command, filters []string) error {
	if err := checkFilters(filters); err != nil {
		return err
	}
	p, err := settings.ParsePosition(x.from, time.Now())
	if err != nil {
		return settings.Usagef("--from: %w", err)
	}
	c, err := x.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	var all api.ExplainResponse
	for r, err := range c.Explain(cmd.Context(), client.SubscribeOptions{Filters: filters, From: startOf(p)}) {
		if err != nil {
			return x.Explain(err)
		}
		if r.Opened != nil {
			all.Opened = r.Opened
		}
		all.Parts, all.Total = append(all.Parts, r.Parts...), r.Total
	}
	if x.json {
		return show.ExplanationJSON(cmd.OutOrStdout(), &all)
	}
	return show.Explanation(cmd.OutOrStdout(), &all)
}
