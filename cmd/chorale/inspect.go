package main

import (
	"errors"
	"io/fs"
	"path/filepath"

	"chorale/cmd/settings"
	"chorale/disk"
	"chorale/segments/inspect"

	"github.com/spf13/cobra"
)

const inspectLong = `Examine data files of a node completely and print what each holds: every checksum,
that each seq is there exactly once and each message names the one before it of its
topic, and that the tables say what the messages are.

It only reads, so it may look at the files of a running node. It fails if it finds
damage.`

func newInspectCmd() *cobra.Command {
	var o inspect.Options
	cmd := &cobra.Command{
		Use:     "inspect FILE...",
		Short:   "Examine data files",
		Long:    inspectLong,
		Example: "  chorale inspect chorale-data/segments/*.seg --topics",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			var all error
			for _, name := range files {
				dir, base := filepath.Split(filepath.Clean(name))
				err := inspect.File(disk.OS(filepath.Clean(dir)), base, cmd.OutOrStdout(), o)
				if errors.Is(err, fs.ErrNotExist) {
					return &settings.UsageError{Err: err}
				}
				all = errors.Join(all, err)
			}
			return all
		},
	}
	cmd.Flags().BoolVar(&o.JSON, "json", false, "print a JSON object")
	cmd.Flags().BoolVar(&o.Topics, "topics", false, "list the topics too, not the partitions alone")
	return cmd
}
