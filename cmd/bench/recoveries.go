package bench

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"chorale/bench/recoveries"
	"chorale/cmd/connect"
	"chorale/cmd/settings"

	"github.com/spf13/cobra"
)

const benchRecoveriesLong = `Ask a running cluster for many short recoveries, evenly over time, while messages
are published: each recovers the last 10 messages of a subtree, up to the head. Times
run from when a recovery was due. With --metrics the node's own memory is read as
well (of a Linux node): heap, tip and stacks, without the mapped file of the Raft log.
The messages stay behind, below bench/recoveries.`

type benchRecoveriesCmd struct {
	connect.Connection
	recoveries.Options
	metrics string
	json    bool
}

func newBenchRecoveriesCmd() *cobra.Command {
	b := benchRecoveriesCmd{Options: recoveries.Options{PerMinute: 10_000, Subtrees: 1000, Publish: 1000, AtOnce: 64}}
	cmd := &cobra.Command{
		Use:     "recoveries",
		Short:   "Very many short recoveries from a running cluster",
		Long:    benchRecoveriesLong,
		Example: "  chorale bench recoveries --addr 127.0.0.1:7070 --metrics http://127.0.0.1:7071/metrics",
		Args:    cobra.NoArgs,
		RunE:    b.run,
	}
	b.AddFlags(cmd)
	f := cmd.Flags()
	f.IntVar(&b.PerMinute, "per-minute", b.PerMinute, "recoveries a minute")
	f.Var(settings.Span(&b.For), "for", "how long (default 10m)")
	f.Var(settings.Span(&b.Every), "every", "length of a line of the report (default 1m)")
	f.IntVar(&b.Subtrees, "subtrees", b.Subtrees, "number of subtrees")
	f.IntVar(&b.Publish, "publish", b.Publish, "messages published a second meanwhile")
	f.IntVar(&b.AtOnce, "at-once", b.AtOnce, "most recoveries under way")
	f.StringVar(&b.metrics, "metrics", "", "`URL` of the metrics of the node whose memory is read")
	f.BoolVar(&b.json, "json", false, "print JSON")
	return cmd
}

func (b *benchRecoveriesCmd) run(cmd *cobra.Command, _ []string) error {
	c, err := b.Connect(cmd.Context())
	if err != nil {
		return err
	}
	defer c.Close()
	if b.metrics != "" {
		b.Memory = func(ctx context.Context) (int64, error) { return residentBytes(ctx, b.metrics) }
	}
	b.Step = func(l recoveries.Line) { fmt.Fprintln(cmd.ErrOrStderr(), l) }
	r, err := recoveries.Run(cmd.Context(), c, b.Options)
	if err != nil {
		return err
	}
	return writeReport(cmd.OutOrStdout(), r, b.json)
}

// residentBytes reads the node's own memory from Prometheus' text form.
func residentBytes(ctx context.Context, url string) (int64, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	const name = `chorale_resident_bytes{of="own"} `
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), name); ok {
			v, err := strconv.ParseFloat(text, 64)
			return int64(v), err
		}
	}
	return 0, fmt.Errorf("%s (%s) does not tell %s", url, r.Status, name)
}
