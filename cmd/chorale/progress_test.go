package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"chorale/api"
)

// TestProgress: the line tells seqs until a node has told bytes, has a time left once
// it has a pace, and makes room for what is written meanwhile.
func TestProgress(t *testing.T) {
	var out strings.Builder
	start := time.Unix(1000, 0)
	p := &progress{w: &out, watched: true, after: 1000, scanned: 1000, sampled: start}
	expect := func(want string) {
		t.Helper()
		if got := out.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		out.Reset()
	}
	p.note(10, 1<<20, 1010, 2000, start.Add(sampleEvery/2))
	expect("")
	p.note(90, 9<<20, 1100, 2000, start.Add(time.Second))
	expect(clearLine + " 10 %  100 messages  10 MiB/s  0:09 left")

	exact := &api.Amount{Estimate: 400, Low: 400, High: 400}
	p.told(&api.ExplainTotal{Bytes: &api.Amount{Estimate: 20 << 20}, Messages: exact})
	p.note(100, 0, 1500, 2000, start.Add(time.Second)) // too early for a line
	fmt.Fprintln(p, "chorale: a word")
	expect(clearLine + "chorale: a word\n")
	fmt.Fprintln(p, "another")
	expect("another\n")
	p.note(100, 5<<20, 1600, 2000, start.Add(1500*time.Millisecond))
	expect(clearLine + " 75 %  300 of 400 messages  10 MiB/s  0:01 left")

	// More came than was told; a limit ends it earlier.
	p.note(100, 100<<20, 1700, 2000, start.Add(2500*time.Millisecond))
	if got := out.String(); !strings.HasPrefix(got, clearLine+"100 %  400 of 400 messages") || !strings.HasSuffix(got, "  0:00 left") {
		t.Errorf("%q", got)
	}
	limited := &progress{w: &out, watched: true, limit: 200, sampled: start, total: &api.ExplainTotal{
		Bytes: &api.Amount{Estimate: 1 << 30}, Messages: &api.Amount{Estimate: 1 << 20, Low: 1, High: 1 << 30},
	}}
	out.Reset()
	limited.note(50, 1<<20, 2000, 2000, start.Add(10*time.Second))
	expect(clearLine + " 25 %  50 of ~1,048,576 messages  102.4 KiB/s  0:30 left")
}
