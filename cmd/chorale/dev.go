package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"chorale/cmd/connect"
	"chorale/cmd/settings"
	"chorale/node"

	"github.com/spf13/cobra"
)

const devLong = `Run a whole cluster in this process, to try Chorale: the nodes are real, with
files, Raft and network on loopback, but they live and die together, unless one is
drained or removed.

Node i has its API at port + 10 (i - 1), then HTTP, Raft and gossip at the next
three ports. Stop it with Ctrl-C; a second run in the same folder continues, with more
nodes too, which join, or with fewer, as long as those are a majority.`

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
			d.Left = func(id string, err error) { printLeft(cmd.OutOrStdout(), d.Dir, id, err) }
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

// printLeft tells that a node has ended and the others go on, and the way back.
func printLeft(out io.Writer, dir, id string, err error) {
	if err == nil {
		fmt.Fprintf(out, "\n%s was drained and has ended; the others go on. It is back when chorale dev starts again.\n", id)
		return
	}
	fmt.Fprintf(out, "\n%s has ended; the others go on: %v\nWith chorale dev: stop it, delete the folder %s, and start it again.\n", id, err, filepath.Join(dir, id))
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
