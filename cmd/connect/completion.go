package connect

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"chorale/client"
	"chorale/cmd/settings"

	"github.com/spf13/cobra"
)

// Completion must not make a shell wait, nor flood it.
const (
	completionTimeout = 2 * time.Second
	completionOffers  = 1000
)

// Complete asks the cluster what begins like the word. A cluster that does not answer has
// nothing to offer: a shell shows no errors.
func Complete(n *Connection, ask func(ctx context.Context, c *client.Client, word string) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		if err := settings.Apply(cmd); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		c, err := n.Dial()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		offered, err := ask(ctx, c, word)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return offered, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteOne offers what complete does for the first argument, and nothing for others.
func CompleteOne(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, word)
	}
}

// CompleteTopics offers the next level of the topics that begin like the word, as a shell
// does with folders: a level with others below it ends in a slash, and can also be taken
// as a subtree.
func CompleteTopics(n *Connection) cobra.CompletionFunc {
	complete := Complete(n, func(ctx context.Context, c *client.Client, word string) ([]string, error) {
		parent := word[:strings.LastIndexByte(word, '/')+1]
		var filters []string
		if parent != "" {
			filters = []string{parent + "**"}
		}
		names := func(yield func(string) bool) {
			for t, err := range c.Topics(ctx, filters...) {
				if err != nil || !yield(t.Name) {
					return // what has come is better than nothing
				}
			}
		}
		return nextLevels(names, parent, word), nil
	})
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		names, directive := complete(cmd, args, word)
		return names, directive | cobra.ShellCompDirectiveNoSpace // they may go on
	}
}

// CompleteTopic offers topics as the first argument, or as a value of a flag: no subtrees,
// which nobody can publish to.
func CompleteTopic(n *Connection) cobra.CompletionFunc {
	filters := CompleteTopics(n)
	return CompleteOne(func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		names, directive := filters(cmd, args, word)
		return slices.DeleteFunc(names, func(n string) bool { return strings.HasSuffix(n, "**") }), directive
	})
}

// nextLevels lists what can stand behind parent and begins like word, as much as a shell
// should be offered. The names are sorted.
func nextLevels(names iter.Seq[string], parent, word string) []string {
	var out []string
	below := false
	for name := range names {
		rest, ok := strings.CutPrefix(name, parent)
		below = below || ok
		if !ok || !strings.HasPrefix(name, word) {
			continue
		}
		if len(out) == completionOffers {
			break
		}
		level, _, deeper := strings.Cut(rest, "/")
		if deeper {
			level += "/"
		}
		if n := len(out); n == 0 || out[n-1] != parent+level {
			out = append(out, parent+level)
		}
	}
	if below && strings.HasPrefix(parent+"**", word) {
		out = append(out, parent+"**")
	}
	return out
}
