package sim

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"testing"
	"testing/synctest"
	"time"

	"chorale/jepsen/sim/fixed"
)

var (
	histories = flag.Int("histories", 100, "number of simulated histories")
	from      = flag.Uint64("from", 1, "first seed")
	seed      = flag.Uint64("seed", 0, "run this one seed and print the nodes' logs")
	one       = flag.Uint64("history", 0, "the child's side of TestSim: the seed")
	verbose   = flag.Bool("log", false, "with -history: print the nodes' logs")
)

// realTime is how long one history may take.
const realTime = 5 * time.Minute

// TestSim runs histories from consecutive seeds, each in a process of its own with
// a fixed runtime. One that is found wanting prints the command that repeats it.
func TestSim(t *testing.T) {
	binary, err := fixed.Build(t.TempDir(), ".", nil)
	switch {
	case errors.Is(err, fixed.ErrRuntime):
		t.Logf("a seed repeats its traffic and faults, but not each interleaving: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	if *seed != 0 {
		out, err := fixed.Run(t.Context(), binary, *seed, realTime, "-test.run", "TestHistory$", "-test.v", "-history", fmt.Sprint(*seed), "-log")
		t.Log(out)
		if err != nil {
			t.Error(err)
		}
		return
	}
	for i := range uint64(*histories) {
		s := *from + i
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			t.Parallel()
			child(t, binary, s)
		})
	}
}

func child(t *testing.T, binary string, s uint64) {
	out, err := fixed.Run(context.Background(), binary, s, realTime, "-test.run", "TestHistory$", "-test.v", "-history", fmt.Sprint(s))
	if err != nil {
		t.Errorf("%v: repeat it: go test ./jepsen/sim -run 'TestSim$' -count=1 -v -seed %d\n%s", err, s, out)
		return
	}
	t.Log(out)
}

// TestHistory is one history in this process: of the seed that TestSim gives, or,
// so that the race detector sees a cluster at work, of a few.
func TestHistory(t *testing.T) {
	seeds := []uint64{1, 2, 3}
	if *one != 0 {
		seeds = []uint64{*one}
	}
	for _, s := range seeds {
		judge(t, Options{Seed: s, Verbose: *verbose})
	}
}

func judge(t *testing.T, o Options) {
	t.Helper()
	var r Report
	synctest.Test(t, func(t *testing.T) { r = Run(o) })
	digest := fnv.New64a()
	if err := r.History.Write(digest); err != nil {
		t.Fatal(err)
	}
	if o.Verbose {
		t.Log(r.Log)
	}
	t.Logf("seed %d: %v, %d units, %d attempts, %d faults, %d messages, digest %016x", o.Seed, r.Virtual.Round(time.Millisecond),
		len(r.History.Units), len(r.History.Attempts), len(r.History.Faults), len(r.Stream), digest.Sum64())
	for _, f := range r.Findings {
		t.Error(f)
	}
}
