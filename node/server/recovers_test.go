package server

import (
	"strings"
	"sync"
	"testing"
	"time"

	"chorale/api"
	"chorale/node/engine"
	"chorale/node/turns"
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

// TestInTurn: on a busy machine a recovery takes a turn for each read, reads no more in it
// than a turn allows, and gives it back; who follows the newest messages takes none.
func TestInTurn(t *testing.T) {
	r := newRig(t, true)
	var mu sync.Mutex
	var waits []time.Duration
	r.server.turns = turns.Busy(2, func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		waits = append(waits, d)
	})
	const messages, bytes = 40, 30 << 10
	for range messages {
		r.publish(strings.Repeat("x", bytes), "a")
	}
	read := func(after uint64) (frames, turned int) {
		mu.Lock()
		waits = nil
		mu.Unlock()
		q := &api.SubscribeRequest{Filters: []string{"**"}, UntilTip: true, Start: &api.SubscribeRequest_AfterSeq{AfterSeq: after}}
		g, err := r.drain(q)
		if err != nil || len(g.lines) != messages-int(after) {
			t.Fatalf("%d messages: %v", len(g.lines), err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, d := range waits {
			if d >= time.Second { // for a turn that nobody gave back
				t.Errorf("waited %v for a turn that nobody else takes", d)
			}
		}
		return g.frames, len(waits)
	}
	// The first read finds few messages left, as if the newest ones were followed, and takes
	// as much as the client does.
	const first = defaultBatchBytes / bytes
	if frames, turned := read(0); frames != 1+(messages-first)/2 || turned != frames-1 {
		t.Errorf("%d responses, %d turns; want %d messages in the first, 2 in each other one, and a turn for each of those", frames, turned, first)
	}
	if _, turned := read(messages - 1); turned != 0 {
		t.Errorf("the newest message took %d turns", turned)
	}
}
