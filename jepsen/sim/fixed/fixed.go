// Package fixed builds a test binary that does the same thing twice: a Go runtime
// whose choices inside a bubble of testing/synctest come from a seed.
//
// A program under virtual time still differs from run to run, because the runtime
// draws lots: which ready case a select takes, which of two timers of one moment
// fires first, where a map's iteration begins, what math/rand returns (Raft's
// election timers). It also interrupts a goroutine that ran for 10 ms of real time.
// Build replaces those few lines of the runtime by a build overlay, which changes
// nothing outside of the one binary. Run starts it on one processor, without
// garbage collection, so that nothing else moves a goroutine either.
package fixed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrRuntime is wrapped where the Go runtime at hand is not the one that the
// replacements were written for. A plain binary is then the best there is.
var ErrRuntime = errors.New("this version of the Go runtime cannot be fixed")

// seedVariable is the environment variable that the fixed runtime reads.
const seedVariable = "CHORALE_SIM_SEED"

// Edit replaces a text in a source file, where it stands exactly once, by another.
// An empty Old means the end of the file.
type Edit struct {
	File     string // absolute
	Old, New string
}

// apply performs the edit on the file's text.
func (e Edit) apply(text string) (string, error) {
	if e.Old == "" {
		return text + e.New, nil
	}
	if n := strings.Count(text, e.Old); n != 1 {
		return "", fmt.Errorf("%s: this stands there %d times, not once:\n%s", e.File, n, e.Old)
	}
	return strings.Replace(text, e.Old, e.New, 1), nil
}

// fixes are what makes a runtime repeat itself; File is below package runtime.
var fixes = []Edit{
	{"synctest.go", "func synctestRun(f func()) {\n", "func synctestRun(f func()) {\n\tfixRand()\n"},
	{"select.go", "cheaprandn(uint32(norder + 1))", "bubbleRandn(uint32(norder + 1))"},
	{"time.go", "t.rand = cheaprand()", "t.rand = bubbleRand()"},
	{"proc.go", "const forcePreemptNS = 10 * 1000 * 1000", "const forcePreemptNS = 1 << 62"},
	{"rand.go", "func rand() uint64 {\n", `func rand() uint64 {
	if fixedRand.on && getg().bubble != nil {
		return uint64(fixedRand.next())<<32 | uint64(fixedRand.next())
	}
`},
	{"rand.go", "", `
var fixedRand fixedRandState

type fixedRandState struct {
	on    bool
	state uint64
}

//go:nosplit
func (r *fixedRandState) next() uint32 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return uint32((z ^ z>>31) >> 32)
}

func bubbleRand() uint32 {
	if fixedRand.on && getg().bubble != nil {
		return fixedRand.next()
	}
	return cheaprand()
}

func bubbleRandn(n uint32) uint32 { return uint32(uint64(bubbleRand()) * uint64(n) >> 32) }

func fixRand() {
	s := gogetenv("` + seedVariable + `")
	fixedRand.on, fixedRand.state = s != "", 0
	for i := 0; i < len(s); i++ {
		fixedRand.state = fixedRand.state*31 + uint64(s[i])
	}
}
`},
}

// overlay writes the edited files and the description that the go command reads
// into dir and returns the latter's name.
func overlay(dir string, edits []Edit) (string, error) {
	replace, texts := map[string]string{}, map[string]string{}
	for _, e := range edits {
		if _, ok := texts[e.File]; !ok {
			b, err := os.ReadFile(e.File)
			if err != nil {
				return "", err
			}
			texts[e.File] = string(b)
			replace[e.File] = filepath.Join(dir, fmt.Sprintf("%d-%s", len(replace), filepath.Base(e.File)))
		}
		text, err := e.apply(texts[e.File])
		if err != nil {
			return "", err
		}
		texts[e.File] = text
	}
	for file, text := range texts {
		if err := os.WriteFile(replace[file], []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, b, 0o600)
}

// runtimeEdits are the fixes for the Go runtime at hand.
func runtimeEdits() ([]Edit, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("ask for GOROOT: %w", err)
	}
	out := slices.Clone(fixes)
	for i := range out {
		out[i].File = filepath.Join(strings.TrimSpace(string(root)), "src", "runtime", out[i].File)
	}
	return out, nil
}

// Build compiles the tests of the package in folder pkg to a binary in dir, which
// must be empty, and returns its name. Flags of the go command and edits of source
// files are for who wants it to differ. If the error wraps ErrRuntime the binary is
// there all the same, but its runs differ.
func Build(dir, pkg string, flags []string, edits ...Edit) (string, error) {
	fixed, err := runtimeEdits()
	if err != nil {
		return "", err
	}
	_, unfixed := overlay(dir, fixed)
	if unfixed != nil {
		fixed, unfixed = nil, fmt.Errorf("%w (%s): %w", ErrRuntime, runtime.Version(), unfixed)
	}
	description, err := overlay(dir, append(fixed, edits...))
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "fixed.test")
	args := append([]string{"test", "-c", "-overlay", description, "-o", binary}, flags...)
	build := exec.Command("go", append(args, ".")...)
	build.Dir = pkg
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return binary, unfixed
}

// memory bounds the heap of a run: collections begin where it would be exceeded.
const memory = "GOMEMLIMIT=1500MiB"

// Run starts the binary with a seed for the runtime and returns what it printed. A
// run that takes longer than limit is asked for its goroutines and killed.
func Run(ctx context.Context, binary string, seed uint64, limit time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c := exec.CommandContext(ctx, binary, args...)
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%d", seedVariable, seed),
		"GOMAXPROCS=1", "GOGC=off", memory, "GODEBUG=asyncpreemptoff=1")
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGQUIT) }
	c.WaitDelay = 10 * time.Second
	out, err := c.CombinedOutput()
	if ctx.Err() != nil {
		err = fmt.Errorf("not finished after %v of real time: %w", limit, err)
	}
	return string(out), err
}
