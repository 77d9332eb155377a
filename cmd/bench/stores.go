package bench

import (
	"fmt"

	"chorale/bench/stores"
	"chorale/cmd/settings"

	"github.com/spf13/cobra"
)

const benchStoresLong = `Write a stream to segments in a folder of its own and compact them as a node does.
Then, from the same files and in one run: recover one subtree; read everything and
filter it; recover many subtrees at once; recover everything; and read, check and
unpack all files in a bare loop, which is the floor. Every figure is the median of
the rounds. Nothing is left behind.`

func newBenchStoresCmd() *cobra.Command {
	o, asJSON := stores.DefaultOptions(), false
	segment := settings.Size(o.SegmentBytes)
	cmd := &cobra.Command{
		Use:     "stores",
		Short:   "Recovery from compacted files: a subtree, many, everything",
		Long:    benchStoresLong,
		Example: "  chorale bench stores --data testdata/forge.tsv.zst",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Step = func(what string) { fmt.Fprintf(cmd.ErrOrStderr(), "%s …\n", what) }
			o.SegmentBytes = int64(segment)
			if o.Data == "" {
				return settings.Usagef("no stream: name a sample stream by --data")
			}
			r, err := stores.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			return writeReport(cmd.OutOrStdout(), r, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Data, "data", "", "sample `stream`, repeated as often as needed")
	f.Uint64Var(&o.Messages, "messages", o.Messages, "number of messages")
	f.Int64Var(&o.MessageBytes, "message-bytes", o.MessageBytes, "bytes at which payloads are cut")
	f.Var(&segment, "segment-bytes", "size of records at which segments are cut")
	f.Float64Var(&o.Selectivity, "selectivity", o.Selectivity, "part of the messages that a reader wants")
	f.IntVar(&o.Readers, "readers", o.Readers, "subtrees recovered at once")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "how often everything is measured")
	f.StringVar(&o.Dir, "dir", "", "folder for the data (default: the system's for temporary files)")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
