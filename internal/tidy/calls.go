package tidy

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// pure are the rooms whose results depend on their input alone.
var pure = []string{"topic", "retention", "message", "tip", "segments", "recovery", "raftfsm", "compactor"}

// starters are the rooms that may start goroutines outside of tests. In cmd it is
// the one that reads stdin, in internal/procs the one that waits for a process.
var starters = []string{"node", "client", "jepsen", "cmd", "internal/procs"}

// fileless are the rooms that reach files through disk, or not at all.
var fileless = []string{"topic", "retention", "message", "tip", "segments", "recovery", "raftfsm", "compactor", "membership", "api"}

// clocks are the functions of package time that read or wait for the real clock.
var clocks = []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"}

func (t *tree) checkCalls(f file) {
	isPure := slices.Contains(pure, f.room)
	for _, spec := range f.ast.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		switch {
		case f.test:
		case isPure && (strings.HasPrefix(imported, "math/rand") || imported == "crypto/rand"):
			t.report(spec.Pos(), "room %s may not use %s: its results depend on its input alone", f.room, imported)
		case imported == "os" && slices.Contains(fileless, f.room):
			t.report(spec.Pos(), "room %s may not import os: files are reached through disk", f.room)
		}
	}
	// In a bubble of testing/synctest time is virtual: sleeping waits for nothing.
	sleeper := !f.test || f.room == "jepsen" || f.imports("testing/synctest")
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			if !f.test && !slices.Contains(starters, f.room) {
				t.report(n.Pos(), "a go statement: only %s start goroutines; offer a blocking Run(ctx) error instead", strings.Join(starters, ", "))
			}
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok || x.Name != "time" || !slices.Contains(clocks, n.Sel.Name) {
				return true
			}
			if isPure && !f.test {
				t.report(n.Pos(), "time.%s in room %s: take the time as a value", n.Sel.Name, f.room)
			}
			if !sleeper && n.Sel.Name == "Sleep" {
				t.report(n.Pos(), "time.Sleep in a test: wait for the event, or use testing/synctest")
			}
		}
		return true
	})
}
