package tipbench

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"chorale/bench/meter"
	"chorale/tip"
)

// Report is the outcome of a run.
type Report struct {
	Rounds    int      `json:"rounds"`
	Scenarios []Result `json:"scenarios"`
	// Skipped are scenarios that the stream cannot give.
	Skipped []string `json:"skipped,omitempty"`
}

// Result is what a scenario took: medians of the rounds, per delivered message
// unless the name says otherwise. "index" is the product's own choice, "merge" the
// partition indexes whatever the plan says.
type Result struct {
	Scenario
	Delivered int     `json:"delivered"` // by all readers, in one round
	LinearCPU float64 `json:"linear_cpu_ns_per_message"`
	IndexCPU  float64 `json:"index_cpu_ns_per_message"`
	// ColdCPU is IndexCPU with nothing of the recovery in the processor's cache.
	ColdCPU    float64 `json:"index_cold_cpu_ns_per_message"`
	MergeCPU   float64 `json:"merge_cpu_ns_per_message"`
	LinearWall float64 `json:"linear_wall_ns_per_message"`
	IndexWall  float64 `json:"index_wall_ns_per_message"`
	// Ratio and ColdRatio are linear / index and linear / cold by CPU time.
	Ratio     float64 `json:"ratio"`
	ColdRatio float64 `json:"cold_ratio"`
	// Better is the cheaper of linear and merge / index: below 0.95 the plan chose
	// wrongly.
	Better float64 `json:"better_ratio"`
	// TurnsCPU is IndexCPU with one reader waiting for the other, AtOnce IndexCPU / it: 1
	// if many readers cost what they deliver. 0 with one reader.
	TurnsCPU   float64   `json:"index_in_turn_cpu_ns_per_message,omitempty"`
	AtOnce     float64   `json:"at_once_ratio,omitempty"`
	Allocs     float64   `json:"index_allocs_per_recovery"`
	AllocBytes float64   `json:"index_alloc_bytes_per_recovery"`
	Evicted    int       `json:"evicted"` // times a reader was overtaken
	Appended   *Appended `json:"appended,omitempty"`
	Stats      Stats     `json:"tip"`
}

// Stats is the tip's memory after a scenario.
type Stats struct {
	Messages   uint64 `json:"messages"`
	Bytes      int64  `json:"bytes"`
	IndexBytes int64  `json:"index_bytes"`
	Blocks     int    `json:"blocks"`
	FreeBlocks int    `json:"free_blocks"`
	HighWater  int    `json:"high_water"`
	Partitions int    `json:"partitions"`
}

// blockBytes is the size of a whole block's entries.
const blockBytes = 8 << 10

func statsOf(s tip.Stats) Stats {
	return Stats{
		Messages: s.Head + 1 - s.Floor, Bytes: s.Bytes, IndexBytes: int64(s.Blocks) * blockBytes,
		Blocks: s.Blocks, FreeBlocks: s.FreeBlocks, HighWater: s.HighWater, Partitions: s.Partitions,
	}
}

// set fills in the medians.
func (r *Result) set(p passes) {
	cost := func(list []pass) (c meter.Cost, delivered int) {
		costs := make([]meter.Cost, len(list))
		for i, p := range list {
			costs[i] = p.Cost
			delivered += p.delivered
			r.Evicted += p.evicted
		}
		return meter.Median(costs), delivered / len(list)
	}
	l, ln := cost(p.linear)
	i, in := cost(p.planned)
	c, cn := cost(p.cold)
	m, mn := cost(p.indexed)
	r.Delivered = in
	r.LinearCPU, r.LinearWall = meter.Per(l.CPU, ln), meter.Per(l.Wall, ln)
	r.IndexCPU, r.IndexWall = meter.Per(i.CPU, in), meter.Per(i.Wall, in)
	r.ColdCPU = meter.Per(c.CPU, cn)
	r.MergeCPU = meter.Per(m.CPU, mn)
	if r.IndexCPU > 0 {
		r.Ratio = r.LinearCPU / r.IndexCPU
		r.ColdRatio = r.LinearCPU / r.ColdCPU
		r.Better = min(r.LinearCPU, r.MergeCPU) / r.IndexCPU
	}
	if len(p.turns) > 0 {
		t, tn := cost(p.turns)
		r.TurnsCPU = meter.Per(t.CPU, tn)
		r.AtOnce = r.IndexCPU / r.TurnsCPU
	}
	r.Allocs = float64(i.Allocs) / float64(r.Readers)
	r.AllocBytes = float64(i.Bytes) / float64(r.Readers)
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTable writes the report for a person.
func (r *Report) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "nanoseconds a delivered message, median of %d rounds; index is what the product does, cold the\nsame with nothing of it in the processor's cache, merge the indexes whatever the plan says,\nat once index over the same with one reader waiting for the other; append / alone: nanoseconds\nan appended message beside the readers and without, and half of the rounds' ratios lie in brackets\n\n", r.Rounds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "MiB\tpayload\tpartitions\treaders\twanted\tdelivered\tlinear\tindex\tlinear/index\tcold\tlinear/cold\tmerge\tbest/index\tat once\tallocs\tfell\tindex MiB\tappend / alone\t")
	for _, s := range r.Scenarios {
		appended, atOnce := "-", "-"
		if s.AtOnce > 0 {
			atOnce = fmt.Sprintf("%.2f", s.AtOnce)
		}
		if s.Appended != nil {
			a := s.Appended
			appended = fmt.Sprintf("%.0f / %.0f = %.2f (%.2f to %.2f)", a.Nanos, a.Alone, a.Ratio, a.RatioLow, a.RatioHigh)
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%g\t%d\t%.1f\t%.1f\t%.2f\t%.1f\t%.2f\t%.1f\t%.2f\t%s\t%.0f\t%d\t%.1f\t%s\t\n",
			s.RingBytes>>20, s.MessageBytes, s.Partitions, s.Readers, s.Selectivity, s.Delivered,
			s.LinearCPU, s.IndexCPU, s.Ratio, s.ColdCPU, s.ColdRatio, s.MergeCPU, s.Better, atOnce, s.Allocs, s.Evicted,
			float64(s.Stats.IndexBytes)/(1<<20), appended)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(w, "skipped: %s\n", s)
	}
	return nil
}
