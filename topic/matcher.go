package topic

import "strings"

// matcher is a trie of filters made for one question: does it want this name? What all
// filters below a place have in common is one literal, compared in one go: a reader of a
// subtree asks for every topic of a partition that it meets, and most of them fail there.
type matcher struct {
	// literal is the levels that a name must go on with, joined by slashes; void if that
	// is open.
	literal string
	levels  int // of literal
	words   map[string]*matcher
	star    *matcher
	here    bool
	below   bool
}

// matcher compiles the trie below n.
func (n *node) matcher() *matcher {
	var levels []string
	for n.star == nil && !n.here && !n.below && len(n.words) == 1 {
		for level, only := range n.words {
			levels, n = append(levels, level), only
		}
	}
	m := &matcher{literal: strings.Join(levels, "/"), levels: len(levels), here: n.here, below: n.below}
	if n.star != nil {
		m.star = n.star.matcher()
	}
	if len(n.words) > 0 {
		m.words = make(map[string]*matcher, len(n.words))
	}
	for level, child := range n.words {
		m.words[level] = child.matcher()
	}
	return m
}

// match follows what is left of a valid name: no level of one is void, so nothing is left
// only behind the last.
func (m *matcher) match(rest string) bool {
	if m.literal != "" {
		var ok bool
		if rest, ok = strings.CutPrefix(rest, m.literal); !ok {
			return false
		}
		if rest != "" {
			if rest[0] != '/' {
				return false
			}
			rest = rest[1:]
		}
	}
	if rest == "" {
		return m.here || m.below
	}
	if m.below {
		return true
	}
	level, rest, _ := strings.Cut(rest, "/")
	if c := m.words[level]; c != nil && c.match(rest) {
		return true
	}
	return m.star != nil && m.star.match(rest)
}

// reaches follows what is left of a name, and reports whether a name matches that goes on as
// this one does for so many levels, and then in any way; or as this one, if it has fewer.
func (m *matcher) reaches(rest string, levels int) bool {
	if m.literal != "" {
		literal := m.literal
		if levels < m.levels {
			literal = Head(literal, levels)
		}
		var ok bool
		if rest, ok = strings.CutPrefix(rest, literal); !ok || rest != "" && rest[0] != '/' {
			return false
		}
		if levels <= m.levels {
			return true // every place leads to a filter
		}
		rest, levels = strings.TrimPrefix(rest, "/"), levels-m.levels
	}
	if rest == "" {
		return m.here || m.below
	}
	if m.below {
		return true
	}
	level, rest, _ := strings.Cut(rest, "/")
	c := m.words[level]
	if levels == 1 {
		return c != nil || m.star != nil
	}
	return c != nil && c.reaches(rest, levels-1) || m.star != nil && m.star.reaches(rest, levels-1)
}
