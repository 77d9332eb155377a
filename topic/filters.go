package topic

import (
	"fmt"
	"slices"
	"strings"
)

// MaxFilters bounds the filters of one set.
const MaxFilters = 10_000

const (
	star    = "*"  // one level, whichever
	subtree = "**" // as the last level: what stands before it and all below
)

// filter is one parsed filter: its levels without a trailing "**", and whether
// it had one.
type filter struct {
	text   string
	levels []string
	below  bool
}

// Filters is a compiled, immutable set of filters. Safe for concurrent use.
type Filters struct {
	root      node
	matcher   *matcher
	canonical []string
	// partitions names the partitions that the set can touch, sorted; void if that
	// cannot be told from the filters alone (anywhere).
	partitions []string
	anywhere   bool
}

// ParseFilters compiles a set of 1 to MaxFilters filters; the error wraps
// ErrFilter and names the bad filter and the rule. Repeated and overlapping
// filters are fine.
func ParseFilters(list ...string) (*Filters, error) {
	if len(list) == 0 {
		return nil, fmt.Errorf("%w set: it is empty; name at least one topic, or ** for everything", ErrFilter)
	}
	if len(list) > MaxFilters {
		return nil, fmt.Errorf("%w set: it has %d filters; at most %d are allowed", ErrFilter, len(list), MaxFilters)
	}
	parsed := make([]filter, 0, len(list))
	var all node
	for _, text := range list {
		f, err := parseFilter(text)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
		all.add(f)
	}
	slices.SortFunc(parsed, func(a, b filter) int { return strings.Compare(a.text, b.text) })
	parsed = slices.CompactFunc(parsed, func(a, b filter) bool { return a.text == b.text })

	out := &Filters{}
	for _, f := range parsed {
		if !all.covers(f.levels, f.below, true) {
			out.keep(f)
		}
	}
	out.matcher = out.root.matcher()
	slices.Sort(out.partitions)
	out.partitions = slices.Compact(out.partitions)
	return out, nil
}

func parseFilter(text string) (filter, error) {
	f := filter{text: text}
	rest := text
	if text == subtree {
		f.below = true
		return f, nil
	}
	if head, ok := strings.CutSuffix(text, "/"+subtree); ok {
		rest, f.below = head, true
	}
	why := slashes(text) // of rest they would be told of the wrong place
	if why == "" {
		why = fault(rest)
	}
	if why != "" {
		return f, invalid(ErrFilter, text, why)
	}
	f.levels = strings.Split(rest, "/")
	for _, level := range f.levels {
		switch {
		case level == subtree:
			return f, invalid(ErrFilter, text, "'**' stands only at the end, as in a/b/**")
		case level != star && strings.Contains(level, star):
			return f, invalid(ErrFilter, text, "'*' stands only for a whole level, as in a/*/c")
		}
	}
	if f.below && len(f.levels) == 1 && f.levels[0] == star {
		// Every topic has a first level.
		return filter{text: subtree, below: true}, nil
	}
	return f, nil
}

// keep adds a filter that no other covers.
func (f *Filters) keep(one filter) {
	f.root.add(one)
	f.canonical = append(f.canonical, one.text)
	p, ok := one.partition()
	f.partitions = append(f.partitions, p)
	f.anywhere = f.anywhere || !ok
}

// partition names the only partition that the filter can touch, if there is only
// one whatever topics may come.
func (f filter) partition() (string, bool) {
	switch {
	case len(f.levels) == 0 || f.levels[0] == star:
		return "", false
	case len(f.levels) == 1:
		return f.levels[0], !f.below
	case f.levels[1] == star:
		return "", false
	}
	return f.levels[0] + "/" + f.levels[1], true
}

// Match reports whether the set wants a topic with this (valid) name. It costs
// the depth of the name, not the number of filters; with '*' in the set, at most
// the trie nodes that the name can reach.
func (f *Filters) Match(name string) bool { return f.matcher.match(name) }

// All reports whether the set holds "**": every topic matches.
func (f *Filters) All() bool { return f.root.below }

// Canonical lists the filters sorted, without those that others cover. The slice
// belongs to the set.
func (f *Filters) Canonical() []string { return f.canonical }

// extent is how much of the partition of this name the set can want.
func (f *Filters) extent(partition string) extent {
	return f.root.reach(partition, !strings.Contains(partition, "/"))
}
