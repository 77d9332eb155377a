// Package procs kills and pauses the processes of a real cluster on loopback while
// idempotent publishers publish, and judges the history: every acknowledged
// message is there once, in the order of its publisher, the same bytes on all
// nodes. TestRounds is the short form; make jepsen runs the long one.
package procs

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var (
	rounds = flag.Int("rounds", 3, "rounds of TestRounds")
	seed   = flag.Uint64("seed", 1, "what the rounds are drawn from")
	keep   = flag.String("keep", "", "folder for the history, also if nothing was found")
	judged = flag.String("history", "", "judge this history again and run nothing")
)

// program is the binary under test.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "jepsen-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "chorale")
	if out, err := exec.Command("go", "build", "-o", program, "chorale/cmd/chorale").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the program: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
