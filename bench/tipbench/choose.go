package tipbench

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"

	"chorale/topic"
)

// errNoShare: no partitions, and no topics, hold about the wanted part.
var errNoShare = errors.New("nothing holds about that part of the messages")

// choose draws the filters of one reader: partitions that together hold the wanted
// part of the ring's messages, or topics where no partition is as small as that.
func (g *ring) choose(part float64, reader int) (*topic.Filters, error) {
	if part >= 1 {
		return topic.ParseFilters(g.everything()...)
	}
	rnd := rand.New(rand.NewPCG(g.Seed, 1000+uint64(reader)))
	if part == 0 {
		return topic.ParseFilters(g.table.Name(g.middling(rnd)))
	}
	sizes := make([]int, g.table.Partitions())
	for id, n := range g.held {
		sizes[g.table.Partition(uint32(id))] += n
	}
	want := part * float64(g.messages)
	names := take(rnd, sizes, want, func(p int) string { return g.table.PartitionName(uint32(p)) + "/**" })
	if names == nil {
		names = take(rnd, g.held, want, func(id int) string { return g.table.Name(uint32(id)) })
	}
	if names == nil {
		return nil, errNoShare
	}
	return topic.ParseFilters(names...)
}

// everything is all first levels: what matches everything, without saying so.
func (g *ring) everything() (filters []string) {
	seen := map[string]bool{}
	for p := range g.table.Partitions() {
		name := g.table.PartitionName(p)
		for i := range name {
			if name[i] == '/' {
				name = name[:i]
				break
			}
		}
		if !seen[name] && len(filters) < topic.MaxFilters {
			seen[name] = true
			filters = append(filters, name+"/**")
		}
	}
	return filters
}

// take draws things until they hold about want messages, give or take a tenth. It
// returns nil if that does not come about in some attempts.
func take(rnd *rand.Rand, sizes []int, want float64, name func(int) string) []string {
	for range 20 {
		sum, names := 0.0, []string(nil)
		for _, i := range rnd.Perm(len(sizes)) {
			if sizes[i] == 0 || sum+float64(sizes[i]) > want*1.05 || len(names) == topic.MaxFilters {
				continue
			}
			sum += float64(sizes[i])
			names = append(names, name(i))
			if sum >= want*0.95 {
				return names
			}
		}
		if sum >= want*0.9 {
			return names
		}
	}
	return nil
}

// middling draws a topic from the middle third, by size, of the largest partition.
func (g *ring) middling(rnd *rand.Rand) uint32 {
	sizes := make([]int, g.table.Partitions())
	for id, n := range g.held {
		sizes[g.table.Partition(uint32(id))] += n
	}
	largest := uint32(slices.Index(sizes, slices.Max(sizes)))
	var ids []uint32
	g.table.EachTopicOf(largest, func(id uint32) bool {
		if g.held[id] > 0 {
			ids = append(ids, id)
		}
		return true
	})
	slices.SortFunc(ids, func(a, b uint32) int { return cmp.Compare(g.held[a], g.held[b]) })
	third := len(ids) / 3
	return ids[third+rnd.IntN(max(third, 1))]
}
