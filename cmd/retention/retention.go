// Package retention is the command that shows and changes what is kept.
package retention

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"chorale/api"
	"chorale/client"
	"chorale/cmd/connect"
	"chorale/cmd/settings"
	"chorale/retention"

	"github.com/spf13/cobra"
)

const retentionLong = `Show and change what the cluster keeps. Without a policy it keeps everything.

A policy has a filter and a limit of age, of bytes, or of both: then what breaks
either may go. The filter is one of

  **      the whole stream
  a/b/**  a subtree: a/b and all below it
  a/b     one topic

Each policy applies by itself: a message goes when any one that its topic falls under
lets it go. So a week for app/debug/** and a year for ** keep debug messages for a
week; a year for app/debug/** and a week for ** do too.

Of the whole stream go the oldest ranges of files, as a whole: a range goes when its
newest message is older than the age, or when the ranges behind it have the bytes. So
never less is kept than was asked for, and up to one range more, which in a short
history may be most of it. The newest range, and what is in no file yet, stays in any
case.

Of a subtree go its messages: by age, a thirty-second of the age late at most; by bytes
of its records up to the start of a range of files. They are not delivered any more;
their bytes leave the disks as files are merged.

Ages are of stream time, which the leader's clock moves. Who reads or starts where all
that it wants has gone gets an error that names the oldest seq that is left.`

const setRetentionLong = `Set the policy of a filter, in the place of the one before: ** for the whole stream,
a/b/** for a subtree, a/b for one topic. What it lets go is gone within seconds, on all
nodes, for ever: of ** in whole ranges of files, as chorale retention --help says. The
policies of other filters stay as they are.

--age is a time (90m, 36h, 7d). --bytes is a size: for ** of files, as status shows them;
for a subtree or topic of its records, as topics shows them.`

const clearRetentionLong = `Remove the policy of a filter, so that it lets nothing more go. What is gone stays gone:
retention list shows it as long as the cluster lives.`

type retentionCmd struct {
	connect.Connection
	json  bool
	age   time.Duration
	bytes keptBytes
}

// New makes the command; each of its parts connects by itself.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retention",
		Short: "Show and change what is kept, by age and by bytes",
		Long:  retentionLong,
		Example: "  chorale retention list\n  chorale retention set '**' --age 365d --bytes 500GiB\n" +
			"  chorale retention set 'app/debug/**' --age 7d\n  chorale retention clear 'app/debug/**'",
	}
	var list, set, drop retentionCmd
	add := func(r *retentionCmd, sub *cobra.Command) {
		r.AddFlags(sub)
		sub.Flags().BoolVar(&r.json, "json", false, "print what is kept as a JSON object")
		cmd.AddCommand(sub)
	}
	add(&list, &cobra.Command{
		Use: "list", Short: "Show the policies, and what is kept", Args: cobra.NoArgs, RunE: list.list,
		Long: "Show the policies, what has gone by them, the oldest kept message and the bytes of all files.",
	})
	change := &cobra.Command{
		Use: "set FILTER", Short: "Set a policy: what it does not keep is deleted", Long: setRetentionLong,
		Example: "  chorale retention set '**' --age 30d\n  chorale retention set 'app/debug/**' --age 7d --bytes 10GiB", Args: cobra.ExactArgs(1), RunE: set.set,
	}
	change.Flags().Var(settings.Span(&set.age), "age", "delete what is older")
	change.Flags().Var(&set.bytes, "bytes", "delete the oldest beyond this")
	change.ValidArgsFunction = connect.CompleteOne(connect.CompleteTopics(&set.Connection))
	add(&set, change)
	add(&drop, &cobra.Command{
		Use: "clear FILTER", Short: "Remove a policy: nothing more is deleted", Args: cobra.ExactArgs(1), RunE: drop.drop,
		Long: clearRetentionLong, Example: "  chorale retention clear 'app/debug/**'",
		ValidArgsFunction: connect.CompleteOne(completePolicies(&drop.Connection)),
	})
	return cmd
}

// completePolicies offers the filters that have a policy.
func completePolicies(n *connect.Connection) cobra.CompletionFunc {
	return connect.Complete(n, func(ctx context.Context, c *client.Client, word string) ([]string, error) {
		kept, err := c.Retention(ctx)
		if err != nil {
			return nil, err
		}
		var filters []string
		policies, _ := listed(kept)
		for _, p := range policies {
			if strings.HasPrefix(p.Filter, word) {
				filters = append(filters, p.Filter)
			}
		}
		return filters, nil
	})
}

// check makes a filter that no policy can have an error of usage.
func check(filter string) error {
	if filter == retention.WholeStream {
		return nil
	}
	if err := retention.CheckFilter(filter); err != nil {
		return settings.Usagef("%w; '**' is the whole stream", err)
	}
	return nil
}

func (r *retentionCmd) set(cmd *cobra.Command, filters []string) error {
	if err := check(filters[0]); err != nil {
		return err
	}
	if r.age == 0 && r.bytes.Size == 0 {
		return settings.Usagef("set needs --age, --bytes or both; clear removes a policy")
	}
	policy := &api.RetentionPolicy{Filter: filters[0], MaxAge: int64(r.age), MaxBytes: uint64(r.bytes.Size)}
	return r.change(cmd, filters[0], policy)
}

func (r *retentionCmd) drop(cmd *cobra.Command, filters []string) error {
	if err := check(filters[0]); err != nil {
		return err
	}
	return r.change(cmd, filters[0], nil)
}

// change puts a policy, or none, in the place of that of the filter.
func (r *retentionCmd) change(cmd *cobra.Command, filter string, policy *api.RetentionPolicy) error {
	c, err := r.Connect(cmd.Context())
	if err != nil {
		return err
	}
	defer c.Close()
	switch {
	case filter != retention.WholeStream:
		err = changeRule(cmd.Context(), c, filter, policy)
	case policy != nil:
		err = c.SetRetention(cmd.Context(), policy)
	default:
		err = c.SetRetention(cmd.Context())
	}
	if err != nil {
		return r.Explain(err)
	}
	return r.list(cmd, nil)
}

// tries is how often a change of a rule is made again when somebody else changed another one
// at the same time.
const tries = 5

func changeRule(ctx context.Context, c *client.Client, filter string, policy *api.RetentionPolicy) error {
	for try := 1; ; try++ {
		kept, err := c.Retention(ctx)
		if err != nil {
			return err
		}
		rules := slices.DeleteFunc(slices.Clone(kept.Rules), func(p *api.RetentionPolicy) bool { return p.Filter == filter })
		if policy != nil {
			rules = append(rules, policy)
		} else if len(rules) == len(kept.Rules) {
			return unknown(filter, rules)
		}
		err = c.SetRules(ctx, kept.RulesNumber, rules...)
		if !errors.Is(err, client.ErrRulesChanged) || try == tries {
			return err
		}
	}
}

// unknown says which policies there are.
func unknown(filter string, rules []*api.RetentionPolicy) error {
	if len(rules) == 0 {
		return settings.Usagef("there is no policy for %q, nor for any other subtree", filter)
	}
	var names []string
	for _, p := range rules {
		names = append(names, "'"+p.Filter+"'")
	}
	return settings.Usagef("there is no policy for %q: there are some for %s", filter, strings.Join(names, ", "))
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
