package bench

import (
	"fmt"
	"io"
	"os"

	"chorale/bench/month"
	"chorale/compactor"

	"github.com/spf13/cobra"
)

const benchMonthLong = `Let the planner and the split of this program compact the volumes of a sample stream,
each day as many of its messages; bytes are counted, not moved. The report says, day by
day, how many files there are, how often a byte was written, and how much readers of
one topic and of one subtree read in vain. A short stream fills few segments of the
usual size: make segments and stores smaller with it.`

type benchMonthCmd struct {
	month.Options
	json bool
	plot string
}

func newBenchMonthCmd() *cobra.Command {
	m := benchMonthCmd{Options: month.Options{Days: 31, SegmentBytes: 16 << 20, Speed: 64 << 20, Compaction: compactor.DefaultSettings()}}
	cmd := &cobra.Command{
		Use:     "month FILE",
		Short:   "A month of compaction on the volumes of a real stream",
		Long:    benchMonthLong,
		Example: "  chorale bench month testdata/forge.tsv.zst --segment-bytes 1048576 --store-bytes 262144 --plot month.svg",
		Args:    cobra.ExactArgs(1),
		RunE:    m.run,
	}
	f := cmd.Flags()
	f.IntVar(&m.Days, "days", m.Days, "days that the stream takes")
	f.Int64Var(&m.SegmentBytes, "segment-bytes", m.SegmentBytes, "bytes at which a segment is cut")
	f.Int64Var(&m.Compaction.StoreBytes, "store-bytes", m.Compaction.StoreBytes, "bytes that are worth a store")
	f.IntVar(&m.Compaction.MaxStores, "max-stores", m.Compaction.MaxStores, "most stores of a range")
	f.Uint32Var(&m.Compaction.ChapterBytes, "chapter-bytes", m.Compaction.ChapterBytes, "bytes of the stream that stores keep apart by topic")
	f.Int64Var(&m.Speed, "speed", m.Speed, "bytes that are compacted in a second")
	f.StringVar(&m.plot, "plot", "", "SVG `FILE` to draw")
	f.BoolVar(&m.json, "json", false, "print JSON")
	return cmd
}

func (m *benchMonthCmd) run(cmd *cobra.Command, args []string) (err error) {
	in, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer in.Close()
	m.Step = func(d month.Day) { fmt.Fprintln(cmd.ErrOrStderr(), d) }
	r, err := month.Run(cmd.Context(), in, m.Options)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	if m.plot != "" {
		if err := writeFile(m.plot, r.WritePlot); err != nil {
			return err
		}
	}
	return writeReport(cmd.OutOrStdout(), r, m.json)
}

// writeFile makes a file of what write writes.
func writeFile(name string, write func(io.Writer) error) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	return write(f)
}
