package join

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Report is the outcome of a run.
type Report struct {
	Nodes int `json:"nodes"`
	// Count and Bytes are of the files that the new node has in the end.
	Count int   `json:"files"`
	Bytes int64 `json:"file_bytes"`
	// Files is what the new node was sent by the others on its requests, Raft what their
	// Raft sent to it, both as they passed the network, and in all its lives.
	Files int64 `json:"sent_bytes"`
	Raft  int64 `json:"raft_bytes"`
	// Limit is what it was allowed to fetch a second, 0 for no limit.
	Limit int64 `json:"limit_bytes_per_second"`
	// Kills is how many processes were killed, Resumed how many files went on in another
	// life of the new node where they had broken off.
	Kills   int `json:"kills"`
	Resumed int `json:"files_resumed"`
	// Took is from its start until it served everything.
	Took time.Duration `json:"took_ns"`
}

// Ratio is bytes over the network, for files, to bytes of files. What Raft sends, a
// snapshot and the entries behind it, has its own bound and does not grow with the files.
func (r *Report) Ratio() float64 { return float64(r.Files) / float64(max(r.Bytes, 1)) }

// Rate is bytes of files a second.
func (r *Report) Rate() float64 { return float64(r.Bytes) / max(r.Took, time.Millisecond).Seconds() }

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		*Report
		Ratio float64 `json:"ratio"`
		Rate  float64 `json:"bytes_per_second"`
	}{r, r.Ratio(), r.Rate()})
}

// WriteTable writes the report for a person.
func (r *Report) WriteTable(w io.Writer) error {
	mib := func(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
	limit := "none"
	if r.Limit > 0 {
		limit = mib(r.Limit) + "/s"
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "files\t%d, %s\n", r.Count, mib(r.Bytes))
	fmt.Fprintf(t, "over the network\t%s from %d nodes\n", mib(r.Files), r.Nodes)
	fmt.Fprintf(t, "network / files\t%.3f\n", r.Ratio())
	fmt.Fprintf(t, "beside that, by Raft\t%s\n", mib(r.Raft))
	fmt.Fprintf(t, "time until it served\t%v\n", r.Took.Round(10*time.Millisecond))
	fmt.Fprintf(t, "rate\t%s/s (limit: %s)\n", mib(int64(r.Rate())), limit)
	fmt.Fprintf(t, "kills\t%d, files resumed behind them: %d\n", r.Kills, r.Resumed)
	return t.Flush()
}
