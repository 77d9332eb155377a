package tipbench

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRun holds the form of the report, that every method delivers the same, and
// that a report repeats its run.
func TestRun(t *testing.T) {
	o := Options{
		RingBytes: []int64{1 << 20}, Partitions: []int{20}, Topics: []int{3}, Readers: []int{1, 3},
		Selectivities: []float64{0, 0.0167, 0.1, 1}, Rounds: 1, Seed: 7,
	}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Scenarios) != 8 || len(r.Skipped) != 0 {
		t.Fatalf("%d scenarios, skipped %v", len(r.Scenarios), r.Skipped)
	}
	for _, s := range r.Scenarios {
		if s.Delivered == 0 || s.LinearCPU <= 0 || s.IndexCPU <= 0 || s.Ratio <= 0 || s.Evicted != 0 {
			t.Errorf("unexpected result: %+v", s)
		}
	}
	if all := r.Scenarios[3]; uint64(all.Delivered) != all.Stats.Messages {
		t.Errorf("everything is %d messages, delivered were %d", all.Stats.Messages, all.Delivered)
	}
	var out bytes.Buffer
	if err := r.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"scenarios", "selectivity", "message_bytes", "partitions", "readers", "linear_cpu_ns_per_message", "index_cpu_ns_per_message", "ratio"} {
		if !strings.Contains(out.String(), `"`+key+`"`) {
			t.Errorf("the JSON has no %q", key)
		}
	}
	scenarios, err := ReadScenarios(&out)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Run(t.Context(), Options{Scenarios: scenarios, Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range again.Scenarios {
		if s.Delivered != r.Scenarios[i].Delivered || s.Scenario != r.Scenarios[i].Scenario {
			t.Errorf("repeated: %+v, was %+v", s, r.Scenarios[i])
		}
	}
	if err := r.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
}

// TestWriter: readers that are overtaken go on, and the writer's costs are told.
func TestWriter(t *testing.T) {
	r, err := Run(t.Context(), Options{RingBytes: []int64{256 << 10}, Partitions: []int{50}, Readers: []int{2}, Selectivities: []float64{0.1}, Writer: true, Rounds: 3})
	if err != nil {
		t.Fatal(err)
	}
	if a := r.Scenarios[0].Appended; a == nil || a.Messages == 0 || min(a.Alone, a.Busy, a.Nanos) <= 0 || a.Allocs > 0.01 || a.RatioLow > a.Ratio || a.Ratio > a.RatioHigh {
		t.Errorf("the writer: %+v", a)
	}
}

func TestData(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stream.tsv")
	var lines strings.Builder
	for i := range 2000 {
		lines.WriteString([]string{"1\ta/b/c\t100\tx\n", "1\ta/b/d\t20\ty\n", "2\te/f\t0\t\n", "bad\n"}[i%4])
	}
	if err := os.WriteFile(file, []byte(lines.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), Options{Data: file, RingBytes: []int64{1 << 20}, Selectivities: []float64{0, 0.001, 1}, Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Scenarios) != 2 || len(r.Skipped) != 1 || r.Scenarios[0].Delivered != 500 || r.Scenarios[1].Delivered != 1500 {
		out, _ := json.Marshal(r)
		t.Errorf("unexpected: %s", out)
	}
	if _, err := Run(t.Context(), Options{Data: file + "x"}); err == nil {
		t.Error("a file that is not there is no error")
	}
}

func TestBadScenarios(t *testing.T) {
	for _, file := range []string{"", "{}", `{"scenarios":[]}`, `{"scenarios":3}`} {
		if _, err := ReadScenarios(strings.NewReader(file)); err == nil {
			t.Errorf("%q is accepted", file)
		}
	}
	for _, s := range []Scenario{
		{Ring: Ring{RingBytes: 1}}, {Ring: Ring{RingBytes: 1 << 20, MessageBytes: -1}},
		{Ring: Ring{RingBytes: 1 << 20}, Selectivity: 2}, {Ring: Ring{RingBytes: 1 << 20, Skew: -1}},
		{Ring: Ring{RingBytes: 1 << 20}, Readers: 1 << 20},
	} {
		if _, err := Run(t.Context(), Options{Scenarios: []Scenario{s}}); err == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}
