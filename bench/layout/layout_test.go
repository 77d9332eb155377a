package layout

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"chorale/compactor"
)

func compare(t *testing.T, input string, budget string) Comparison {
	t.Helper()
	volumes, err := Volumes(t.Context(), strings.NewReader(input))
	if err != nil {
		t.Fatal(err)
	}
	tree := compactor.NewTree(volumes)
	n, err := ParseBudget(budget, tree)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Compare(t.Context(), "sample", tree, n, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const sample = "1\ta/b/c/x\t1000000\t-\n2\ta/b/c/y\t10\t-\n3\ta/b/d\t20\t-\n4\ta/b/c/y\t9999999\t-\n5\tz\t0\t-\n"

func TestVolumes(t *testing.T) {
	c := compare(t, sample, "3")
	got := map[string]compactor.Volume{}
	for _, v := range c.Tree.Topics {
		got[v.Topic] = v
	}
	if want := (compactor.Volume{Topic: "a/b/c/y", Bytes: 10 + 32 + 1<<20 + 32, Messages: 2}); got["a/b/c/y"] != want {
		t.Errorf("a/b/c/y: %+v, want %+v: a message counts its size, at most 1 MiB, and 32", got["a/b/c/y"], want)
	}
	if _, err := Volumes(t.Context(), strings.NewReader("1\ta\t5\t-\nnonsense\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a malformed line gave %v, want its number", err)
	}
}

// TestJSON holds the names that others read.
func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := compare(t, sample, Heuristic).WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var out struct {
		Stream     string
		Algorithms []map[string]any
	}
	if err := json.Unmarshal(b.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range out.Algorithms {
		names = append(names, a["name"].(string))
		for _, key := range []string{"stores", "sum_waste_bytes", "max_waste_bytes", "worst_ratio", "byte_weighted_amplification"} {
			if _, ok := a[key]; !ok {
				t.Errorf("%s lacks %s", a["name"], key)
			}
		}
	}
	if got := strings.Join(names, " "); got != "fixed3 partition topic adaptive lower_bound" || out.Stream != "sample" {
		t.Errorf("stream %q, algorithms %q", out.Stream, got)
	}
}

// TestPage checks what can be checked without a browser: the page is complete and
// a topic's name cannot end its script.
func TestPage(t *testing.T) {
	var b bytes.Buffer
	if err := compare(t, "1\t</script><b>ä\t5\t-\n1\t</script><b>ö\t5\t-\n", "1").WritePage(&b); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "</script>"); n != 1 {
		t.Errorf("%d ends of scripts, want 1", n)
	}
}
