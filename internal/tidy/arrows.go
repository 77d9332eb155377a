package tidy

import (
	"slices"
	"strconv"
	"strings"
)

// module is the path that all imports of the tree start with.
const module = "chorale/"

// arrows is the table of the rooms, from the ground up: a room may import the
// rooms listed beside it, its own sub-rooms and nothing else of the tree. Tests
// may look further, because they put the rooms together.
var arrows = map[string][]string{
	"topic":     {},
	"retention": {"topic"},
	"message":   {},
	"disk":      {},

	"tip":      {"topic", "message"},
	"segments": {"topic", "message", "disk"},

	"membership": {},
	"api":        {},
	"raftfsm":    {"topic", "retention", "message", "disk", "tip", "segments"},
	"recovery":   {"topic", "retention", "message", "disk", "tip", "segments"},
	"compactor":  {"topic", "retention", "message", "disk", "segments"},

	"node":   {"topic", "retention", "message", "disk", "tip", "segments", "membership", "api", "raftfsm", "recovery", "compactor"},
	"client": {"api", "message", "topic", "retention"},
	"backup": {"disk", "segments", "raftfsm"},

	"bench": {"topic", "retention", "message", "disk", "tip", "segments", "api", "raftfsm", "recovery", "compactor", "node", "client", "internal/tsv", "internal/procs"},
	"cmd":   {"topic", "retention", "message", "disk", "segments", "compactor", "api", "node", "client", "backup", "bench", "internal/tsv"},

	"jepsen":             {"client", "message", "topic", "internal/tsv", "internal/procs"},
	"internal/tidy":      {},
	"internal/container": {},
	"internal/tsv":       {"topic"},
	"internal/procs":     {"client", "disk"},
	"internal/demo":      {"client", "message", "topic", "internal/tsv", "internal/procs"},
}

// simulation is the one part of jepsen that puts servers into its own process.
const simulation = "jepsen/sim"

// roomOf is the room of a slash-separated path: its first folder, or its first
// two where that is internal, which only gathers small rooms of the workshop.
func roomOf(path string) string {
	room, rest, _ := strings.Cut(path, "/")
	if room == "internal" {
		sub, _, _ := strings.Cut(rest, "/")
		return room + "/" + sub
	}
	return room
}

func (t *tree) checkImports(f file) {
	allowed, known := arrows[f.room]
	if !known {
		t.reportAt(f.path, "room %q is not in the table of rooms (internal/tidy/arrows.go)", f.room)
		return
	}
	if f.test || strings.HasPrefix(f.path, simulation+"/") {
		return
	}
	for _, spec := range f.ast.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil || !strings.HasPrefix(imported, module) {
			continue
		}
		room := roomOf(strings.TrimPrefix(imported, module))
		if room != f.room && !slices.Contains(allowed, room) {
			t.report(spec.Pos(), "room %s may not import %s: imports point down the table of rooms", f.room, room)
		}
	}
}
