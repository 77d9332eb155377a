package scan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"chorale/topic"
)

// TestPlaces: they are few, and as deep as that allows; every topic is in one of them; and
// who wants a topic is told that it may be there.
func TestPlaces(t *testing.T) {
	for name, of := range map[string]struct {
		topics, levels int
		name           func(i int) string
	}{
		"few":          {maxPlaces, topic.MaxLevels, func(i int) string { return fmt.Sprintf("a/b/c/%d", i) }},
		"three levels": {9 * maxPlaces, 3, func(i int) string { return fmt.Sprintf("a/b/%d/%d", i%500, i) }},
		"and shorter": {9 * maxPlaces, 3, func(i int) string {
			return [...]string{"a/b", "a", "a/c/d", fmt.Sprintf("a/b/c%d/%d/x", i%700, i)}[i%4]
		}},
		"partitions":      {9 * maxPlaces, 0, func(i int) string { return fmt.Sprintf("a/%d/%d", i%300, i) }},
		"many partitions": {9 * maxPlaces, 0, func(i int) string { return fmt.Sprintf("a/%d", i) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Shared{Topics: topic.NewTable()}
			var ids []uint32
			for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(of.topics) {
				if id, fresh := s.Topics.Intern([]byte(of.name(i))); fresh {
					ids = append(ids, id)
				}
			}
			p := s.placesOf(ids)
			if p.Levels != of.levels || len(p.Topics) > maxPlaces || (of.levels == 0) != (len(p.Topics) == 0) || len(p.Partitions) != int(s.Topics.Partitions()) {
				t.Fatalf("%d places of %d levels, want %d; %d partitions", len(p.Topics), p.Levels, of.levels, len(p.Partitions))
			}
			if len(p.Topics) == 0 {
				return
			}
			places := make(map[string]bool)
			for _, id := range p.Topics {
				places[topic.Head(s.Topics.Name(id), p.Levels)] = true
			}
			for _, id := range ids {
				if !places[topic.Head(s.Topics.Name(id), p.Levels)] {
					t.Fatalf("%s is in none of %d places of %d levels", s.Topics.Name(id), len(places), p.Levels)
				}
			}
			for _, id := range ids[:20] {
				f, err := topic.ParseFilters(s.Topics.Name(id))
				if err != nil {
					t.Fatal(err)
				}
				sel := topic.NewSelection(s.Topics, f)
				if !slices.ContainsFunc(p.Topics, func(id uint32) bool { return sel.Reaches(id, p.Levels) }) {
					t.Errorf("%s is said to be in none of the places", s.Topics.Name(id))
				}
			}
		})
	}
}
