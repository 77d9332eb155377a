package away

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Report is the outcome of a run.
type Report struct {
	Published int `json:"published_per_second"`
	Payload   int `json:"payload_bytes"`
	// Away is how long the node was away, Missed how many messages it lacked when it
	// returned.
	Away   time.Duration `json:"away_ns"`
	Missed int           `json:"missed_messages"`
	// Took is from its start until it was as far as the leader and had all files; Caught is how
	// many messages it got in that time: those that it had missed, and those that came.
	Took   time.Duration `json:"took_ns"`
	Caught int           `json:"caught_messages"`
	// Snapshots is how many it was sent since the log behind its own end was gone, Kills
	// how often it was killed on its way.
	Snapshots int `json:"snapshots"`
	Kills     int `json:"kills"`
	// GapAway and GapBack are the longest times without an acknowledgement while it was away
	// and while it caught up.
	GapAway time.Duration `json:"gap_away_ns"`
	GapBack time.Duration `json:"gap_back_ns"`
	// Files is how many each node has in the end, all alike.
	Files int `json:"files"`
}

// Ratio is how much faster messages came to the node than they were published.
func (r *Report) Ratio() float64 {
	return float64(r.Caught) / max(r.Took, time.Millisecond).Seconds() / float64(max(r.Published, 1))
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		*Report
		Ratio float64 `json:"ratio"`
	}{r, r.Ratio()})
}

// WriteTable writes the report for a person.
func (r *Report) WriteTable(w io.Writer) error {
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PUBLISHED\tAWAY\tMISSED\tCAUGHT UP IN\tGOT\tTIMES THE RATE\tSNAPSHOTS\tKILLS\tGAP, AWAY\tGAP, BACK")
	fmt.Fprintf(t, "%d/s\t%v\t%d\t%v\t%d\t%.1f\t%d\t%d\t%v\t%v\n", r.Published, r.Away, r.Missed, ms(r.Took), r.Caught, r.Ratio(), r.Snapshots, r.Kills, ms(r.GapAway), ms(r.GapBack))
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nmessages of %d bytes; in the end all nodes have the same %d files\n", r.Payload, r.Files)
	return err
}
