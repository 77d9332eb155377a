package scan

import (
	"maps"
	"slices"
	"strings"

	"chorale/segments/data"
	"chorale/topic"
)

// maxPlaces bounds the places of a store that are remembered, beside partitions: as many
// levels of its topics are, as these are enough for. A store of one huge partition has
// hundreds of places of three levels.
const maxPlaces = 1024

// placesOf tells where in the tree the topics of a store are.
func (s *Shared) placesOf(topics []uint32) *data.Places {
	seen := make(map[uint32]bool)
	names := heads{levels: topic.MaxLevels, of: make(map[string]uint32)}
	for _, id := range topics {
		seen[s.Topics.Partition(id)] = true
		names.add(s.Topics.Name(id), id)
	}
	p := &data.Places{Partitions: slices.Sorted(maps.Keys(seen))}
	if names.levels > partitionLevels {
		p.Levels, p.Topics = names.levels, slices.Sorted(maps.Values(names.of))
	}
	return p
}

// partitionLevels are those that a partition has.
const partitionLevels = 2

// heads are the first levels of names, of each a topic that begins with them: as many levels
// as keep them few, but no fewer than those of partitions.
type heads struct {
	levels int
	of     map[string]uint32
	last   string // that was added
}

func (h *heads) add(name string, id uint32) {
	head := topic.Head(name, h.levels)
	if head == h.last {
		return // neighbours by id often are so in the tree
	}
	h.last = head
	if _, known := h.of[head]; known {
		return
	}
	h.of[head] = id
	for len(h.of) > maxPlaces && h.levels > partitionLevels {
		h.shorten()
	}
}

// shorten takes the deepest level off.
func (h *heads) shorten() {
	deepest := 0
	for head := range h.of {
		deepest = max(deepest, strings.Count(head, "/")+1)
	}
	h.levels = max(deepest-1, partitionLevels)
	shorter := make(map[string]uint32)
	for head, id := range h.of {
		head = topic.Head(head, h.levels)
		if one, known := shorter[head]; !known || id < one {
			shorter[head] = id
		}
	}
	h.of, h.last = shorter, ""
}
