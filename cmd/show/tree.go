package show

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// The orders of the branches of a level.
const (
	ByName     = "name"
	ByMessages = "messages"
	ByBytes    = "bytes"
)

// Tree is one level of a name with the volumes of everything below it.
type Tree struct {
	level    string
	messages uint64
	bytes    uint64
	topics   uint64
	below    map[string]*Tree
}

// Add counts a topic on the way from the root down to it.
func (b *Tree) Add(name string, messages, bytes uint64) {
	at := b
	for rest, more := name, true; ; {
		at.messages += messages
		at.bytes += bytes
		at.topics++
		if !more {
			return
		}
		var level string
		level, rest, more = strings.Cut(rest, "/")
		next := at.below[level]
		if next == nil {
			next = &Tree{level: level}
			if at.below == nil {
				at.below = map[string]*Tree{}
			}
			at.below[level] = next
		}
		at = next
	}
}

// sorted lists the branches below by name, or the largest first.
func (b *Tree) sorted(by string) []*Tree {
	return slices.SortedFunc(maps.Values(b.below), func(x, y *Tree) int {
		order := 0
		switch by {
		case ByMessages:
			order = cmp.Compare(y.messages, x.messages)
		case ByBytes:
			order = cmp.Compare(y.bytes, x.bytes)
		}
		return cmp.Or(order, cmp.Compare(x.level, y.level))
	})
}

// treePrinter writes a tree with its figures in front, so that they align
// whatever the names are.
type treePrinter struct {
	out   io.Writer
	depth int
	sort  string
}

// Print writes the tree down to a depth (0 means all of it).
func (b *Tree) Print(out io.Writer, depth int, sort string) error {
	p := treePrinter{out, depth, sort}
	if _, err := fmt.Fprintf(out, "%13s  %11s  %9s  %s\n", "messages", "bytes", "topics", "topic"); err != nil {
		return err
	}
	if err := p.line(b, "**"); err != nil {
		return err
	}
	return p.below(b, "", 1)
}

func (p treePrinter) line(b *Tree, name string) error {
	_, err := fmt.Fprintf(p.out, "%13s  %11s  %9s  %s\n", Count(b.messages), Bytes(b.bytes), Count(b.topics), name)
	return err
}

func (p treePrinter) below(b *Tree, indent string, depth int) error {
	if p.depth > 0 && depth > p.depth {
		return nil
	}
	list := b.sorted(p.sort)
	for i, sub := range list {
		mark, deeper := "├── ", "│   "
		if i == len(list)-1 {
			mark, deeper = "└── ", "    "
		}
		if err := p.line(sub, indent+mark+sub.level); err != nil {
			return err
		}
		if err := p.below(sub, indent+deeper, depth+1); err != nil {
			return err
		}
	}
	return nil
}
