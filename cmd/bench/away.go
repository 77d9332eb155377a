package bench

import (
	"fmt"
	"os"
	"time"

	"chorale/bench/away"
	"chorale/cmd/settings"

	"github.com/spf13/cobra"
)

const benchAwayLong = `Start three nodes on loopback with files below --dir, publish at a steady rate, kill one
of them and start it again when it has missed more than the others keep of their log:
how long until it is as far as the leader again and has all files, how many times the
rate that is, and how long publishers waited for an answer meanwhile. With --kills it
is killed again on its way. In the end all files are compared. Nothing is left behind.`

func newBenchAwayCmd() *cobra.Command {
	o := away.Options{Rate: 5000, Payload: 512, For: 60 * time.Second, Seed: 1, Patience: 30 * time.Minute}
	segment, log, asJSON := settings.Size(16<<20), settings.Size(32<<20), false
	cmd := &cobra.Command{
		Use:     "away",
		Short:   "A node returns that has missed more than the kept log",
		Long:    benchAwayLong,
		Example: "  chorale bench away\n  chorale bench away --for 5m --kills 3",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Rate < 1 || o.Payload < 0 || o.Payload > 1<<20 || o.For < time.Second || o.Kills < 0 {
				return settings.Usagef("want --rate from 1, --payload from 0 to 1048576, --for from 1s, --kills from 0")
			}
			var err error
			if o.Binary, err = os.Executable(); err != nil {
				return err
			}
			o.SegmentBytes, o.LogBytes = int64(segment), int64(log)
			o.Step = func(what string) { fmt.Fprintf(cmd.ErrOrStderr(), "%s …\n", what) }
			r, err := away.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			return writeReport(cmd.OutOrStdout(), r, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Dir, "dir", "", "folder for the data (default: the system's for temporary files)")
	f.IntVar(&o.Rate, "rate", o.Rate, "messages published a second, all the time")
	f.IntVar(&o.Payload, "payload", o.Payload, "bytes of a message")
	f.Var(settings.Span(&o.For), "for", "how long the node is away")
	f.Var(&segment, "segment-bytes", "size of a segment")
	f.Var(&log, "log-bytes", "log that a node keeps, about: less than what is published meanwhile")
	f.IntVar(&o.Kills, "kills", o.Kills, "how often the node is killed again on its way")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "what the moments of that are drawn from")
	f.Var(settings.Span(&o.Patience), "patience", "how long all of it may take")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
