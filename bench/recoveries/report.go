package recoveries

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Report is the outcome of a run.
type Report struct {
	PerMinute int `json:"recoveries_per_minute"`
	Messages  int `json:"messages_per_recovery"`
	// Memory is the resident bytes of the node at the start.
	Memory int64  `json:"resident_bytes,omitempty"`
	Lines  []Line `json:"lines"`
}

// Line is one stretch of the run.
type Line struct {
	Recoveries int           `json:"recoveries"`
	P50        time.Duration `json:"p50_ns"`
	P99        time.Duration `json:"p99_ns"`
	Max        time.Duration `json:"max_ns"`
	Memory     int64         `json:"resident_bytes,omitempty"`
}

func lineOf(took []time.Duration) Line {
	if len(took) == 0 {
		return Line{}
	}
	slices.Sort(took)
	at := func(q float64) time.Duration { return took[min(len(took)-1, int(q*float64(len(took))))] }
	return Line{Recoveries: len(took), P50: at(0.5), P99: at(0.99), Max: took[len(took)-1]}
}

// String is the line for a person.
func (l Line) String() string {
	s := fmt.Sprintf("%d recoveries, p50 %v, p99 %v, max %v", l.Recoveries, round(l.P50), round(l.P99), round(l.Max))
	if l.Memory > 0 {
		s += fmt.Sprintf(", %d MiB resident", l.Memory>>20)
	}
	return s
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTable writes the report for a person.
func (r *Report) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%d recoveries a minute of %d messages and more; %d MiB were resident at the start\n\n", r.PerMinute, r.Messages, r.Memory>>20)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "line\trecoveries\tp50\tp99\tmax\tresident MiB\t")
	for i, l := range r.Lines {
		fmt.Fprintf(t, "%d\t%d\t%v\t%v\t%v\t%d\t\n", i+1, l.Recoveries, round(l.P50), round(l.P99), round(l.Max), l.Memory>>20)
	}
	return t.Flush()
}
