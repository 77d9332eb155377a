package layout

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"chorale/compactor"
)

// WriteTable prints the comparison for a person.
func (c Comparison) WriteTable(w io.Writer) error {
	bytes := uint64(0)
	for _, v := range c.Tree.Topics {
		bytes += v.Bytes
	}
	fmt.Fprintf(w, "%s: %d topics, %s\n", c.Stream, len(c.Tree.Topics), Bytes(float64(bytes)))
	sections := []struct {
		title string
		of    func(Layout) (plain, indexed compactor.Lens)
	}{
		{"Each topic read once", func(l Layout) (compactor.Lens, compactor.Lens) { return l.Topics, l.TopicsIndexed }},
		{"Each subtree read once", func(l Layout) (compactor.Lens, compactor.Lens) { return l.Subtrees, l.SubtreesIndexed }},
	}
	for i, s := range sections {
		fmt.Fprintf(w, "\n%s\n", s.title)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "algorithm\tstores\tsum of waste\tmost waste\tworst ratio\tmedian\tp99\tamplification\twith block index\t")
		for _, l := range c.Layouts {
			if l.Split == nil {
				if i == 0 {
					fmt.Fprintf(t, "%s\t%d\t%s\t\t\t\t\t\t\t\n", l.Name, l.Stores, Bytes(l.TopicWaste))
				}
				continue
			}
			plain, indexed := s.of(l)
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", l.Name, l.Stores, Bytes(plain.SumWaste),
				Bytes(plain.MaxWaste), ratio(plain.WorstRatio), ratio(plain.MedianRatio), ratio(plain.P99Ratio),
				ratio(plain.Amplification), ratio(indexed.Amplification))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		for _, l := range c.Layouts {
			if plain, _ := s.of(l); l.Split != nil && plain.MaxWaste > 0 {
				fmt.Fprintf(w, "%s: most waste %s, worst ratio %s\n", l.Name, plain.MaxWasteOf, plain.WorstRatioOf)
			}
		}
	}
	return nil
}

type jsonComparison struct {
	Stream     string       `json:"stream"`
	Topics     int          `json:"topics"`
	Algorithms []jsonLayout `json:"algorithms"`
}

type jsonLayout struct {
	Name          string    `json:"name"`
	Stores        int       `json:"stores"`
	SumWaste      float64   `json:"sum_waste_bytes"`
	MaxWaste      float64   `json:"max_waste_bytes"`
	WorstRatio    float64   `json:"worst_ratio"`
	Amplification float64   `json:"byte_weighted_amplification"`
	Topics        *jsonLens `json:"topics,omitempty"`
	Subtrees      *jsonLens `json:"subtrees,omitempty"`
}

type jsonLens struct {
	Readers              int     `json:"readers"`
	SumWaste             float64 `json:"sum_waste_bytes"`
	MaxWaste             float64 `json:"max_waste_bytes"`
	MaxWasteOf           string  `json:"max_waste_of"`
	WorstRatio           float64 `json:"worst_ratio"`
	WorstRatioOf         string  `json:"worst_ratio_of"`
	MedianRatio          float64 `json:"median_ratio"`
	P99Ratio             float64 `json:"p99_ratio"`
	Amplification        float64 `json:"byte_weighted_amplification"`
	IndexedAmplification float64 `json:"block_index_amplification"`
	IndexedWorstRatio    float64 `json:"block_index_worst_ratio"`
}

func lensJSON(plain, indexed compactor.Lens) *jsonLens {
	return &jsonLens{
		Readers: plain.Readers, SumWaste: plain.SumWaste, MaxWaste: plain.MaxWaste, MaxWasteOf: plain.MaxWasteOf,
		WorstRatio: plain.WorstRatio, WorstRatioOf: plain.WorstRatioOf, MedianRatio: plain.MedianRatio,
		P99Ratio: plain.P99Ratio, Amplification: plain.Amplification,
		IndexedAmplification: indexed.Amplification, IndexedWorstRatio: indexed.WorstRatio,
	}
}

func (c Comparison) json() jsonComparison {
	out := jsonComparison{Stream: c.Stream, Topics: len(c.Tree.Topics)}
	for _, l := range c.Layouts {
		j := jsonLayout{
			Name: l.Name, Stores: l.Stores, SumWaste: l.TopicWaste, MaxWaste: l.Topics.MaxWaste,
			WorstRatio: l.Topics.WorstRatio, Amplification: l.Topics.Amplification,
		}
		if l.Split != nil {
			j.Topics, j.Subtrees = lensJSON(l.Topics, l.TopicsIndexed), lensJSON(l.Subtrees, l.SubtreesIndexed)
		}
		out.Algorithms = append(out.Algorithms, j)
	}
	return out
}

// WriteJSON prints the comparison for a program. Ratios of the lower bound are 0:
// it has no layout.
func (c Comparison) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(c.json())
}

// Bytes shows a number of bytes with three digits and a decimal unit.
func Bytes(b float64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	unit := 0
	for b >= 999.5 && unit < len(units)-1 {
		b, unit = b/1000, unit+1
	}
	return threeDigits(b) + " " + units[unit]
}

func ratio(r float64) string { return threeDigits(r) }

func threeDigits(v float64) string {
	switch {
	case v >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}
