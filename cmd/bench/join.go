package bench

import (
	"fmt"
	"os"

	"chorale/bench/join"
	"chorale/cmd/settings"

	"github.com/spf13/cobra"
)

const benchJoinLong = `Start some nodes on loopback with files below --dir, fill them, and let an empty node
join: how long it takes until it serves everything, and how many bytes pass the
network for each byte of files, counted by proxies before the ports. With --kills, the
node that joins is killed so often at random moments, and one of those that give as
well. In the end all files are compared. Nothing is left behind. Needs Linux, for its
second loopback address, and room for --bytes on each node, and as much again for logs.`

func newBenchJoinCmd() *cobra.Command {
	o := join.Options{Nodes: 3, Seed: 1}
	bytes, segment, rate, asJSON := settings.Size(2<<30), settings.Size(16<<20), settings.Size(64<<20), false
	cmd := &cobra.Command{
		Use:     "join",
		Short:   "An empty node joins a cluster that has much",
		Long:    benchJoinLong,
		Example: "  chorale bench join --kills 5\n  chorale bench join --bytes 64MiB --segment-bytes 1MiB --fetch-rate 8MiB",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Nodes < 1 || o.Kills < 0 || bytes < 1<<20 {
				return settings.Usagef("want --nodes from 1, --kills from 0, --bytes from 1MiB")
			}
			var err error
			if o.Binary, err = os.Executable(); err != nil {
				return err
			}
			o.Bytes, o.SegmentBytes, o.Rate = int64(bytes), int64(segment), int64(rate)
			o.Step = func(what string) { fmt.Fprintf(cmd.ErrOrStderr(), "%s …\n", what) }
			r, err := join.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			return writeReport(cmd.OutOrStdout(), r, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Dir, "dir", "", "folder for the data (default: the system's for temporary files)")
	f.Var(&bytes, "bytes", "messages that the cluster has")
	f.IntVar(&o.Nodes, "nodes", o.Nodes, "nodes of the cluster")
	f.Var(&segment, "segment-bytes", "size of a segment")
	f.Var(&rate, "fetch-rate", "bytes a second that the new node may fetch; 0 is no limit")
	f.IntVar(&o.Kills, "kills", o.Kills, "how often the new node is killed on its way, and another one too")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "what the moments are drawn from")
	f.Var(settings.Span(&o.Patience), "patience", "how long all of it may take (default 30m)")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
