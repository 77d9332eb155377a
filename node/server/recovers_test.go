package server

import (
	"strings"
	"testing"

	"chorale/node/engine"
)

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

// TestCut: a read is cut at its own limit, which in a turn is less than what the client takes:
// else every other read of a recovery of few, large messages would be without a turn.
func TestCut(t *testing.T) {
	r := newRig(t, true)
	for range 4 {
		r.publish(strings.Repeat("x", 30<<10), "a")
	}
	sub, err := r.engine.Subscribe(t.Context(), engine.SubscribeRequest{Filters: []string{"**"}})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	d := delivery{server: r.server, sub: sub, limit: defaultBatchBytes}
	for _, full := range []bool{true, false} {
		frame, count, err := d.read(t.Context(), 64<<10)
		frame.Release()
		if count != 2 || err != nil || d.full != full {
			t.Errorf("up to %d: %d messages, full %v, %v; want full %v", sub.Position(), count, d.full, err, full)
		}
	}
}
