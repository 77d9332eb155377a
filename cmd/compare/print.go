package compare

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"chorale/cmd/show"
)

// Print prints what was compared, for a person.
func Print(w io.Writer, r Result, names [2]string, d *Difference) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CLUSTER\tMESSAGES\tADDRESS")
	for i := range names {
		messages := "none"
		if r.Kept[i][1] >= max(r.Kept[i][0], 1) {
			messages = show.Count(r.Kept[i][0]) + " to " + show.Count(r.Kept[i][1])
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", r.Clusters[i], messages, names[i])
	}
	switch {
	case r.Last < r.First:
		fmt.Fprintln(t, "\nThere is no message that both have.")
	case d != nil:
		fmt.Fprintf(t, "\nMessages %s to %s were to be compared; %v.\n", show.Count(r.First), show.Count(r.Last), d)
	default:
		fmt.Fprintf(t, "\nMessages %s to %s are identical, %s of payloads.\n", show.Count(r.First), show.Count(r.Last), show.Bytes(uint64(r.Bytes)))
	}
	if r.Gone > 0 {
		fmt.Fprintf(t, "%s of them could not be compared: the retention of subtrees has let them go on one side or both.\n", show.Count(r.Gone))
	}
	return t.Flush()
}

// PrintJSON prints the same as an object.
func PrintJSON(w io.Writer, r Result, names [2]string, d *Difference) error {
	type side struct {
		Cluster string `json:"cluster_id"`
		Address string `json:"address"`
		Oldest  uint64 `json:"oldest_seq"`
		Last    uint64 `json:"last_seq"`
	}
	out := struct {
		Sides     [2]side `json:"clusters"`
		First     uint64  `json:"first_seq"`
		Last      uint64  `json:"last_seq"`
		Bytes     int64   `json:"payload_bytes"`
		Gone      uint64  `json:"gone"`
		Identical bool    `json:"identical"`
		Seq       uint64  `json:"difference_seq,omitempty"`
		What      string  `json:"difference,omitempty"`
	}{First: r.First, Last: r.Last, Bytes: r.Bytes, Gone: r.Gone, Identical: d == nil}
	for i, name := range names {
		out.Sides[i] = side{r.Clusters[i], name, r.Kept[i][0], r.Kept[i][1]}
	}
	if d != nil {
		out.Seq, out.What = d.Seq, d.What
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(out)
}
