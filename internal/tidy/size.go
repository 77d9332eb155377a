package tidy

import (
	"go/ast"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Limits, in lines. Tests and generated code are not counted.
const (
	maxFunctionLines = 70
	maxFileLines     = 400
	maxPackageLines  = 2000
)

func (t *tree) checkLengths(f file) {
	if f.lines > maxFileLines {
		t.reportAt(f.path, "a file of %d lines: at most %d are allowed, split it by idea", f.lines, maxFileLines)
	}
	for _, d := range f.ast.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := t.fset.Position(fn.End()).Line - t.fset.Position(fn.Pos()).Line + 1; n > maxFunctionLines {
			t.report(fn.Pos(), "function %s has %d lines: at most %d are allowed", fn.Name.Name, n, maxFunctionLines)
		}
	}
}

// checkPackages looks at what belongs to a folder and not to one file: its
// length, its package comment, and the design page of its room.
func (t *tree) checkPackages() {
	lines, documented, rooms := map[string]int{}, map[string]bool{}, map[string]bool{}
	for _, f := range t.files {
		if f.test {
			continue
		}
		lines[f.dir()] += f.lines
		documented[f.dir()] = documented[f.dir()] || f.ast.Doc != nil
		if !strings.HasPrefix(f.room, "internal/") {
			rooms[f.room] = true
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(lines)) {
		if lines[dir] > maxPackageLines {
			t.reportAt(dir, "a package of %d lines: at most %d are allowed, split it by idea", lines[dir], maxPackageLines)
		}
		if !documented[dir] {
			t.reportAt(dir, "no package comment")
		}
	}
	for _, room := range slices.Sorted(maps.Keys(rooms)) {
		if _, err := fs.Stat(t.fsys, path.Join(room, "DESIGN.md")); err != nil {
			t.reportAt(room, "no DESIGN.md: purpose, why not the obvious way, invariants, trade-offs")
		}
	}
}

// The words are spelled in pieces so that this file passes its own rule.
var reminder = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)

func (t *tree) checkReminders(f file) {
	for _, group := range f.ast.Comments {
		for _, c := range group.List {
			if word := reminder.FindString(c.Text); word != "" {
				t.report(c.Pos(), "a leftover %s: do it, or write it down in docs/roadmap.md", word)
			}
		}
	}
}
