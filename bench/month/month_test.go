package month

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"chorale/compactor"
	"chorale/internal/tsv"
)

// TestMonth holds a month of a real stream to the bounds of the compactor's DESIGN.md, on
// each of its days. Segments and stores are small, so that the stream fills all levels.
func TestMonth(t *testing.T) {
	o := Options{SegmentBytes: 512 << 10, Compaction: compactor.DefaultSettings()}
	o.Compaction.StoreBytes, o.Compaction.MaxStores = 64<<10, 1024
	r, err := Run(t.Context(), sample(t, 100_000), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Days) != 31 {
		t.Fatalf("%d days", len(r.Days))
	}
	fan := int64(o.Compaction.FanOut)
	for _, d := range r.Days {
		switch {
		case d.Written > compactor.TopLevel+1:
			t.Errorf("%v", d)
		case d.MostFiles > d.Budget:
			t.Errorf("%v: %d files are allowed", d, d.Budget)
		case d.InSegments > 3*fan*(o.SegmentBytes+messageCap+messageExtra):
			t.Errorf("%v: %d bytes in segments", d, d.InSegments)
		case d.Ranges[1] > int(3*fan), d.Ranges[2] > int(3*fan):
			t.Errorf("%v: ranges %v", d, d.Ranges)
		}
	}
	last := r.Days[30]
	if last.Subtrees > 1.05 || last.Topics > 1.1 {
		t.Errorf("%v: %.3f bytes are read for one of a topic, %.3f for one of a subtree", last, last.Topics, last.Subtrees)
	}
	if last.Ranges[compactor.TopLevel] == 0 {
		t.Errorf("the stream did not come to the top level: %v", last.Ranges)
	}
	drawn(t, r)
}

// sample is the beginning of the sample stream.
func sample(t *testing.T, lines int) io.ReadSeeker {
	f, err := os.Open("../../testdata/forge.tsv.zst")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := tsv.Decompress(f)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	var out bytes.Buffer
	for in := bufio.NewScanner(text); lines > 0 && in.Scan(); lines-- {
		out.Write(in.Bytes())
		out.WriteByte('\n')
	}
	return bytes.NewReader(out.Bytes())
}

// drawn checks that the plot is well-formed, and says what the table says.
func drawn(t *testing.T, r *Report) {
	var svg, table, asJSON bytes.Buffer
	if err := errors.Join(r.WritePlot(&svg), r.WriteTable(&table), r.WriteJSON(&asJSON)); err != nil {
		t.Fatal(err)
	}
	days := 0
	for d := xml.NewDecoder(&svg); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("the plot is no XML: %v", err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			days++
		}
	}
	if lines := strings.Count(table.String(), "\n"); days != len(r.Days) || lines != len(r.Days)+1 {
		t.Errorf("%d bars, %d lines for %d days", days, lines, len(r.Days))
	}
}

// A stream that cannot be read, or settings without sense, are named.
func TestMonthRefuses(t *testing.T) {
	for want, run := range map[string]func() error{
		"line 1: 1 columns": func() error {
			_, err := Run(t.Context(), strings.NewReader("nonsense\n"), Options{})
			return err
		},
		"must be positive": func() error {
			_, err := Run(t.Context(), strings.NewReader(""), Options{Days: -1})
			return err
		},
		"fan-out of 1": func() error {
			s := compactor.DefaultSettings()
			s.FanOut = 1
			_, err := Run(t.Context(), strings.NewReader(""), Options{Compaction: s})
			return err
		},
	} {
		if err := run(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
