// Package retention is the command that shows and changes what is kept.
package retention

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"chorale/api"
	"chorale/cmd/connect"
	"chorale/cmd/settings"
	"chorale/cmd/show"

	"github.com/spf13/cobra"
)

const retentionLong = `Show and change what the cluster keeps. Without a policy it keeps everything.

A policy has a filter, ** for the whole stream (others are not possible yet), and a
limit of age, of bytes, or of both: then what breaks either may go.

What goes are the oldest ranges of files, as a whole: a range goes when its newest
message is older than the age, or when the ranges behind it have the bytes. So
somewhat more is kept than was asked for, never less; the newest range, and what is
in no file yet, stays in any case. Ages are of stream time, which the leader's clock
moves.

Who reads or starts before the oldest kept message gets an error that names it.`

const setRetentionLong = `Set the policy of the whole stream, in the place of the one before. All messages
that it does not keep are deleted on all nodes within seconds, for ever.

Whole ranges of files go: about an eighth more than asked for may stay, and the
newest range always does.

--age is a time (90m, 36h, 7d), --bytes a size of files, as status shows them.`

type retentionCmd struct {
	connect.Connection
	json  bool
	age   settings.Age
	bytes settings.Size
}

// New makes the command; each of its parts connects by itself.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "retention",
		Short:   "Show and change what is kept, by age and by bytes",
		Long:    retentionLong,
		Example: "  chorale retention list\n  chorale retention set '**' --age 30d --bytes 500GiB\n  chorale retention clear '**'",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return settings.Usagef("retention needs one of list, set and clear")
		},
	}
	var list, set, drop retentionCmd
	add := func(r *retentionCmd, sub *cobra.Command) {
		r.AddFlags(sub)
		sub.Flags().BoolVar(&r.json, "json", false, "print what is kept as a JSON object")
		cmd.AddCommand(sub)
	}
	add(&list, &cobra.Command{
		Use: "list", Short: "Show the policies, and what is kept", Args: cobra.NoArgs, RunE: list.list,
		Long: "Show the policies, the oldest kept message and the bytes of all files.",
	})
	change := &cobra.Command{
		Use: "set FILTER", Short: "Set a policy: what it does not keep is deleted", Long: setRetentionLong,
		Example: "  chorale retention set '**' --age 30d", Args: cobra.ExactArgs(1), RunE: set.set,
	}
	change.Flags().Var(&set.age, "age", "delete what is older")
	change.Flags().Var(&set.bytes, "bytes", "delete the oldest beyond this")
	add(&set, change)
	add(&drop, &cobra.Command{
		Use: "clear FILTER", Short: "Remove a policy: nothing more is deleted", Args: cobra.ExactArgs(1), RunE: drop.drop,
		Long: "Remove the policy of a filter, so that nothing more is deleted. What is gone stays gone.",
	})
	return cmd
}

// wholeStream makes any other filter an error of usage.
func wholeStream(filter string) error {
	if filter != "**" {
		return settings.Usagef("filter %q: only '**', the whole stream, can have a policy", filter)
	}
	return nil
}

func (r *retentionCmd) set(cmd *cobra.Command, filters []string) error {
	if err := wholeStream(filters[0]); err != nil {
		return err
	}
	if r.age == 0 && r.bytes == 0 {
		return settings.Usagef("set needs --age, --bytes or both; clear removes a policy")
	}
	return r.change(cmd, &api.RetentionPolicy{Filter: filters[0], MaxAge: int64(r.age), MaxBytes: uint64(r.bytes)})
}

func (r *retentionCmd) drop(cmd *cobra.Command, filters []string) error {
	if err := wholeStream(filters[0]); err != nil {
		return err
	}
	return r.change(cmd)
}

func (r *retentionCmd) change(cmd *cobra.Command, policies ...*api.RetentionPolicy) error {
	c, err := r.Connect(cmd.Context())
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetRetention(cmd.Context(), policies...); err != nil {
		return r.Explain(err)
	}
	return r.list(cmd, nil)
}

func (r *retentionCmd) list(cmd *cobra.Command, _ []string) error {
	c, err := r.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	kept, err := c.Retention(cmd.Context())
	if err != nil {
		return r.Explain(err)
	}
	if r.json {
		return printKeptJSON(cmd.OutOrStdout(), kept)
	}
	return printKept(cmd.OutOrStdout(), kept)
}

func printKept(w io.Writer, kept *api.GetRetentionResponse) error {
	var b strings.Builder
	for _, p := range kept.Policies {
		fmt.Fprintf(&b, "%s", p.Filter)
		if p.MaxAge > 0 {
			fmt.Fprintf(&b, "  age %v", (*settings.Age)(&p.MaxAge))
		}
		if p.MaxBytes > 0 {
			fmt.Fprintf(&b, "  bytes %s", show.Bytes(p.MaxBytes))
		}
		b.WriteByte('\n')
	}
	if len(kept.Policies) == 0 {
		b.WriteString("no policy: everything is kept\n")
	}
	fmt.Fprintf(&b, "oldest  seq %s", show.Count(kept.OldestSeq))
	if kept.OldestTime > 0 {
		fmt.Fprintf(&b, " of %s", time.Unix(0, kept.OldestTime).Format(time.DateTime))
	}
	fmt.Fprintf(&b, "\nfiles   %s\n", show.Bytes(kept.Bytes))
	_, err := io.WriteString(w, b.String())
	return err
}

// jsonKept is what is kept, on stdout. Times are ns.
type jsonKept struct {
	Policies   []jsonPolicy `json:"policies"`
	OldestSeq  uint64       `json:"oldest_seq"`
	OldestTime int64        `json:"oldest_time"`
	Bytes      uint64       `json:"bytes"`
}

type jsonPolicy struct {
	Filter   string `json:"filter"`
	MaxAge   int64  `json:"max_age"`
	MaxBytes uint64 `json:"max_bytes"`
}

func printKeptJSON(w io.Writer, kept *api.GetRetentionResponse) error {
	out := jsonKept{Policies: []jsonPolicy{}, OldestSeq: kept.OldestSeq, OldestTime: kept.OldestTime, Bytes: kept.Bytes}
	for _, p := range kept.Policies {
		out.Policies = append(out.Policies, jsonPolicy{p.Filter, p.MaxAge, p.MaxBytes})
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(out)
}
