package main

import (
	"fmt"
	"io"
	"strings"

	"chorale/cmd/connect"
	"chorale/cmd/settings"
	"chorale/node"

	"github.com/spf13/cobra"
)

const devLong = `Run a whole cluster in this process, to try Chorale: the nodes are real, with
files, Raft and network on loopback, but they live and die together.

Node i has its API at port + 10 (i - 1), then HTTP, Raft and gossip at the next
three ports. Stop it with Ctrl-C; a second run in the same folder continues.`

func newDevCmd() *cobra.Command {
	d := node.Dev{TipBytes: 64 << 20, Version: versionString()}
	cmd := &cobra.Command{
		Use:     "dev",
		Short:   "Run a cluster in one process, to try Chorale",
		Long:    devLong,
		Example: "  chorale dev --dir /tmp/tour",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d.Ready = func(list []node.Addresses) { printDev(cmd.OutOrStdout(), list) }
			return inUse(configError(node.RunDev(cmd.Context(), d)), "choose others with --port; 0 lets the system choose")
		},
	}
	f := cmd.Flags()
	f.IntVar(&d.Nodes, "nodes", 3, "how `many`, 1 to 9")
	f.StringVar(&d.Dir, "dir", "chorale-dev", "`folder`; each node has one below it")
	f.IntVar(&d.Port, "port", 7070, "first `port`; 0 lets the system choose all")
	addNodeFlags(cmd, &d.TipBytes, &d.LogLevel, &d.LogJSON)
	cmd.Flag("log-level").DefValue = "warn"
	d.LogLevel = "warn"
	return cmd
}

// printDev tells where the nodes are and what to try next.
func printDev(out io.Writer, list []node.Addresses) {
	var apis []string
	for _, a := range list {
		fmt.Fprintf(out, "%-8s  API %s  HTTP %s\n", a.ID, a.API, a.HTTP)
		apis = append(apis, a.API)
	}
	fmt.Fprintf(out, "\nThe cluster serves. In another terminal:\n\n")
	if apis[0] != connect.DefaultAddr {
		fmt.Fprintf(out, "  export %s=%s\n", settings.EnvName("addr"), strings.Join(apis, ","))
	}
	fmt.Fprintf(out, "  chorale publish app/hello 'first message'\n"+
		"  chorale subscribe 'app/**' --until-tip\n  chorale status\n\nCtrl-C stops it.\n")
}
