package server

import (
	"fmt"
	"strings"
	"testing"

	"chorale/api"
	"chorale/topic"
)

// TestLongNames: the names of a response are bounded, whatever its records: of the shortest
// messages, each of its own topic with the longest name, more fit the records of one response
// than names fit a gRPC message.
func TestLongNames(t *testing.T) {
	r := newRig(t, true)
	const topics, piece = 36_000, 600
	for n := range topics / piece {
		var names []string
		for i := range piece {
			name := fmt.Sprintf("a/b/%d/", n*piece+i)
			names = append(names, name+strings.Repeat("x", topic.MaxBytes-len(name)))
		}
		r.publish("", names...)
	}
	g, err := r.drain(&api.SubscribeRequest{Filters: []string{"**"}, UntilTip: true, MaxBatchBytes: maxBatchBytes})
	if err != nil || len(g.lines) != topics || g.last != topics {
		t.Errorf("%d messages of %d, up to %d: %v", len(g.lines), topics, g.last, err)
	}
}
