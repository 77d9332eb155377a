package main

import (
	"chorale/cmd/backup"
	"chorale/cmd/bench"
	"chorale/cmd/imports"
	"chorale/cmd/members"
	"chorale/cmd/quorum"
	"chorale/cmd/retention"
	"chorale/cmd/settings"

	"github.com/spf13/cobra"
)

const rootLong = `Chorale is a replicated publish/subscribe stream. Every message of a cluster
stands in one total order; topics form a tree, like a file system. A subscriber
names topics or whole subtrees and gets exactly those messages, in order, from
any point in the past up to the live end, from any node.

Filters:  a/b  one topic    a/b/**  it and all below    a/*/c  one level open    **  everything

Every flag can also be set by an environment variable (--tip-size is
CHORALE_TIP_SIZE) or by a line "tip-size = 1GiB" of the file that --config names.
A flag wins over the environment, the environment over the file.

Exit codes: 0 done, 1 failed, 2 called wrongly.`

func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:           "chorale",
		Short:         "A replicated publish/subscribe stream",
		Long:          rootLong,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       versionString(),
	}
	root.SetVersionTemplate("chorale {{.Version}}\n")
	root.SetFlagErrorFunc(settings.FlagError)
	root.PersistentFlags().String("config", "", "`file` with lines \"key = value\", the keys being flag names")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		markStarted(cmd)
		return settings.Apply(cmd)
	}
	root.AddGroup(
		&cobra.Group{ID: groupServer, Title: "Nodes:"},
		&cobra.Group{ID: groupClient, Title: "Messages:"},
		&cobra.Group{ID: groupLook, Title: "Looking at things:"},
	)
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupServer, newServeCmd(), newDevCmd(), members.New(), members.NewDrain(), quorum.New(), backup.New(versionString()), backup.NewRestore())
	add(groupClient, newPublishCmd(), newSubscribeCmd(), imports.New(), newTopicsCmd(), newExplainCmd(), retention.New())
	add(groupLook, newStatusCmd(), newVerifyCmd(), newInspectCmd(), newSplitCmd(), bench.NewCommand())
	root.AddCommand(newVersionCmd())
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Args = settings.KnownTopic
		}
	}
	settings.Teach(root)
	return root
}

// The groups of the help text.
const (
	groupServer = "server"
	groupClient = "client"
	groupLook   = "look"
)

// startedKey marks a command whose arguments were accepted: an error before that
// is one of usage, whoever found it.
const startedKey = "started"

func markStarted(cmd *cobra.Command) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[startedKey] = "yes"
}

func started(cmd *cobra.Command) bool { return cmd.Annotations[startedKey] != "" }
