package show

import (
	"errors"
	"strings"
	"testing"

	"chorale/api"
)

func check(name string, first, last uint64) *api.FileCheck {
	return &api.FileCheck{Name: name, Hash: []byte(name), FirstSeq: first, LastSeq: last}
}

// TestCompare: what differs is named with its node; a node that is behind, has let old
// files go or did not answer does not differ.
func TestCompare(t *testing.T) {
	a, b, c := check("a", 1, 10), check("b", 11, 20), check("c", 21, 30)
	missing, bad, other := check("b", 11, 20), check("b", 11, 20), check("b", 11, 20)
	missing.State = api.FileCheck_MISSING
	bad.State, bad.Why = api.FileCheck_BAD, "hash"
	other.Hash = []byte("x")
	whole := NodeFiles{Node: "n1", Oldest: 1, End: 30, Files: []*api.FileCheck{a, b, c}}
	for want, n := range map[string]NodeFiles{
		"":                         {Node: "n2", Oldest: 1, End: 30, Files: []*api.FileCheck{a, b, c}},
		" ":                        {Node: "n2", Oldest: 1, End: 10, Files: []*api.FileCheck{a}},
		"  ":                       {Node: "n2", Oldest: 11, End: 30, Files: []*api.FileCheck{b, c}},
		"   ":                      {Err: errors.New("down")},
		"n2 b missing":             {Node: "n2", Oldest: 1, End: 30, Files: []*api.FileCheck{a, missing, c}},
		"n2 b found bad just now:": {Node: "n2", Oldest: 1, End: 30, Files: []*api.FileCheck{a, bad, c}},
		"n2 b has hash 78":         {Node: "n2", Oldest: 1, End: 30, Files: []*api.FileCheck{a, other, c}},
		"n2 b in other files":      {Node: "n2", Oldest: 1, End: 30, Files: []*api.FileCheck{a, c}},
	} {
		got := Compare([]NodeFiles{whole, n})
		if strings.TrimSpace(want) == "" {
			if len(got) > 0 {
				t.Errorf("%+v: %v", n, got)
			}
			continue
		}
		if len(got) != 1 || !strings.HasPrefix(got[0].Node+" "+got[0].File+" "+got[0].What, want) {
			t.Errorf("%v, want %q", got, want)
		}
		if layout := strings.HasSuffix(want, "in other files"); OnlyLayout(got) != layout {
			t.Errorf("%v: only the layout differs: %v", got, !layout)
		}
	}
}
