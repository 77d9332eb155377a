package topic

import "strings"

// node is a place in the trie of filters: the levels on the way to it, each a
// word or a star. Every node leads to at least one filter.
type node struct {
	words map[string]*node
	star  *node
	here  bool // a filter ends here
	below bool // a filter with "**" ends here: this place and everything below
}

func (n *node) add(f filter) {
	for _, level := range f.levels {
		n = n.child(level)
	}
	if f.below {
		n.below = true
	} else {
		n.here = true
	}
}

func (n *node) child(level string) *node {
	if level == star {
		if n.star == nil {
			n.star = &node{}
		}
		return n.star
	}
	c := n.words[level]
	if c == nil {
		if n.words == nil {
			n.words = make(map[string]*node)
		}
		c = &node{}
		n.words[level] = c
	}
	return c
}

// covers reports whether the trie below n holds a filter, other than the asked one
// itself, that wants every topic that the asked one does: the given levels, with
// or without all below them. own says that n was reached by the asked filter's own
// levels. A star can be covered by a star alone: there is always one more word.
func (n *node) covers(levels []string, below, own bool) bool {
	last := len(levels) == 0
	if n.below && !(own && last && below) {
		return true
	}
	if last {
		return n.here && !below && !own
	}
	if c := n.words[levels[0]]; c != nil && c.covers(levels[1:], below, own) {
		return true
	}
	return n.star != nil && n.star.covers(levels[1:], below, own && levels[0] == star)
}

// extent is how much of a partition a set of filters can want.
type extent uint8

const (
	nothing extent = iota
	something
	everything
)

// reach follows the name of a partition, or what is left of it below n. short
// says that the partition has one level, so that nothing lies below it.
func (n *node) reach(name string, short bool) extent {
	if n.below {
		return everything
	}
	best := nothing
	level, rest, more := strings.Cut(name, "/")
	for _, c := range [...]*node{n.words[level], n.star} {
		switch {
		case c == nil:
		case more:
			best = max(best, c.reach(rest, short))
		case c.below, short && c.here:
			best = everything
		case !short:
			best = max(best, something)
		}
	}
	return best
}
