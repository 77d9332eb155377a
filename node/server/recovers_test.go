package server

import "testing"

// TestRecovers: who follows the newest messages reads without turns, however large they
// are, and nobody takes a turn to be told that it was all.
func TestRecovers(t *testing.T) {
	for _, c := range []struct {
		what          string
		position, end uint64
		full, want    bool
	}{
		{"at the end", 7, 7, false, false},
		{"at the end, behind much", 7, 7, true, false},
		{"beyond the end of an until-tip", 9, 7, true, false},
		{"follows", 7, 8, false, false},
		{"follows, some behind", 7, 7 + liveLag, false, false},
		{"much is left", 7, 8, true, true},
		{"far behind", 7, 8 + liveLag, false, true},
	} {
		if got := recovers(c.position, c.end, c.full); got != c.want {
			t.Errorf("%s: recovers %v, want %v", c.what, got, c.want)
		}
	}
}
