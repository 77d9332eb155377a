// Package listing lists the topics of a state machine.
package listing

import (
	"slices"
	"strings"

	"chorale/raftfsm"
	"chorale/topic"
)

// Topic is a topic and its volume.
type Topic struct {
	Name string
	raftfsm.TopicStats
	Floor uint64 // everything before it has gone by a rule; 0: nothing has
}

// page is how many topics are looked at under one lock of the state machine.
const page = 1024

// Topics lists the topics that the filters match, by name; no filter means all. The
// error says which filter is none.
func Topics(fsm *raftfsm.FSM, names *topic.Table, filters ...string) ([]Topic, error) {
	if len(filters) == 0 {
		filters = []string{"**"}
	}
	f, err := topic.ParseFilters(filters...)
	if err != nil {
		return nil, err
	}
	var out []Topic
	floors := fsm.Floors()
	for from := uint32(0); from < names.Len(); from += page {
		fsm.EachTopic(from, page, func(id uint32, s raftfsm.TopicStats) {
			if name := names.Name(id); f.Match(name) {
				out = append(out, Topic{name, s, floors.Of(name)})
			}
		})
	}
	slices.SortFunc(out, func(a, b Topic) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}
