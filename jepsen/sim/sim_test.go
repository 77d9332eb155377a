package sim

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
)

var (
	histories = flag.Int("histories", 100, "number of simulated histories")
	seed      = flag.Uint64("seed", 0, "run this one seed, with the nodes' logs")
	from      = flag.Uint64("from", 1, "first seed")
)

// TestSim runs histories from consecutive seeds. One that is found wanting prints
// the command that repeats it.
func TestSim(t *testing.T) {
	if *seed != 0 {
		judge(t, Options{Seed: *seed, Verbose: true})
		return
	}
	for i := range uint64(*histories) {
		s := *from + i
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			t.Parallel()
			judge(t, Options{Seed: s})
		})
	}
}

func judge(t *testing.T, o Options) {
	t.Helper()
	var r Report
	synctest.Test(t, func(t *testing.T) { r = Run(o) })
	if len(r.Findings) == 0 {
		t.Logf("seed %d: %v, %d units, %d attempts, %d faults, %d messages", o.Seed, r.Virtual.Round(1e6),
			len(r.History.Units), len(r.History.Attempts), len(r.History.Faults), len(r.Stream))
		return
	}
	if o.Verbose {
		fmt.Fprint(os.Stderr, r.Log)
	}
	t.Errorf("repeat it: go test ./jepsen/sim -run 'TestSim$' -count=1 -seed %d", o.Seed)
	for _, f := range r.Findings {
		t.Error(f)
	}
}
