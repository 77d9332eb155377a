package bench

import (
	"fmt"
	"io"
	"os"
	"time"

	"chorale/bench/merge"
	"chorale/bench/tipbench"
	"chorale/cmd/settings"
	"chorale/cmd/show"

	"github.com/spf13/cobra"
)

const benchTipLong = `Fill a ring and recover from it: by a linear pass that asks for every message, by
what the product does (index), and by the partition indexes alone (merge), in turn.
Flags with lists are combined with each other; equal rings are filled once. The JSON
output is a scenario file, so --scenario repeats a run from its results.

A selectivity of 0 means one topic of the largest partition. With --writer, another
thread appends meanwhile; a reader that it overtakes goes on at the floor.`

func newBenchTipCmd() *cobra.Command {
	o := tipbench.Options{}
	var rings []string
	asJSON, file := false, ""
	cmd := &cobra.Command{
		Use:   "tip",
		Short: "Recovery from memory: linear pass against partition indexes",
		Long:  benchTipLong,
		Example: `  chorale bench tip --partitions 1000,10000
  chorale bench tip --data testdata/forge.tsv.zst --selectivity 0,0.01,0.1
  chorale bench tip --readers 1,32 --writer --json > run.json
  chorale bench tip --scenario run.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, r := range rings {
				var n settings.Size
				if err := n.Set(r); err != nil {
					return settings.Usagef("--ring: %w", err)
				}
				o.RingBytes = append(o.RingBytes, int64(n))
			}
			if file != "" {
				f, err := os.Open(file)
				if err != nil {
					return err
				}
				defer f.Close()
				if o.Scenarios, err = tipbench.ReadScenarios(f); err != nil {
					return settings.Usagef("%s: %w", file, err)
				}
			}
			if o.Rounds < 1 {
				return settings.Usagef("--rounds %d: want 1 or more", o.Rounds)
			}
			steps := newSteps(cmd.ErrOrStderr())
			o.Step = steps.show
			r, err := tipbench.Run(cmd.Context(), o)
			steps.close()
			if err != nil {
				return err
			}
			return writeReport(cmd.OutOrStdout(), r, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&rings, "ring", nil, "bytes of the ring (default 256MiB)")
	f.IntSliceVar(&o.MessageBytes, "message-bytes", nil, "payload of a message; with --data the most of it (default 128, or 1024)")
	f.IntSliceVar(&o.Partitions, "partitions", nil, "topic partitions (default 1000)")
	f.IntSliceVar(&o.Topics, "topics", nil, "topics a partition (default 1)")
	f.Float64SliceVar(&o.Skew, "skew", nil, "exponent of the partitions' sizes: 0 alike, 1 as 1/rank (default 0)")
	f.IntSliceVar(&o.Run, "run", nil, "mean number of messages of a partition in a row (default 1)")
	f.IntSliceVar(&o.Readers, "readers", nil, "readers at once, each of other subtrees (default 1)")
	f.Float64SliceVar(&o.Selectivities, "selectivity", nil, "wanted part of the messages (default 0.001,0.01,0.1,1)")
	f.BoolVar(&o.Writer, "writer", false, "append meanwhile")
	f.StringVar(&o.Data, "data", "", "fill the ring from a sample stream")
	f.StringVar(&file, "scenario", "", "measure the scenarios of this file")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of everything drawn")
	f.IntVar(&o.Rounds, "rounds", 5, "how often everything is measured")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

const benchMergeLong = `Merge the entries of many partition indexes into one order, by every way that was
tried: the standard library's heap, unboxed heaps, a loser tree, galloping, and
several that sort windows. The one called chosen is the product's.`

func newBenchMergeCmd() *cobra.Command {
	o := merge.Options{}
	asJSON := false
	cmd := &cobra.Command{
		Use:   "merge",
		Short: "The contest of the n-way merges",
		Long:  benchMergeLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Rounds < 1 {
				return settings.Usagef("--rounds %d: want 1 or more", o.Rounds)
			}
			steps := newSteps(cmd.ErrOrStderr())
			o.Step = steps.show
			r, err := merge.Run(cmd.Context(), o)
			steps.close()
			if err != nil {
				return err
			}
			return writeReport(cmd.OutOrStdout(), r, asJSON)
		},
	}
	f := cmd.Flags()
	f.IntSliceVar(&o.Sources, "sources", nil, "numbers of indexes to merge (default 1,4,16,64,256,1024,4096,10000)")
	f.IntVar(&o.Messages, "messages", 200_000, "entries of all indexes")
	f.Float64Var(&o.Density, "density", 0.1, "wanted part of the ring's messages")
	f.IntVar(&o.Rounds, "rounds", 5, "how often everything is measured")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of everything drawn")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func writeReport(w io.Writer, r interface {
	WriteJSON(io.Writer) error
	WriteTable(io.Writer) error
}, asJSON bool) error {
	if asJSON {
		return r.WriteJSON(w)
	}
	return r.WriteTable(w)
}

// steps shows what a benchmark is doing: one line that changes on a terminal, a
// line now and then elsewhere.
type steps struct {
	out      io.Writer
	terminal bool
	last     time.Time
}

func newSteps(out io.Writer) *steps { return &steps{out: out, terminal: show.IsTerminal(out)} }

func (s *steps) show(what string, done, total int) {
	switch {
	case s.terminal:
		fmt.Fprintf(s.out, "\r\x1b[K%d of %d: %s", done+1, total, what)
	case time.Since(s.last) > 5*time.Second:
		s.last = time.Now()
		fmt.Fprintf(s.out, "%d of %d: %s …\n", done+1, total, what)
	}
}

func (s *steps) close() {
	if s.terminal {
		fmt.Fprint(s.out, "\r\x1b[K")
	}
}
