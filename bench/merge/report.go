package merge

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Report is the outcome of a contest.
type Report struct {
	Chosen   string  `json:"chosen"`
	Messages int     `json:"messages"`
	Density  float64 `json:"density"`
	Rounds   int     `json:"rounds"`
	// Merges are the results of fully interleaved sources, Shapes those of the others.
	Merges []Result            `json:"merges"`
	Shapes map[string][]Result `json:"shapes"`
	Floor  []Floor             `json:"floor"`
}

// Result is what one merge took, per message: CPU time, and allocations.
type Result struct {
	Name    string  `json:"name"`
	Sources int     `json:"sources"`
	Nanos   float64 `json:"ns_per_message"`
	Allocs  float64 `json:"allocs_per_message"`
}

// Floor is what copying records takes: from a prepared list of positions, and with
// the chosen merge before it.
type Floor struct {
	Sources  int     `json:"sources"`
	Prepared float64 `json:"prepared_list_ns_per_message"`
	Merged   float64 `json:"chosen_ns_per_message"`
}

func (r *Report) add(s Shape, one Result) {
	if s.Name == Interleaved {
		r.Merges = append(r.Merges, one)
		return
	}
	if r.Shapes == nil {
		r.Shapes = map[string][]Result{}
	}
	r.Shapes[s.Name] = append(r.Shapes[s.Name], one)
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTable writes the report for a person: a table a shape, a line a merge, a
// column a number of sources.
func (r *Report) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "CPU nanoseconds a message, %d messages, %g of the ring wanted, median of %d\n", r.Messages, r.Density, r.Rounds)
	for _, s := range Shapes() {
		results := r.Shapes[s.Name]
		if s.Name == Interleaved {
			results = r.Merges
		}
		if err := writeShape(w, s.Name, results); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\nwith the copying of the records\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "sources\tfrom a prepared list\twith %s\tratio\t\n", r.Chosen)
	for _, f := range r.Floor {
		fmt.Fprintf(t, "%d\t%.1f\t%.1f\t%.2f\t\n", f.Sources, f.Prepared, f.Merged, f.Merged/f.Prepared)
	}
	return t.Flush()
}

func writeShape(w io.Writer, name string, results []Result) error {
	var sources []int
	byName := map[string]map[int]Result{}
	for _, r := range results {
		if byName[r.Name] == nil {
			byName[r.Name] = map[int]Result{}
		}
		byName[r.Name][r.Sources] = r
		if !slices.Contains(sources, r.Sources) {
			sources = append(sources, r.Sources)
		}
	}
	fmt.Fprintf(w, "\n%s\n", name)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "sources\t")
	for _, k := range sources {
		fmt.Fprintf(t, "%d\t", k)
	}
	fmt.Fprintln(t)
	for _, e := range Entrants() {
		fmt.Fprintf(t, "%s\t", e.Name)
		for _, k := range sources {
			fmt.Fprintf(t, "%.1f\t", byName[e.Name][k].Nanos)
		}
		fmt.Fprintln(t)
	}
	fmt.Fprint(t, Boxed+" / "+Chosen+"\t")
	for _, k := range sources {
		fmt.Fprintf(t, "%.1f\t", byName[Boxed][k].Nanos/byName[Chosen][k].Nanos)
	}
	fmt.Fprintln(t)
	return t.Flush()
}
