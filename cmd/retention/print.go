package retention

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"chorale/api"
	"chorale/cmd/settings"
	"chorale/cmd/show"
	"chorale/retention"
)

// limits is a line of the table: what is asked of a filter, and what has gone of it.
type limits struct {
	Filter   string `json:"filter"`
	MaxAge   int64  `json:"max_age"` // ns
	MaxBytes uint64 `json:"max_bytes"`
	// Floor is the seq before which everything has gone; 0 or 1 is nothing.
	Floor uint64 `json:"gone_before"`
}

// listed are the limit of the stream and the rules, and the floors of filters without one.
func listed(kept *api.GetRetentionResponse) (policies, cleared []limits) {
	var floors []retention.Floor
	ruled := map[string]bool{}
	for _, f := range kept.Floors {
		floors = append(floors, retention.Floor{Filter: f.Filter, Seq: f.Seq})
	}
	all := retention.NewFloors(floors)
	for _, p := range kept.Policies {
		policies = append(policies, limits{p.Filter, p.MaxAge, p.MaxBytes, kept.OldestSeq})
	}
	for _, p := range kept.Rules {
		ruled[p.Filter] = true
		policies = append(policies, limits{p.Filter, p.MaxAge, p.MaxBytes, all.Of(p.Filter)})
	}
	for _, f := range kept.Floors {
		if !ruled[f.Filter] {
			cleared = append(cleared, limits{Filter: f.Filter, Floor: f.Seq})
		}
	}
	return policies, cleared
}

func printKept(w io.Writer, kept *api.GetRetentionResponse) error {
	var b strings.Builder
	policies, cleared := listed(kept)
	if len(policies) == 0 {
		b.WriteString("no policy: everything is kept\n")
	}
	if len(policies)+len(cleared) > 0 {
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "FILTER\tAGE\tBYTES\tGONE")
		for _, p := range policies {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", p.Filter, age(p.MaxAge), size(p.MaxBytes), gone(p.Floor))
		}
		for _, p := range cleared {
			fmt.Fprintf(table, "%s\t-\t-\t%s, by a policy that is cleared\n", p.Filter, gone(p.Floor))
		}
		table.Flush()
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "oldest  seq %s", show.Count(kept.OldestSeq))
	if kept.OldestTime > 0 {
		fmt.Fprintf(&b, " of %s", time.Unix(0, kept.OldestTime).Format(time.DateTime))
	}
	fmt.Fprintf(&b, "\nfiles   %s\n", show.Bytes(kept.Bytes))
	_, err := io.WriteString(w, b.String())
	return err
}

func age(ns int64) string {
	if ns == 0 {
		return "-"
	}
	return settings.DurationString(time.Duration(ns))
}

func size(bytes uint64) string {
	if bytes == 0 {
		return "-"
	}
	return show.Bytes(bytes)
}

func gone(floor uint64) string {
	if floor <= 1 {
		return "nothing"
	}
	return "before seq " + show.Count(floor)
}

// jsonKept is what is kept, on stdout. Times are ns.
type jsonKept struct {
	Policies    []limits `json:"policies"`
	OldestSeq   uint64   `json:"oldest_seq"`
	OldestTime  int64    `json:"oldest_time"`
	Bytes       uint64   `json:"bytes"`
	Cleared     []limits `json:"cleared"`
	RulesNumber uint64   `json:"rules_number"`
}

func printKeptJSON(w io.Writer, kept *api.GetRetentionResponse) error {
	policies, cleared := listed(kept)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(jsonKept{
		append([]limits{}, policies...), kept.OldestSeq, kept.OldestTime, kept.Bytes, append([]limits{}, cleared...), kept.RulesNumber,
	})
}
