package stores

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// Every way delivers what it should, out of stores; the folder is left empty.
func TestRun(t *testing.T) {
	o := DefaultOptions()
	o.Data, o.Messages, o.SegmentBytes = "../../testdata/forge.tsv.zst", 40_000, 256<<10
	o.Dir, o.Rounds, o.Readers = t.TempDir(), 1, 4
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Messages != o.Messages || r.Plans == 0 || r.Readers != o.Readers || r.WriteAmplification <= 1 {
		t.Errorf("%+v", r)
	}
	if n := int64(r.Messages); r.Floor.Delivered != n || r.Everything.Delivered != n {
		t.Errorf("of %d messages the bare loop saw %d, readers %d", n, r.Floor.Delivered, r.Everything.Delivered)
	}
	if r.One.Delivered == 0 || r.Filtered.Delivered != r.One.Delivered || r.Filtered.Bytes != r.One.Bytes {
		t.Errorf("filtered %d messages of %d bytes, recovered %d of %d", r.Filtered.Delivered, r.Filtered.Bytes, r.One.Delivered, r.One.Bytes)
	}
	if r.One.ReadBytes >= r.Everything.ReadBytes/4 {
		t.Errorf("%d bytes were read for %g of the messages, of %d", r.One.ReadBytes, r.Selectivity, r.Everything.ReadBytes)
	}
	if a, b := r.InSegments, r.InStores; a.Files+b.Files != r.Files || int64(a.WantedBytes+b.WantedBytes) != r.Each.Bytes || b.Ratio > 2 {
		t.Errorf("of %d files %+v and %+v, delivered %d", r.Files, a, b, r.Each.Bytes)
	}
	var table, text bytes.Buffer
	if err := r.WriteTable(&table); err != nil || !strings.Contains(table.String(), "4 subtrees at once") {
		t.Errorf("%v\n%s", err, table.String())
	}
	var back Report
	if err := r.WriteJSON(&text); err != nil || json.Unmarshal(text.Bytes(), &back) != nil || back != *r {
		t.Errorf("%v\n%s", err, text.String())
	}
	if left, err := os.ReadDir(o.Dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestBadOptions(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no stream":     func(o *Options) { o.Data = "" },
		"at least 1000": func(o *Options) { o.Messages = 1 },
		"a selectivity": func(o *Options) { o.Selectivity = 1 },
		"0 readers":     func(o *Options) { o.Readers = 0 },
		"no such file":  func(o *Options) { o.Data = "absent.tsv" },
	} {
		o := DefaultOptions()
		o.Data, o.Dir = "../../testdata/forge.tsv.zst", t.TempDir()
		change(&o)
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
