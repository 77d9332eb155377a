package month

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
	"text/tabwriter"

	"chorale/compactor"
)

// Report is what became of a month.
type Report struct {
	Options `json:"-"`
	Days    []Day `json:"days"`
}

// Day is how things stand when a day ends.
type Day struct {
	Number int `json:"day"`
	// Bytes of the stream since the beginning; InSegments are those that are not
	// compacted.
	Bytes      int64 `json:"stream_bytes"`
	InSegments int64 `json:"bytes_in_segments"`
	// Ranges by level: segments first.
	Ranges []int `json:"ranges"`
	// Files now, the most of them in the day, and how many there may be.
	Files     int `json:"files"`
	MostFiles int `json:"most_files"`
	Budget    int `json:"files_allowed"`
	// Written is how often a byte of the stream was written, on average.
	Written float64 `json:"written_for_a_byte"`
	// Topics and Subtrees are the bytes that are read for a byte that is wanted, through
	// the block index, by readers of all compacted history of each topic of at least 1 MiB
	// and of each subtree of at least 16 MiB.
	Topics   float64 `json:"topic_amplification"`
	Subtrees float64 `json:"subtree_amplification"`
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTable writes the report for a person.
func (r *Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "day\tGiB\tsegments\tlevel 1\tlevel 2\tlevel 3\tfiles\tmost\twritten\ttopics read\tsubtrees read\t")
	for _, d := range r.Days {
		fmt.Fprintf(t, "%d\t%.1f\t", d.Number, float64(d.Bytes)/(1<<30))
		for _, n := range d.Ranges {
			fmt.Fprintf(t, "%d\t", n)
		}
		fmt.Fprintf(t, "%d\t%d\t%.2f\t%.3f\t%.3f\t\n", d.Files, d.MostFiles, d.Written, d.Topics, d.Subtrees)
	}
	return t.Flush()
}

//go:embed plot.svg
var plotSource string

var plot = template.Must(template.New("plot").Parse(plotSource))

// The plot's measures, in units of the drawing.
const (
	plotLeft, plotWidth   = 70, 560
	panelHeight, panelGap = 90, 44
)

type panel struct {
	Title          string
	Top, Base      int
	Lines          []curve
	Bars           []bar
	Limit          string // the y of a bound, "" for none
	LimitText      string
	Most, Least    string // of the axis
	Left, Right, W int
}

type curve struct{ Class, Points string }

type bar struct{ X, Y, W, H string }

// WritePlot draws the month as an SVG picture.
func (r *Report) WritePlot(w io.Writer) error {
	values := func(of func(Day) float64) (out []float64) {
		for _, d := range r.Days {
			out = append(out, of(d))
		}
		return out
	}
	perDay := values(func(d Day) float64 { return float64(d.Bytes) / (1 << 30) })
	for i := len(perDay) - 1; i > 0; i-- {
		perDay[i] -= perDay[i-1]
	}
	panels := []panel{
		{Title: "GiB published, each day"},
		{Title: "data files: at the end of the day, and the most in it"},
		{Title: "times that a byte of the stream was written", LimitText: fmt.Sprintf("bound: %d", compactor.TopLevel+1)},
		{Title: "bytes read for a byte wanted: of topics from 1 MiB, of subtrees from 16 MiB (dashed)"},
	}
	for i := range panels {
		p := &panels[i]
		p.Top = 40 + i*(panelHeight+panelGap)
		p.Base, p.Left, p.W, p.Right = p.Top+panelHeight, plotLeft, plotWidth, plotLeft+plotWidth
	}
	panels[0].bars(perDay)
	panels[1].curves(0, 0, values(func(d Day) float64 { return float64(d.Files) }), values(func(d Day) float64 { return float64(d.MostFiles) }))
	panels[2].curves(0, compactor.TopLevel+1.5, values(func(d Day) float64 { return d.Written }))
	panels[2].Limit = panels[2].y(compactor.TopLevel+1, 0, compactor.TopLevel+1.5)
	panels[3].curves(1, 0, values(func(d Day) float64 { return d.Topics }), values(func(d Day) float64 { return d.Subtrees }))
	last := panels[len(panels)-1]
	return plot.Execute(w, map[string]any{"Panels": panels, "Height": last.Base + 30, "Days": len(r.Days), "Foot": last.Base + 18})
}

// y is the place of a value on an axis from least to most.
func (p *panel) y(v, least, most float64) string {
	return fmt.Sprintf("%.1f", float64(p.Base)-(v-least)/(most-least)*panelHeight)
}

// curves draws one value a day each; a most of 0 is the largest value.
func (p *panel) curves(least, most float64, all ...[]float64) {
	if most == 0 {
		for _, values := range all {
			for _, v := range values {
				most = max(most, v*1.1)
			}
		}
		most = max(most, least+0.1)
	}
	for i, values := range all {
		var points strings.Builder
		for day, v := range values {
			x := plotLeft + (float64(day)+0.5)*plotWidth/float64(len(values))
			fmt.Fprintf(&points, "%.1f,%s ", x, p.y(v, least, most))
		}
		p.Lines = append(p.Lines, curve{[]string{"first", "second"}[i], strings.TrimSpace(points.String())})
	}
	p.Least, p.Most = fmt.Sprintf("%.4g", least), fmt.Sprintf("%.4g", most)
}

func (p *panel) bars(values []float64) {
	most := 0.1
	for _, v := range values {
		most = max(most, v)
	}
	width := plotWidth / float64(len(values))
	for day, v := range values {
		h := v / most * panelHeight
		p.Bars = append(p.Bars, bar{
			fmt.Sprintf("%.1f", plotLeft+float64(day)*width+1), fmt.Sprintf("%.1f", float64(p.Base)-h), fmt.Sprintf("%.1f", width-2), fmt.Sprintf("%.1f", h),
		})
	}
	p.Least, p.Most = "0", fmt.Sprintf("%.3g", most)
}
