package show

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"chorale/api"

	"google.golang.org/protobuf/encoding/protojson"
)

// ExplanationJSON prints all of an explanation, gathered in one response, as an object.
func ExplanationJSON(w io.Writer, x *api.ExplainResponse) error {
	b, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(x)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}

// Explanation prints what a subscription would read as a table, a line a range of the
// stream, and what all of it comes to. Ranges that are not touched share a line.
func Explanation(w io.Writer, x *api.ExplainResponse) error {
	o, t := x.Opened, x.Total
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", strings.Join(o.Filters, " "))
	if len(x.Parts) == 0 {
		fmt.Fprintf(&b, "behind seq %s on node %s: nothing is there yet\n", Count(o.AfterSeq), o.NodeId)
		_, err := io.WriteString(w, b.String())
		return err
	}
	fmt.Fprintf(&b, "seq %s to %s on node %s\n\n", Count(o.AfterSeq+1), Count(x.Parts[len(x.Parts)-1].LastSeq), o.NodeId)
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "FROM SEQ\tTO SEQ\tIN\tFILES\tBLOCKS\tREAD\tDECODED\tDELIVER\tMESSAGES\t")
	for parts := x.Parts; len(parts) > 0; {
		n := untouched(parts)
		p, last := parts[0], parts[n-1].LastSeq
		fmt.Fprintf(table, "%s\t%s\t%s\t", Count(p.FirstSeq), Count(last), strings.ToLower(p.Source.String()))
		if p.Source == api.ExplainPart_SEGMENT || p.Source == api.ExplainPart_STORES {
			files, read := uint64(0), p.ReadBytes
			for _, q := range parts[1:n] {
				files, read = files+uint64(q.Files), sum(read, q.ReadBytes)
			}
			fmt.Fprintf(table, "%d of %d\t%s\t%s\t%s\t", p.FilesRead, files+uint64(p.Files), Counted(p.Blocks), sized(read), sized(p.DecodedBytes))
		} else {
			fmt.Fprint(table, "\t\t\t\t")
		}
		fmt.Fprintf(table, "%s\t%s\t\n", sized(p.Bytes), Counted(p.Messages))
		parts = parts[n:]
	}
	fmt.Fprintf(table, "total\t\t\t\t\t%s\t%s\t%s\t%s\t\n", sized(t.ReadBytes), sized(t.DecodedBytes), sized(t.Bytes), Counted(t.Messages))
	if err := table.Flush(); err != nil {
		return err
	}
	b.WriteByte('\n')
	conclude(&b, t)
	_, err := io.WriteString(w, b.String())
	return err
}

// untouched is how many parts from the first on can share its line.
func untouched(parts []*api.ExplainPart) int {
	n := 1
	for parts[0].FilesRead == 0 && n < len(parts) && parts[n].FilesRead == 0 && parts[n].Source == parts[0].Source &&
		parts[0].Source != api.ExplainPart_TIP && parts[0].Source != api.ExplainPart_MEMORY {
		n++
	}
	return n
}

// conclude says how much is read for what is delivered, and how long it takes.
func conclude(b *strings.Builder, t *api.ExplainTotal) {
	if t.FileBytes.GetEstimate() > 0 {
		fmt.Fprintf(b, "files   %.2f bytes read and %.2f decoded for each that is delivered from them\n", t.ReadAmplification, t.DecodedAmplification)
	}
	if t.CachedBytes > 0 {
		fmt.Fprintf(b, "cache   holds %s of what is to be read\n", Bytes(t.CachedBytes))
	}
	fmt.Fprintf(b, "time    about %s, without network and client: %s/s from files (%s), %s/s from memory (%s)\n",
		rounded(time.Duration(t.Nanos)), Bytes(uint64(t.FileRate.GetBytesPerSecond())), origin(t.FileRate),
		Bytes(uint64(t.MemoryRate.GetBytesPerSecond())), origin(t.MemoryRate))
	var bounds []string
	for _, a := range []struct {
		what   string
		amount *api.Amount
		print  func(uint64) string
	}{{"read", t.ReadBytes, Bytes}, {"decoded", t.DecodedBytes, Bytes}, {"delivered", t.Bytes, Bytes}, {"messages", t.Messages, Count}} {
		if low, high := a.amount.GetLow(), a.amount.GetHigh(); low != high {
			bounds = append(bounds, fmt.Sprintf("%s %s to %s", a.what, a.print(low), a.print(high)))
		}
	}
	if len(bounds) > 0 {
		fmt.Fprintf(b, "~       is an estimate: %s\n", strings.Join(bounds, ", "))
	}
}

func origin(r *api.Rate) string {
	if r.GetMeasured() {
		return "measured by this node"
	}
	return "assumed, it has read too little yet"
}

// rounded is a time with three digits.
func rounded(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

func sum(a, b *api.Amount) *api.Amount {
	return &api.Amount{Estimate: a.GetEstimate() + b.GetEstimate(), Low: a.GetLow() + b.GetLow(), High: a.GetHigh() + b.GetHigh()}
}

// mark is in front of what is not exact.
func mark(a *api.Amount) string {
	if a.GetLow() != a.GetHigh() {
		return "~"
	}
	return ""
}

func sized(a *api.Amount) string { return mark(a) + Bytes(a.GetEstimate()) }

// Counted prints a number, with a mark if it is an estimate.
func Counted(a *api.Amount) string { return mark(a) + Count(a.GetEstimate()) }
