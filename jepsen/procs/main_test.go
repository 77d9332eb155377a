// Package procs kills, pauses, cuts off, replaces and moves the processes of a real
// cluster while idempotent publishers publish, and judges the history: every
// acknowledged message is there once, in the order of its publisher, the same bytes on
// all nodes. What runs by itself is the short form; make jepsen and make life run the
// long ones.
package procs

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"chorale/internal/procs"
	"chorale/jepsen/netns"
)

var (
	rounds = flag.Int("rounds", 3, "rounds of TestRounds, TestSteps, TestPartitions and TestWipes")
	rate   = flag.Int("rate", 400, "messages a second of TestLife and TestWipes")
	calm   = flag.Duration("calm", 500*time.Millisecond, "how long TestLife and TestWipes go on after each change")
	gap    = flag.Duration("gap", 0, "fail TestLife and TestWipes if a publisher waits longer for its next answer; 0 only tells")
	seed   = flag.Uint64("seed", 1, "what the rounds are drawn from")
	only   = flag.String("step", "", "TestSteps: this step alone")
	keep   = flag.String("keep", "", "folder for the history, also if nothing was found")
	judged = flag.String("history", "", "judge this history again and run nothing")
	old    = flag.String("old", "", "binary of an earlier version that TestUpgrade begins with; default: a build of an earlier level")
)

// program is the binary under test, folder where further ones go.
var program, folder string

// atOnce is how many tests run at a time, if the command line does not say: they wait for
// processes, elections and disks far more than they compute.
const atOnce = "3"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	flag.Parse()
	code, ran := netns.Enter()
	if !ran {
		code = run(m)
	}
	os.Exit(code)
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "jepsen-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program, folder = filepath.Join(dir, "chorale"), dir
	if err := procs.Build(program, "-X main.version=this"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
