// Package level says what of the replicated log a build understands. Every command, and
// every encoding of one, came with a level; the log has a level too, which is raised when
// all members understand the next one, and never falls. So nothing is put in the log that
// would stop a member. docs/decisions/upgrade.md has the reasons, and how to add a command.
package level

import (
	"fmt"
	"strconv"
)

// Level numbers what a build understands. Each holds all that the ones before it hold.
type Level uint8

// The levels. A new one goes behind the last, with what came with it in commands.
const (
	// First has genesis, publish and edits that add segments.
	First Level = iota + 1
	// Stores has plans, and the edits that end them.
	Stores
	// Retention has retain and expire.
	Retention
	// Members has the list of members.
	Members
	// Logged has the level itself in the log.
	Logged
	// Subtrees has rules for subtrees, and floors.
	Subtrees
	// Trimming has plans that leave out what has gone of subtrees.
	Trimming
	// Chapters has plans of stores with chapters.
	Chapters
	// Dropping has files that go when nothing is left of them.
	Dropping

	newest = Dropping
	// Base is the level of a log that does not say which: builds before Logged wrote it.
	Base = Members
)

// Kind tells the commands apart. The values are part of the log for ever.
type Kind uint8

// The commands.
const (
	Genesis Kind = iota + 1
	Publish
	Edit
	Plan
	Abandon
	Retain
	Expire
	Member
	Raising
	Rules
	Floors
	Drop
	end
)

// commands is what came with which level, by kind.
var commands = [...]struct {
	name  string
	since Level
}{
	Genesis: {"genesis", First},
	Publish: {"publish", First},
	Edit:    {"edit", First},
	Plan:    {"plan", Stores},
	Abandon: {"abandon", Stores},
	Retain:  {"retain", Retention},
	Expire:  {"expire", Retention},
	Member:  {"member", Members},
	Raising: {"level", Logged},
	Rules:   {"rules", Subtrees},
	Floors:  {"floors", Subtrees},
	Drop:    {"drop", Dropping},
}

// String is the kind's name in messages.
func (k Kind) String() string {
	if k == 0 || k >= end {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return commands[k].name
}

// Since is the level that the kind came with; false if this tree does not know it.
func (k Kind) Since() (Level, bool) {
	if k == 0 || k >= end {
		return 0, false
	}
	return commands[k].since, true
}

// storesEdit is the version of an edit that came with Stores, trimsEdit with Trimming; editAt is where in an entry
// an edit's version stands (package segments/manifest).
const (
	storesEdit = 2
	trimsEdit  = 3
	editAt     = 8 + 4
)

// ChaptersPlan is the version of a plan that came with Chapters.
const ChaptersPlan = 2

// Versions is the latest version of the head of such an entry that a level has.
func (k Kind) Versions(l Level) byte {
	if k == Plan && l >= Chapters {
		return ChaptersPlan
	}
	return 1
}

// Of is the level that an entry, made by this build, asks of who is to read it.
func Of(entry []byte) Level {
	kind := Kind(entry[0])
	since, _ := kind.Since()
	switch {
	case kind == Edit && entry[editAt] >= trimsEdit:
		since = Trimming
	case kind == Edit && entry[editAt] >= storesEdit:
		since = Stores
	}
	if kind == Plan && entry[1] >= ChaptersPlan {
		since = Chapters
	}
	return since
}

// Between names the commands that came with the levels above one and up to another. What
// raises the level is not among them: nobody waits for that.
func Between(above, to Level) (names []string) {
	for k := Genesis; k < end; k++ {
		if since, _ := k.Since(); k != Raising && since > above && since <= to {
			names = append(names, k.String())
		}
	}
	return names
}

// Snapshot is the newest version of a snapshot that a level has: each level so far came
// with one.
func (l Level) Snapshot() uint32 { return uint32(min(l, newest)) }

// Range is what a build reads: all levels from Lowest to Highest.
type Range struct{ Lowest, Highest Level }

// built is set by the linker, -X chorale/raftfsm/level.built=4, for a build that
// understands no more than that level: an earlier version, for tests. Above the newest
// level it is a version to come that has no further commands yet.
var built string

// Built is what this build reads.
func Built() Range {
	r := Range{First, newest}
	if built != "" {
		n, err := strconv.ParseUint(built, 10, 8)
		if err != nil || n == 0 {
			panic(fmt.Sprintf("level: built as level %q: want a number from 1 to 255", built))
		}
		r.Highest = Level(n)
	}
	return r
}

// Announced is what a node reads by its own word. One that says nothing is of a build
// before Logged.
func Announced(lowest, highest uint32) Range {
	if lowest == 0 || highest < lowest || highest > 255 {
		return Range{First, Base}
	}
	return Range{Level(lowest), Level(highest)}
}

// Has reports whether the range has a level.
func (r Range) Has(l Level) bool { return r.Lowest <= l && l <= r.Highest }

// String is for messages.
func (r Range) String() string { return fmt.Sprintf("%d to %d", r.Lowest, r.Highest) }
