package bench

import (
	"fmt"
	"os"
	"time"

	"chorale/bench/startup"
	"chorale/cmd/settings"

	"github.com/spf13/cobra"
)

const benchStartupLong = `Fill a node on loopback with messages over very many topics, with files below --dir, end
it, in order and by kill -9, and start it again: how long until it answers, serves, and
has filled its tip. The same with few topics tells what memory a topic takes. Nothing is
left behind.`

func newBenchStartupCmd() *cobra.Command {
	o := startup.Options{Messages: 10_000_000, Topics: 1_000_000, Few: 1000, Payload: 32, Calm: 5 * time.Second, Patience: time.Hour}
	tip, asJSON := settings.Size(256<<20), false
	cmd := &cobra.Command{
		Use:     "startup",
		Short:   "Start a node that has many messages and topics",
		Long:    benchStartupLong,
		Example: "  chorale bench startup\n  chorale bench startup --messages 100000 --topics 10000 --few 10",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Few < 1 || o.Topics <= o.Few || o.Messages < o.Topics || o.Payload < 0 || o.Payload > 1<<20 {
				return settings.Usagef("want --few from 1, --topics above --few, --messages from --topics, --payload from 0 to 1048576")
			}
			var err error
			if o.Binary, err = os.Executable(); err != nil {
				return err
			}
			o.TipBytes = int64(tip)
			o.Step = func(what string) { fmt.Fprintf(cmd.ErrOrStderr(), "%s …\n", what) }
			r, err := startup.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			return writeReport(cmd.OutOrStdout(), r, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Dir, "dir", "", "folder for the data (default: the system's for temporary files)")
	f.IntVar(&o.Messages, "messages", o.Messages, "messages that the node has")
	f.IntVar(&o.Topics, "topics", o.Topics, "topics over which they are spread")
	f.IntVar(&o.Few, "few", o.Few, "topics of the node that it is compared with")
	f.IntVar(&o.Payload, "payload", o.Payload, "bytes of a message")
	f.Var(&tip, "tip-size", "memory for the newest messages")
	f.Var(settings.Span(&o.Patience), "patience", "how long all of it may take")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
