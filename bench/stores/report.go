package stores

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"chorale/bench/meter"
)

// Report is the outcome of a run: medians of the rounds.
type Report struct {
	Stream       string `json:"stream"`
	Messages     uint64 `json:"messages"`
	Topics       uint32 `json:"topics"`
	PayloadBytes int64  `json:"payload_bytes"`
	Rounds       int    `json:"rounds"`

	Files      int   `json:"files"`
	Ranges     int   `json:"ranges"`
	FileBytes  int64 `json:"file_bytes"`
	Plans      int   `json:"plans"`
	WriteBytes int64 `json:"written_bytes"`
	// WriteAmplification is all bytes ever written to data files / bytes of segments.
	WriteAmplification float64 `json:"write_amplification"`

	Subtree     string  `json:"subtree"`
	Selectivity float64 `json:"selectivity"`
	Floor       Way     `json:"floor"`
	Everything  Way     `json:"everything"`
	Filtered    Way     `json:"filtered"`
	One         Way     `json:"one_subtree"`
	Each        Way     `json:"each_subtree"` // those of Many, one after the other
	Many        Way     `json:"many_subtrees"`
	Readers     int     `json:"readers"`
	// InSegments and InStores are the parts of Each, with nothing in the cache: of the
	// newest files, which are not compacted yet, and of the others.
	InSegments Part `json:"each_in_segments"`
	InStores   Part `json:"each_in_stores"`

	// Speedup and CPURatio are Filtered / One by wall and by CPU time.
	Speedup  float64 `json:"speedup"`
	CPURatio float64 `json:"cpu_ratio"`
	// ReadRatio is bytes read from files / bytes of delivered records, of One.
	ReadRatio float64 `json:"read_ratio"`
	// OfFloor is Floor / Everything by wall time.
	OfFloor float64 `json:"everything_of_floor"`
	// ManyRatio is CPU per delivered message of Many / Each.
	ManyRatio float64 `json:"many_cpu_ratio"`
}

// Way is what one way of reading took.
type Way struct {
	Delivered  int64   `json:"delivered"`
	ReadBytes  int64   `json:"read_bytes"`
	Bytes      int64   `json:"delivered_bytes"`
	WallMillis float64 `json:"wall_ms"`
	CPUMillis  float64 `json:"cpu_ms"`
	CPUPer     float64 `json:"cpu_ns_per_message"`
}

func wayOf(list []pass) Way {
	costs := make([]meter.Cost, len(list))
	for i, p := range list {
		costs[i] = p.Cost
	}
	c, p := meter.Median(costs), list[len(list)-1]
	return Way{
		Delivered: p.delivered, ReadBytes: p.read, Bytes: p.bytes,
		WallMillis: c.Wall.Seconds() * 1000, CPUMillis: c.CPU.Seconds() * 1000,
		CPUPer: meter.Per(c.CPU, int(p.delivered)),
	}
}

func (h *history) report(chosen []subtree, m measured) (r *Report, err error) {
	r = &Report{
		Stream: h.Data, Messages: h.next - 1, Topics: h.topics.Len(), PayloadBytes: h.payloadBytes, Rounds: h.Rounds,
		Plans: h.plans, WriteBytes: h.writtenBytes, WriteAmplification: ratio(float64(h.writtenBytes), float64(h.segmentBytes)),
		Subtree: chosen[0].filter, Selectivity: float64(chosen[0].messages) / float64(h.next-1), Readers: len(chosen),
		Floor: wayOf(m.floor), Everything: wayOf(m.all), Filtered: wayOf(m.filtered), One: wayOf(m.one), Each: wayOf(m.each), Many: wayOf(m.many),
	}
	manifest := h.log.Manifest()
	r.Files, r.Ranges = len(manifest.Files), len(manifest.Ranges())
	for _, f := range manifest.Files {
		r.FileBytes += f.Bytes
	}
	r.Speedup = ratio(r.Filtered.WallMillis, r.One.WallMillis)
	r.CPURatio = ratio(r.Filtered.CPUMillis, r.One.CPUMillis)
	r.ReadRatio = ratio(float64(r.One.ReadBytes), float64(r.One.Bytes))
	r.OfFloor = ratio(r.Floor.WallMillis, r.Everything.WallMillis)
	r.ManyRatio = ratio(r.Many.CPUPer, r.Each.CPUPer)
	r.InSegments, r.InStores, err = h.parts(chosen)
	return r, err
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return math.Inf(1)
	}
	return a / b
}

// WriteJSON prints the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

const mib = 1 << 20

// WriteTable prints the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%s: %d messages of %d topics, %d MiB of payloads; %d files in %d ranges, %d MiB; %d plans, every byte of a segment written %.2f times\n\n",
		r.Stream, r.Messages, r.Topics, r.PayloadBytes/mib, r.Files, r.Ranges, r.FileBytes/mib, r.Plans, r.WriteAmplification)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "way\tmessages\tread MiB\tdelivered MiB\twall ms\tCPU ms\tCPU ns/message\t")
	for _, l := range []struct {
		name string
		way  Way
	}{
		{"bare loop over all files", r.Floor},
		{"everything", r.Everything},
		{"everything, then filtered", r.Filtered},
		{"one subtree", r.One},
		{fmt.Sprintf("%d subtrees, one by one", r.Readers), r.Each},
		{fmt.Sprintf("%d subtrees at once", r.Readers), r.Many},
	} {
		x := l.way
		fmt.Fprintf(t, "%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.0f\t\n", l.name, x.Delivered, float64(x.ReadBytes)/mib, float64(x.Bytes)/mib, x.WallMillis, x.CPUMillis, x.CPUPer)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := r.writeParts(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, `
%s, %.2f %% of the messages: %.1f times as fast as filtering everything, %.1f times less CPU; bytes read / delivered %.2f
everything: %.2f of the rate of the bare loop
%d subtrees at once: %.2f of the CPU a message that they take one by one
`, r.Subtree, 100*r.Selectivity, r.Speedup, r.CPURatio, r.ReadRatio, r.OfFloor, r.Readers, r.ManyRatio)
	return err
}

func (r *Report) writeParts(w io.Writer) error {
	fmt.Fprintf(w, "\nof %d subtrees, one by one, with nothing in the cache\n", r.Readers)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "in\tfiles\twanted MiB\ttables MiB\tblocks MiB\tdecoded MiB\tread / wanted\tworst\t")
	for _, l := range []struct {
		name string
		part Part
	}{{"segments", r.InSegments}, {"stores", r.InStores}} {
		x := l.part
		fmt.Fprintf(t, "%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.2f\t%.2f\t\n", l.name, x.Files, float64(x.WantedBytes)/mib,
			float64(x.TableBytes)/mib, float64(x.BlockBytes)/mib, float64(x.DecodedBytes)/mib, x.Ratio, x.Worst)
	}
	return t.Flush()
}
