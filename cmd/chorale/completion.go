package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"chorale/cmd/connect"
	"chorale/cmd/settings"

	"github.com/spf13/cobra"
)

// Completion must not make a shell wait, nor flood it.
const (
	completionTimeout = 2 * time.Second
	completionTopics  = 10_000
)

// completeTopics offers the next level of the topics that begin like the word, as
// a shell does with folders: a level with others below it ends in a slash, and
// can also be taken as a subtree.
func completeTopics(n *connect.Connection) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
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
		parent := word[:strings.LastIndexByte(word, '/')+1]
		var filters []string
		if parent != "" {
			filters = []string{parent + "**"}
		}
		var names []string
		for t, err := range c.Topics(ctx, filters...) {
			if err != nil || len(names) == completionTopics {
				break
			}
			names = append(names, t.Name)
		}
		return nextLevels(names, parent, word), directive
	}
}

// completeTopic offers topics as the first argument, or as a value of a flag: no
// subtrees, which nobody can publish to.
func completeTopic(n *connect.Connection) cobra.CompletionFunc {
	filters := completeTopics(n)
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, directive := filters(cmd, args, word)
		return slices.DeleteFunc(names, func(n string) bool { return strings.HasSuffix(n, "**") }), directive
	}
}

// nextLevels lists what can stand behind parent and begins like word. The names
// are sorted.
func nextLevels(names []string, parent, word string) []string {
	var out []string
	below := false
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, parent)
		below = below || ok
		if !ok || !strings.HasPrefix(name, word) {
			continue
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
