package topic

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestGolden runs the transcripts in testdata. Input lines are names or filters,
// one a line; a line that begins with a quote is a Go string. After a change on
// purpose: go test ./topic -run Golden -rewrite, and read the difference.
func TestGolden(t *testing.T) {
	for _, transcript := range []string{"names", "filters", "table"} {
		t.Run(transcript, func(t *testing.T) {
			w := &world{table: NewTable()}
			datadriven.RunTest(t, "testdata/"+transcript, w.run)
		})
	}
}

// world is what the commands of one transcript work on.
type world struct {
	table     *Table
	filters   *Filters
	selection *Selection
}

func (w *world) run(t *testing.T, d *datadriven.TestData) string {
	lines := inputLines(t, d)
	var out strings.Builder
	each := func(f func(s string) string) {
		for _, s := range lines {
			fmt.Fprintln(&out, f(s))
		}
	}
	switch d.Cmd {
	case "validate":
		each(func(s string) string {
			if err := Validate(s); err != nil {
				return err.Error()
			}
			return "ok, partition " + Partition(s)
		})
	case "filters": // the set that the commands below use
		f, err := ParseFilters(lines...)
		if err != nil {
			return err.Error()
		}
		w.filters, w.selection = f, NewSelection(w.table, f)
		for _, s := range f.Canonical() {
			fmt.Fprintln(&out, s)
		}
	case "one-by-one": // each line is a set of its own
		each(func(s string) string {
			f, err := ParseFilters(s)
			if err != nil {
				return err.Error()
			}
			return strings.Join(f.Canonical(), " ")
		})
	case "match":
		each(func(s string) string { return fmt.Sprintf("%-5v %s", w.filters.Match(s), s) })
	case "intern":
		each(func(s string) string {
			id, fresh := w.table.Intern([]byte(s))
			p := w.table.Partition(id)
			return fmt.Sprintf("topic %d fresh=%v partition %d %s", id, fresh, p, w.table.PartitionName(p))
		})
	case "partitions": // of the selection
		for _, p := range w.selection.Partitions() {
			fmt.Fprintf(&out, "%d %s covered=%v\n", p, w.table.PartitionName(p), w.selection.PartitionCovered(p))
			w.table.EachTopicOf(p, func(id uint32) bool {
				fmt.Fprintf(&out, "  %d %s wanted=%v\n", id, w.table.Name(id), w.selection.Match(id))
				return true
			})
		}
	default:
		d.Fatalf(t, "no command %s", d.Cmd)
	}
	return out.String()
}

func inputLines(t *testing.T, d *datadriven.TestData) []string {
	if d.Input == "" {
		return nil
	}
	lines := strings.Split(d.Input, "\n")
	for i, s := range lines {
		if !strings.HasPrefix(s, `"`) {
			continue
		}
		// "x"*N is x, N times.
		quoted, times, many := strings.Cut(s, `"*`)
		n := 1
		if many {
			quoted += `"`
			var err error
			if n, err = strconv.Atoi(times); err != nil {
				d.Fatalf(t, "%s: %v", s, err)
			}
		}
		plain, err := strconv.Unquote(quoted)
		if err != nil {
			d.Fatalf(t, "%s: %v", s, err)
		}
		lines[i] = strings.Repeat(plain, n)
	}
	return lines
}
