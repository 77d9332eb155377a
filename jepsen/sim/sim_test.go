package sim

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
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
	digested  = flag.Bool("digest", false, "with -history: print a digest of all that clients saw")
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
	case *seed == 0:
		t.Run("repeats", func(t *testing.T) { repeats(t, binary) })
	}
	if *seed != 0 {
		out, err := execute(t.Context(), binary, *seed, "-log")
		t.Log(out)
		if err != nil {
			t.Error(err)
		}
		return
	}
	var all seen
	t.Run("seed", func(t *testing.T) {
		for i := range uint64(*histories) {
			s := *from + i
			t.Run(fmt.Sprint(s), func(t *testing.T) {
				t.Parallel()
				all.note(child(t, binary, s))
			})
		}
	})
	for _, e := range events {
		if *histories >= 100 && !strings.Contains(all.text, e) {
			t.Errorf("it never came up that %s: the generator is too tame", e)
		}
	}
}

// seen collects what children saw.
type seen struct {
	mu   sync.Mutex
	text string
}

func (s *seen) note(out string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(out) {
		if _, list, ok := strings.Cut(line, seenPrefix); ok {
			s.text += list
		}
	}
}

// execute runs one history in a process of its own.
func execute(ctx context.Context, binary string, seed uint64, more ...string) (string, error) {
	args := append([]string{"-test.run", "TestHistory$", "-test.v", "-history", fmt.Sprint(seed)}, more...)
	return fixed.Run(ctx, binary, seed, realTime, args...)
}

func child(t *testing.T, binary string, seed uint64) (out string) {
	out, err := execute(context.Background(), binary, seed)
	if err != nil {
		t.Errorf("%v: repeat it: go test ./jepsen/sim -run 'TestSim$' -count=1 -v -seed %d\n%s", err, seed, out)
	} else {
		t.Log(out)
	}
	return out
}

// repeats runs a seed twice: all that clients saw and were told, and when, must be
// the same.
func repeats(t *testing.T, binary string) {
	digest := regexp.MustCompile(`digest [0-9a-f]+`)
	first, err := execute(t.Context(), binary, *from, "-digest")
	if err != nil {
		t.Fatalf("%v\n%s", err, first)
	}
	again, err := execute(t.Context(), binary, *from, "-digest")
	if a, b := digest.FindString(first), digest.FindString(again); err != nil || a == "" || a != b {
		t.Errorf("%v\n%s\n%s", err, first, again)
	}
}

// TestHistory is one history in this process: of the seed that TestSim gives, or,
// so that the race detector sees a cluster at work, of a few.
func TestHistory(t *testing.T) {
	seeds := []uint64{1, 2, 3}
	if *one != 0 {
		seeds = []uint64{*one}
	}
	for _, s := range seeds {
		o := Options{Seed: s}
		if *verbose {
			o.Log = os.Stderr
		}
		judge(t, o)
	}
}

func judge(t *testing.T, o Options) {
	t.Helper()
	var r Report
	left := leftByRaft(func() {
		synctest.Test(t, func(t *testing.T) { r = Run(o) })
	})
	if left {
		r.Seen = "raft left a transfer of leadership behind; " + r.Seen
	}
	if *digested {
		digest := fnv.New64a()
		if err := r.History.Write(digest); err != nil {
			t.Fatal(err)
		}
		t.Logf("digest %016x", digest.Sum64())
	}
	t.Logf("seed %d: %v, %d units, %d attempts, %d faults, %d messages", o.Seed, r.Virtual.Round(time.Millisecond),
		len(r.History.Units), len(r.History.Attempts), len(r.History.Faults), len(r.Stream))
	t.Logf("%s%s", seenPrefix, r.Seen)
	for _, f := range r.Findings {
		t.Error(f)
	}
}

// leftByRaft runs a bubble and reports whether nothing was left in it at the end but a
// transfer of leadership that hashicorp/raft never ends (v1.8.0): its two goroutines wait for
// a follower's replication, which has ended, and for each other. Whatever else is left
// panics as it would. The product ends a node that does not come back from one.
func leftByRaft(bubble func()) (left bool) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		all := make([]byte, 1<<20)
		all = all[:runtime.Stack(all, true)]
		for g := range strings.SplitSeq(string(all), "\n\n") {
			if strings.Contains(g, "synctest bubble") && !strings.Contains(g, "raft.(*Raft).leadershipTransfer(") && !strings.Contains(g, "raft.(*Raft).leaderLoop.func") {
				panic(p)
			}
		}
		left = true
	}()
	bubble()
	return false
}

// seenPrefix marks the line by which a child tells which events came up.
const seenPrefix = "seen: "
