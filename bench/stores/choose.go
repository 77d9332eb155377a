package stores

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"chorale/topic"
)

// subtree is what one reader asks for.
type subtree struct {
	filter   string
	messages uint64
	filters  *topic.Filters
}

// choose returns the subtrees whose part of the messages comes nearest to the wanted
// one, nearest first, none within another: at most n of them, none further off than
// threefold.
func (h *history) choose(n int) ([]subtree, error) {
	sums := make(map[string]uint64)
	for id, count := range h.counts {
		name := h.topics.Name(uint32(id))
		for i := range name {
			if name[i] == '/' {
				sums[name[:i]] += count
			}
		}
		sums[name] += count
	}
	want := h.Selectivity * float64(h.next-1)
	off := func(name string) float64 { return math.Abs(math.Log(float64(sums[name]) / want)) }
	names := make([]string, 0, len(sums))
	for name := range sums {
		if off(name) < math.Log(3) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(off(a), off(b)), cmp.Compare(a, b)) })
	var out []subtree
	for _, name := range names {
		if len(out) == n {
			break
		}
		if slices.ContainsFunc(out, func(s subtree) bool { return related(strings.TrimSuffix(s.filter, "/**"), name) }) {
			continue
		}
		f, err := topic.ParseFilters(name + "/**")
		if err != nil {
			return nil, err
		}
		out = append(out, subtree{filter: name + "/**", messages: h.matching(f), filters: f})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no subtree of %s holds about %g of the messages", h.Data, h.Selectivity)
	}
	return out, nil
}

func (h *history) matching(f *topic.Filters) (n uint64) {
	for id, count := range h.counts {
		if f.Match(h.topics.Name(uint32(id))) {
			n += count
		}
	}
	return n
}

// related reports whether one of two names is the other or above it.
func related(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}
