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
	// CPU is what it took until it served.
	CPU time.Duration `json:"ready_cpu_ns"`
	// Own is the memory of the process when it served, garbage included, Mapped what of
	// files was in memory beside it, as the Raft log that was replayed; OwnFilled and
	// MappedFilled are the same when the tip was filled, which then had Tip bytes of messages.
	Own          int64 `json:"own_bytes"`
	Mapped       int64 `json:"mapped_bytes"`
	OwnFilled    int64 `json:"own_filled_bytes"`
	MappedFilled int64 `json:"mapped_filled_bytes"`
	Tip          int64 `json:"tip_bytes"`
	// Live is what was alive of the heap, in which the tip's ring is not, when the node had
	// come to rest; State what of it was neither messages on their way to a file nor cache.
	Live  int64 `json:"live_bytes"`
	State int64 `json:"state_bytes"`
}

// PerTopic is the memory of one topic more, with its name: by how much the state of the node
// with many was larger than that of the one with few, behind a kill.
func (r *Report) PerTopic() float64 {
	few, many := r.Nodes[0], r.Nodes[len(r.Nodes)-1]
	last := func(n Node) int64 { return n.Starts[len(n.Starts)-1].State }
	return float64(last(many)-last(few)) / float64(max(many.Topics-few.Topics, 1))
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		*Report
		PerTopic float64 `json:"state_bytes_per_topic"`
	}{r, r.PerTopic()})
}

// WriteTable writes the report for a person.
func (r *Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	mib := func(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
	own := func(own, mapped int64) string { return fmt.Sprintf("%d + %s", own>>20, mib(mapped)) }
	fmt.Fprintln(t, "TOPICS\tFILES\tBEHIND\tANSWERS\tREADY\tCPU\tTIP FILLED\tTIP\tRESIDENT, READY\tFILLED\tLIVE\tSTATE")
	for _, n := range r.Nodes {
		for _, s := range n.Starts {
			fmt.Fprintf(t, "%d\t%d, %s\t%s\t%v\t%v\t%v\t%v\t%s\t%s\t%s\t%s\t%s\n", n.Topics, n.Files, mib(n.FileBytes), s.Behind,
				round(s.Answers), round(s.Ready), round(s.CPU), round(s.Filled), mib(s.Tip),
				own(s.Own, s.Mapped), own(s.OwnFilled, s.MappedFilled), mib(s.Live), mib(s.State))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d messages of %d bytes; one topic more takes %.0f bytes of state, its name included; resident is own memory + mapped files\n", r.Messages, r.Payload, r.PerTopic())
	return err
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
