package tidy

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestTree holds the whole tree to the house style.
func TestTree(t *testing.T) {
	findings, err := Check(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		t.Error(f)
	}
}

// TestRules shows each rule a small tree that breaks it: every file of testdata
// is such a tree, and its part "want" lists the findings.
func TestRules(t *testing.T) {
	cases, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(cases) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, name := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			fsys, err := txtar.FS(archive)
			if err != nil {
				t.Fatal(err)
			}
			want, err := fs.ReadFile(fsys, "want")
			if err != nil {
				t.Fatal(err)
			}
			findings, err := Check(fsys)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, f := range findings {
				fmt.Fprintln(&got, f)
			}
			if got.String() != string(want) {
				t.Errorf("got:\n%swant:\n%s", got.String(), want)
			}
		})
	}
}

// TestLengths covers the limits, whose breach is too long for a page.
func TestLengths(t *testing.T) {
	long := func(functions, linesEach int) string {
		var b strings.Builder
		b.WriteString("// Package tip is long.\npackage tip\n")
		for i := range functions {
			fmt.Fprintf(&b, "func f%d() {\n%s}\n", i, strings.Repeat("\tprintln()\n", linesEach-2))
		}
		return b.String()
	}
	tree := func(files ...string) fs.FS {
		a := &txtar.Archive{Files: []txtar.File{{Name: "tip/DESIGN.md"}}}
		for i, data := range files {
			a.Files = append(a.Files, txtar.File{Name: fmt.Sprintf("tip/f%d.go", i), Data: []byte(data)})
		}
		fsys, err := txtar.FS(a)
		if err != nil {
			t.Fatal(err)
		}
		return fsys
	}
	full := long(6, 66) // 2 + 396 lines
	for _, c := range []struct {
		name string
		fsys fs.FS
		want string
	}{
		{"function at the limit", tree(long(1, 70)), ""},
		{"function over it", tree(long(1, 71)), "function f0 has 71 lines"},
		{"file at the limit", tree(full + "\n\n"), ""},
		{"file over it", tree(full + "\n\n\n"), "a file of 401 lines"},
		{"package under the limit", tree(full, full, full, full, full), ""},
		{"package over it", tree(full, full, full, full, full, full), "a package of 2388 lines"},
	} {
		findings, err := Check(c.fsys)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(findings)
		if c.want == "" && len(findings) > 0 || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want %q", c.name, got, c.want)
		}
	}
}
