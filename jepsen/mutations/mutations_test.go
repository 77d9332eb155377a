// Package mutations breaks the product on purpose, in ways that a careless change
// might, and asks the simulation whether it notices. Each *.patch is a unified
// diff, without line numbers, against a file of the tree or of a library; its
// lines must stand in the file exactly once, so that a patch cannot go stale
// unnoticed. The tree itself is never touched: the go command builds with an
// overlay.
package mutations

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chorale/jepsen/sim/fixed"
)

// within is how many histories may pass before a mutation is noticed.
const within = 100

// root is the folder of the module.
const root = "../.."

func TestEachMutationIsNoticed(t *testing.T) {
	patches, err := filepath.Glob("*.patch")
	if err != nil || len(patches) < 5 {
		t.Fatalf("%d patches, %v", len(patches), err)
	}
	for _, p := range patches {
		t.Run(strings.TrimSuffix(p, ".patch"), func(t *testing.T) {
			t.Parallel()
			edits, err := read(p)
			if err != nil {
				t.Fatal(err)
			}
			notice(t, edits)
		})
	}
}

// notice runs histories until one is found wanting.
func notice(t *testing.T, edits []fixed.Edit) {
	flags, err := library(t.TempDir(), edits)
	if err != nil {
		t.Fatal(err)
	}
	binary, err := fixed.Build(t.TempDir(), filepath.Join(root, "jepsen/sim"), flags, edits...)
	if err != nil && !errors.Is(err, fixed.ErrRuntime) {
		t.Fatal(err)
	}
	for seed := uint64(1); seed <= within; seed++ {
		out, err := fixed.Run(t.Context(), binary, seed, time.Minute, "-test.run", "TestHistory$", "-test.v", "-history", fmt.Sprint(seed))
		if err != nil {
			t.Logf("noticed by seed %d: %s", seed, firstFinding(out))
			return
		}
	}
	t.Errorf("not noticed in %d histories", within)
}

// firstFinding is the most telling line of a run's output.
func firstFinding(out string) string {
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		ordinary := strings.Contains(line, ": seed ") || strings.Contains(line, ": seen: ")
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "sim_test.go:") && !ordinary {
			return line
		}
	}
	return out
}

// read parses a patch.
func read(name string) ([]fixed.Edit, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var edits []fixed.Edit
	file, hunk := "", false
	for line := range strings.Lines(string(b)) {
		switch {
		case strings.HasPrefix(line, "--- "):
			file, hunk = strings.TrimSpace(line[4:]), false
		case strings.HasPrefix(line, "+++ "), file == "":
		case strings.HasPrefix(line, "@@"):
			where, err := locate(file)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			edits, hunk = append(edits, fixed.Edit{File: where}), true
		case hunk:
			e := &edits[len(edits)-1]
			if line[0] != '+' {
				e.Old += line[1:]
			}
			if line[0] != '-' {
				e.New += line[1:]
			}
		}
	}
	if len(edits) == 0 {
		return nil, fmt.Errorf("%s changes nothing", name)
	}
	return edits, nil
}

// locate finds a file of the tree, or of the package that its folder names.
func locate(file string) (string, error) {
	if here, err := filepath.Abs(filepath.Join(root, file)); err != nil {
		return "", err
	} else if _, err := os.Stat(here); err == nil {
		return here, nil
	}
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", path.Dir(file)).Output()
	if err != nil {
		return "", fmt.Errorf("locate %s: %w", file, err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), path.Base(file)), nil
}

// library lets the build use a copy of the library that the first edit is for,
// since the go command edits none in its cache. It returns nothing for the tree's
// own files.
func library(dir string, edits []fixed.Edit) (flags []string, err error) {
	here, err := filepath.Abs(root)
	if err != nil || strings.HasPrefix(edits[0].File, here+"/") {
		return nil, err
	}
	from := filepath.Dir(edits[0].File)
	list := exec.Command("go", "list", "-f", "{{.Module.Path}}", ".")
	list.Dir = from
	name, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("module of %s: %w", from, err)
	}
	to := filepath.Join(dir, "library")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return nil, err
	}
	edits[0].File = filepath.Join(to, filepath.Base(edits[0].File))
	for file, more := range map[string]string{"go.mod": fmt.Sprintf("\nreplace %s => %s\n", strings.TrimSpace(string(name)), to), "go.sum": ""} {
		b, err := os.ReadFile(filepath.Join(here, file))
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, file), append(b, more...), 0o600); err != nil {
			return nil, err
		}
	}
	return []string{"-modfile", filepath.Join(dir, "go.mod")}, nil
}
