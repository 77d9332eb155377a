package startup

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Report is the outcome of a run.
type Report struct {
	Messages int    `json:"messages"`
	Payload  int    `json:"payload_bytes"`
	Nodes    []Node `json:"nodes"` // with few topics, and with many
}

// Node is what was started.
type Node struct {
	Topics    int     `json:"topics"`
	Files     int     `json:"files"`
	FileBytes int64   `json:"file_bytes"`
	Starts    []Start `json:"starts"`
}

// Start is one start. Times are from the start of the process on.
type Start struct {
	// Behind is how the process before it ended.
	Behind string `json:"behind"`
	// Answers is when it answered at all, Ready when it served, Filled when its tip was
	// as full as a start makes it.
	Answers time.Duration `json:"answers_ns"`
	Ready   time.Duration `json:"ready_ns"`
	Filled  time.Duration `json:"filled_ns"`
	// Resident is the memory of the process when it served, ResidentFilled when the tip
	// was filled, which then had Tip bytes of messages.
	Resident       int64 `json:"resident_bytes"`
	ResidentFilled int64 `json:"resident_filled_bytes"`
	Tip            int64 `json:"tip_bytes"`
}

// PerTopic is the memory of one topic more, with its name: from what the node with many took
// more than the one with few when each served, behind a kill.
func (r *Report) PerTopic() float64 {
	few, many := r.Nodes[0], r.Nodes[len(r.Nodes)-1]
	last := func(n Node) int64 { return n.Starts[len(n.Starts)-1].Resident }
	return float64(last(many)-last(few)) / float64(max(many.Topics-few.Topics, 1))
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		*Report
		PerTopic float64 `json:"resident_bytes_per_topic"`
	}{r, r.PerTopic()})
}

// WriteTable writes the report for a person.
func (r *Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	mib := func(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
	fmt.Fprintln(t, "TOPICS\tFILES\tBEHIND\tANSWERS\tREADY\tTIP FILLED\tTIP\tRESIDENT, READY\tFILLED")
	for _, n := range r.Nodes {
		for _, s := range n.Starts {
			fmt.Fprintf(t, "%d\t%d, %s\t%s\t%v\t%v\t%v\t%s\t%s\t%s\n", n.Topics, n.Files, mib(n.FileBytes), s.Behind,
				round(s.Answers), round(s.Ready), round(s.Filled), mib(s.Tip), mib(s.Resident), mib(s.ResidentFilled))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d messages of %d bytes; one topic more takes %.0f bytes of resident memory, its name included\n", r.Messages, r.Payload, r.PerTopic())
	return err
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
