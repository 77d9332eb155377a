package main

import (
	"bufio"
	"encoding/json"

	"chorale/cmd/connect"
	"chorale/cmd/settings"
	"chorale/cmd/show"

	"github.com/spf13/cobra"
)

const topicsLong = `Show the topics that the filters match (all, without any) as a tree, with the
messages and encoded bytes of each and of everything below it: all that was ever
stored, also what retention has let go since.

--json prints a line per topic instead: name, messages, bytes, last_seq; and gone_before,
the seq before which a policy of its subtree has let everything go.`

type topicsCmd struct {
	connect.Connection
	depth int
	sort  settings.Choice
	json  bool
}

func newTopicsCmd() *cobra.Command {
	t := topicsCmd{sort: settings.Choice{Value: show.ByName, Allowed: []string{show.ByName, show.ByMessages, show.ByBytes}}}
	cmd := &cobra.Command{
		Use:     "topics [FILTER...]",
		Short:   "Show the tree of topics and its volumes",
		Long:    topicsLong,
		Example: "  chorale topics --depth 1 --sort bytes\n  chorale topics 'moby/docs/**' --depth 0",
		RunE:    t.run,
	}
	t.AddFlags(cmd)
	f := cmd.Flags()
	f.IntVar(&t.depth, "depth", 2, "`levels` to show; 0 means all")
	f.Var(&t.sort, "sort", "order of the branches of a level")
	f.BoolVar(&t.json, "json", false, "print a JSON object per topic")
	cmd.ValidArgsFunction = connect.CompleteTopics(&t.Connection)
	return cmd
}

// jsonTopic is a topic on stdout.
type jsonTopic struct {
	Name     string `json:"name"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	LastSeq  uint64 `json:"last_seq"`
	Gone     uint64 `json:"gone_before,omitempty"`
}

func (t *topicsCmd) run(cmd *cobra.Command, filters []string) error {
	for _, flag := range []string{"depth", "sort"} {
		if t.json && cmd.Flags().Changed(flag) {
			return settings.Usagef("--%s is of the tree, and --json prints every topic: give one of them", flag)
		}
	}
	if t.depth < 0 {
		return settings.Usagef("--depth %d: want 0 or more", t.depth)
	}
	if err := checkFilters(filters); err != nil && len(filters) > 0 {
		return err
	}
	c, err := t.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	out := bufio.NewWriter(cmd.OutOrStdout())
	encoder, root := json.NewEncoder(out), &show.Tree{}
	encoder.SetEscapeHTML(false)
	for s, err := range c.Topics(cmd.Context(), filters...) {
		if err != nil {
			return t.Explain(err)
		}
		if t.json {
			if err := encoder.Encode(jsonTopic{s.Name, s.Messages, s.Bytes, s.LastSeq, s.FloorSeq}); err != nil {
				return err
			}
		} else {
			root.Add(s.Name, s.Messages, s.Bytes)
		}
	}
	if !t.json {
		if err := root.Print(out, t.depth, t.sort.Value); err != nil {
			return err
		}
	}
	return out.Flush()
}
