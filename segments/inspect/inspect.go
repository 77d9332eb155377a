// Package inspect prints what a data file holds, for a person or a program.
package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"text/tabwriter"
	"time"

	"chorale/disk"
	"chorale/segments/format"
	"chorale/segments/manifest"
)

// Options say how File prints.
type Options struct {
	JSON   bool // one object (format.Report) instead of text
	Topics bool // text: list the topics too, not the partitions alone
}

// File examines one data file completely and prints what it holds. The error is
// the first finding (format.ErrCorrupt, ErrForeign, ErrNewer) or that of the disk; findings
// are printed all the same.
func File(fsys disk.FS, name string, w io.Writer, o Options) error {
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	r := format.Examine(f, size, name)
	checkName(r)
	if o.JSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		err = enc.Encode(r)
	} else {
		err = printReport(w, r, o.Topics)
	}
	return errors.Join(err, r.Err())
}

// checkName compares the name of a file with its contents.
func checkName(r *format.Report) {
	base := strings.TrimSuffix(path.Base(r.Path), manifest.DamagedSuffix)
	if _, _, ok := manifest.RangeOf(base); !ok || r.Err() != nil {
		return
	}
	if want := r.Kind.FileName(r.First, r.Last, r.Hash[:16]); base != want {
		r.Add(fmt.Errorf("%s: %w: the contents are those of %s", r.Path, format.ErrCorrupt, want))
	}
}

func printReport(w io.Writer, r *format.Report, topics bool) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(cells ...any) {
		for _, c := range cells {
			fmt.Fprint(tw, c, "\t")
		}
		fmt.Fprintln(tw)
	}
	row("file", r.Path)
	if r.Kind > 0 {
		row("kind", r.Kind)
	}
	row("size", r.Bytes)
	row("sha256", r.Hash)
	if r.First > 0 {
		row("seqs", fmt.Sprintf("%d to %d, %d messages", r.First, r.Last, r.Messages))
		row("times", timeText(r.FirstTime)+" to "+timeText(r.LastTime))
		if r.Chapter > 0 {
			row("chapters", fmt.Sprintf("of up to %d bytes of the stream", r.Chapter))
		}
		row("blocks", fmt.Sprintf("%d, %d bytes%s", r.Blocks, r.Trailer.Blocks, packed(r)))
		for i, t := range r.Trailer.Tables {
			row(r.Trailer.Kind.TableName(format.Table(i)), fmt.Sprintf("%d bytes at %d", t.Bytes, t.Off))
		}
	}
	for _, f := range r.Findings {
		row("finding", f)
	}
	if len(r.Findings) == 0 {
		row("checks", "sound")
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if len(r.Partitions) > 0 {
		row()
		row("partition", "id", "messages", "bytes", "blocks", "offset")
		for _, p := range r.Partitions {
			row(p.Name, p.ID, p.Messages, p.Bytes, p.Blocks, p.Offset)
		}
	}
	if topics && len(r.Topics) > 0 {
		row()
		row("topic", "id", "messages", "bytes", "first seq", "last seq")
		for _, t := range r.Topics {
			row(t.Name, t.ID, t.Messages, t.Bytes, t.First, t.Last)
		}
	}
	return tw.Flush()
}

// packed says how much a store is compressed.
func packed(r *format.Report) string {
	if r.Kind != format.KindStore {
		return ""
	}
	return fmt.Sprintf(" for %d bytes of records", r.Records)
}

func timeText(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }
