// Package bench is the command of that name: flags and tables of the benchmarks.
package bench

import (
	"fmt"
	"os"
	"strings"
	"time"

	"chorale/bench/cluster"
	"chorale/cmd/settings"

	"github.com/spf13/cobra"
)

const benchLong = `Measure on the machine at hand. Every benchmark runs what it compares side by side,
in one run: take the ratios, since machines differ and are noisy.`

// NewCommand makes `chorale bench` with all its benchmarks.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "bench", Short: "Measure on this machine", Long: benchLong}
	cmd.AddCommand(newBenchClusterCmd(), newBenchRaftNodeCmd(), newBenchTipCmd(), newBenchMergeCmd(), newBenchRecoveriesCmd(), newBenchStoresCmd(), newBenchMonthCmd(), newBenchJoinCmd(), newBenchStartupCmd(), newBenchAwayCmd())
	return cmd
}

const benchClusterLong = `Start three nodes on loopback with files below --dir, and measure: messages a second
through 1 and 4 publishers, the time of one acknowledgement, the recovery of
everything, what 32 clients that recover at once cost the node and a publisher, and
the gap when the leader is killed. Before each round three
processes of nothing but hashicorp/raft over raft-boltdb run the same kind of load:
what they reach is what replication leaves here. Every figure is the median of the
rounds. Nothing is left behind.`

func newBenchClusterCmd() *cobra.Command {
	o := cluster.Options{Rounds: 3, Load: 3 * time.Second, Kills: 7}
	asJSON := false
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Three nodes: publish, recover, fail over; beside raw Raft",
		Long:  benchClusterLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Rounds < 1 || o.Load < 100*time.Millisecond || o.Kills < 0 {
				return settings.Usagef("want --rounds from 1, --load from 100ms, --kills from 0")
			}
			if o.Profile != "" {
				if err := os.MkdirAll(o.Profile, 0o755); err != nil {
					return err
				}
			}
			var err error
			if o.Binary, err = os.Executable(); err != nil {
				return err
			}
			o.Step = func(what string) { fmt.Fprintf(cmd.ErrOrStderr(), "%s …\n", what) }
			o.RawArgs = func(n cluster.RawRaft) []string { return append([]string{"bench", "raft-node"}, n.Args()...) }
			r, err := cluster.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			if asJSON {
				return r.WriteJSON(cmd.OutOrStdout())
			}
			return r.WriteTable(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Dir, "dir", "", "folder for the data (default: the system's for temporary files)")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "how often everything is measured")
	f.Var(settings.Span(&o.Load), "load", "time of one load")
	f.IntVar(&o.Kills, "kills", o.Kills, "how often the leader is killed, in the last round")
	f.StringVar(&o.Profile, "profile", "", "folder that gets CPU profiles of the nodes and of the load, for go tool pprof")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// newBenchRaftNodeCmd is the rival's process; people have no use for it.
func newBenchRaftNodeCmd() *cobra.Command {
	n, peers := cluster.RawRaft{}, ""
	cmd := &cobra.Command{
		Use:    "raft-node",
		Short:  "One process of the raw Raft cluster of bench cluster",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			n.Peers = strings.Split(peers, ",")
			return n.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&n.Dir, "dir", "", "folder for Raft's files")
	f.StringVar(&n.Addr, "addr", "", "address of Raft")
	f.StringVar(&n.Control, "control", "", "address that takes loads")
	f.StringVar(&peers, "peers", "", "Raft addresses of all nodes")
	return cmd
}
