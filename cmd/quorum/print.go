package quorum

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"chorale/cmd/show"
	"chorale/node/quorum"
)

func printJSON(w io.Writer, reports []quorum.Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(reports)
}

// table prints reports, the best one first.
func table(w io.Writer, reports []quorum.Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FOLDER\tNODE\tLAST ENTRY\tNEWEST TERM\tSNAPSHOT\tMESSAGES\tNEWEST\tFILES MISSING\tVOTERS\tFIT")
	for i, r := range reports {
		fit := "yes"
		switch {
		case r.Problem != "":
			fit = "no: " + r.Problem
		case i == 0 && len(reports) > 1:
			fit = "yes, the best of these"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Folder, r.Node, entry(r.LastIndex, r.LastTerm), r.Term,
			entry(r.SnapshotIndex, r.SnapshotTerm), messages(r), newest(r), missing(r), names(r, true), fit)
	}
	return t.Flush()
}

// details prints one report.
func details(w io.Writer, r quorum.Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{
		{"folder", r.Folder}, {"node", r.Node}, {"cluster", r.Cluster},
		{"last entry", entry(r.LastIndex, r.LastTerm)},
		{"newest term", show.Count(r.Term)},
		{"snapshot", entry(r.SnapshotIndex, r.SnapshotTerm)},
		{"messages", messages(r)},
		{"newest", newest(r)},
		{"sure", sure(r)},
		{"files missing", missing(r)},
		{"voters", names(r, true)},
		{"non-voters", names(r, false)},
	} {
		fmt.Fprintf(t, "%s\t%s\n", row[0], row[1])
	}
	for _, f := range r.Missing {
		fmt.Fprintf(t, "missing\tsegments/%s\n", f.Name)
	}
	if r.Unfinished {
		fmt.Fprintf(t, "unfinished\tan earlier recovery of this folder broke off: this one ends it\n")
	}
	return t.Flush()
}

// consequences prints what a recovery does with this folder.
func consequences(w io.Writer, r quorum.Report) error {
	var others []string
	for _, s := range r.Servers {
		if s.ID != r.Node {
			others = append(others, s.ID)
		}
	}
	lines := []string{"", "What will be:"}
	if len(others) > 0 {
		lines = append(lines, fmt.Sprintf("- node %s alone votes. Removed, and with their old folders never taken back: %s", r.Node, strings.Join(others, ", ")),
			"- old folders that are a majority of the old voters would go on as the old cluster, and what is published to them is lost: empty those of all others, or move them away, before this node starts")
	}
	lines = append(lines, fmt.Sprintf("- acknowledged messages that never came to this node are lost, those behind message %s", show.Count(r.LastSeq)))
	if r.LastSeq > r.SureSeq {
		lines = append(lines, fmt.Sprintf("- messages %s to %s are kept, though some may never have been acknowledged", show.Count(r.SureSeq+1), show.Count(r.LastSeq)))
	}
	if n := len(r.Missing); n > 0 {
		lines = append(lines, fmt.Sprintf("- %s missing, and their messages cannot be read until somebody copies them into the folder", show.Plural(uint64(n), "file")+is(n)))
	}
	lines = append(lines, "- the cluster gets a new id: nodes and positions of the old one are refused")
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

func is(n int) string {
	if n == 1 {
		return " is"
	}
	return " are"
}

func entry(index, term uint64) string {
	if index == 0 {
		return "none"
	}
	return fmt.Sprintf("%s of term %s", show.Count(index), show.Count(term))
}

func messages(r quorum.Report) string {
	if r.LastSeq == 0 {
		return "none"
	}
	return fmt.Sprintf("%s to %s", show.Count(r.OldestSeq), show.Count(r.LastSeq))
}

func newest(r quorum.Report) string {
	if r.LastTime == 0 {
		return "-"
	}
	return time.Unix(0, r.LastTime).UTC().Format(time.RFC3339)
}

func sure(r quorum.Report) string {
	switch r.SureSeq {
	case r.LastSeq:
		return "all of them: a majority had them"
	case 0:
		return "none; whether a majority had them is written nowhere"
	}
	return fmt.Sprintf("up to %s; whether a majority had those behind it is written nowhere", show.Count(r.SureSeq))
}

func missing(r quorum.Report) string {
	var bytes uint64
	for _, f := range r.Missing {
		bytes += uint64(f.Bytes)
	}
	if len(r.Missing) == 0 {
		return "none"
	}
	return fmt.Sprintf("%s, %s", show.Count(uint64(len(r.Missing))), show.Bytes(bytes))
}

// names are those of the voters, or of the others.
func names(r quorum.Report, voters bool) string {
	var out []string
	for _, s := range r.Servers {
		if s.Voter == voters {
			out = append(out, s.ID)
		}
	}
	if len(out) == 0 {
		return "-"
	}
	return strings.Join(out, ", ")
}
