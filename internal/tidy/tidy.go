// Package tidy holds the house style as code: which room may import which, how
// long a function may be, what may be called where. Its test runs the rules over
// the whole tree and names rule and place of each finding.
package tidy

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Finding is one place where the tree breaks one rule.
type Finding struct {
	// Path is a file or folder, from the root of the tree.
	Path string
	// Line counts from 1; 0 means the whole of Path.
	Line int
	// Rule says what is not allowed there and what to do instead.
	Rule string
}

// String is the line that a person reads.
func (f Finding) String() string {
	if f.Line == 0 {
		return f.Path + ": " + f.Rule
	}
	return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Rule)
}

// Check reads every hand-written Go file below fsys and returns all findings,
// sorted by place. An error means that the tree could not be read or parsed.
func Check(fsys fs.FS) ([]Finding, error) {
	t, err := load(fsys)
	if err != nil {
		return nil, err
	}
	for _, f := range t.files {
		t.checkImports(f)
		t.checkCalls(f)
		t.checkReminders(f)
		if !f.test {
			t.checkLengths(f)
			t.checkDocs(f)
		}
	}
	t.checkPackages()
	slices.SortFunc(t.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rule, b.Rule))
	})
	return t.findings, nil
}

// file is one parsed, hand-written Go file.
type file struct {
	path  string // slash-separated, from the root of the tree
	room  string // see roomOf
	test  bool
	ast   *ast.File
	lines int
}

// dir is the folder of the file: its package.
func (f file) dir() string { return path.Dir(f.path) }

// imports reports whether the file imports the path.
func (f file) imports(want string) bool {
	return slices.ContainsFunc(f.ast.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == `"`+want+`"` })
}

type tree struct {
	fsys     fs.FS
	fset     *token.FileSet
	files    []file
	findings []Finding
}

func load(fsys fs.FS) (*tree, error) {
	t := &tree{fsys: fsys, fset: token.NewFileSet()}
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(p)
		if d.IsDir() {
			if p != "." && (base == "testdata" || base == "bin" || base[0] == '.' || base[0] == '_') {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(p) != ".go" {
			return nil
		}
		return t.add(p)
	})
	return t, err
}

func (t *tree) add(p string) error {
	src, err := fs.ReadFile(t.fsys, p)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(t.fset, p, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse: %w", err)
	}
	if ast.IsGenerated(parsed) {
		return nil
	}
	t.files = append(t.files, file{
		path: p, room: roomOf(p), test: strings.HasSuffix(p, "_test.go"),
		ast: parsed, lines: strings.Count(string(src), "\n"),
	})
	return nil
}

// report adds a finding at a position of a file.
func (t *tree) report(pos token.Pos, format string, args ...any) {
	p := t.fset.Position(pos)
	t.findings = append(t.findings, Finding{Path: p.Filename, Line: p.Line, Rule: fmt.Sprintf(format, args...)})
}

// reportAt adds a finding about a whole file or folder.
func (t *tree) reportAt(path, format string, args ...any) {
	t.findings = append(t.findings, Finding{Path: path, Rule: fmt.Sprintf(format, args...)})
}
