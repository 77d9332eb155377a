package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// branch is one level of a name with the volumes of everything below it.
type branch struct {
	level    string
	messages uint64
	bytes    uint64
	topics   uint64
	below    map[string]*branch
}

// add counts a topic on the way from the root down to it.
func (b *branch) add(name string, messages, bytes uint64) {
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
			next = &branch{level: level}
			if at.below == nil {
				at.below = map[string]*branch{}
			}
			at.below[level] = next
		}
		at = next
	}
}

// sorted lists the branches below by name, or the largest first.
func (b *branch) sorted(by string) []*branch {
	return slices.SortedFunc(maps.Values(b.below), func(x, y *branch) int {
		order := 0
		switch by {
		case sortMessages:
			order = cmp.Compare(y.messages, x.messages)
		case sortBytes:
			order = cmp.Compare(y.bytes, x.bytes)
		}
		return cmp.Or(order, cmp.Compare(x.level, y.level))
	})
}

// treePrinter writes a tree with its figures in front, so that they align
// whatever the names are.
type treePrinter struct {
	out   io.Writer
	depth int // levels to show; 0 means all
	sort  string
}

func (p treePrinter) print(root *branch) error {
	if _, err := fmt.Fprintf(p.out, "%13s  %11s  %9s  %s\n", "messages", "bytes", "topics", "topic"); err != nil {
		return err
	}
	if err := p.line(root, "**"); err != nil {
		return err
	}
	return p.below(root, "", 1)
}

func (p treePrinter) line(b *branch, name string) error {
	_, err := fmt.Fprintf(p.out, "%13s  %11s  %9s  %s\n", formatCount(b.messages), formatBytes(b.bytes), formatCount(b.topics), name)
	return err
}

func (p treePrinter) below(b *branch, indent string, depth int) error {
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
