package membership

import (
	"cmp"
	"fmt"
	"slices"
)

// Action is what an empty or full node does about Raft when it starts.
type Action string

// The actions of a Decision.
const (
	// Resume: start Raft on what the folder holds.
	Resume Action = "resume"
	// Wait: others are missing, or the founder has not founded yet; look again
	// when gossip has news.
	Wait Action = "wait"
	// Join: ask a node of the cluster to be let in, then start Raft.
	Join Action = "join"
	// Found: start Raft with Servers as the first configuration.
	Found Action = "found"
	// Follow: start Raft and wait for the founder, whose set this node is of.
	Follow Action = "follow"
	// Refuse: the flags contradict what is there; the node ends with Why.
	Refuse Action = "refuse"
)

// Decision is what to do, and why, for a person to read.
type Decision struct {
	Action  Action
	Why     string
	Servers []Server // of Found: all voters, ascending by id
}

// Server is a voter of the first configuration.
type Server struct{ ID, Raft string }

// Decide is the decision of the node self, given everyone else that gossip knows,
// dead ones included (a dead node's data is data). Pure.
func Decide(self Member, others []Member) Decision {
	if self.HasData {
		return Decision{Action: Resume, Why: "the folder holds data"}
	}
	expect := self.Expect
	if expect == 0 {
		return Decision{Action: Join, Why: "the folder is empty and bootstrap-expect is not given: joining the cluster that is there"}
	}
	others = slices.Clone(others)
	slices.SortFunc(others, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	set := []Server{{self.ID, self.Raft}}
	var first *Member
	for i, m := range others {
		switch {
		case m.HasData && m.Founding && m.Expect == expect && expect > 1:
			first = &others[i]
		case m.HasData:
			return Decision{Action: Refuse, Why: fmt.Sprintf("node %s already holds data, and this folder is empty: an empty node joins a cluster without bootstrap-expect; if it was a member before, that is removed first (chorale members remove %s)", m.ID, self.ID)}
		case !m.alive():
		case m.Expect != 0 && m.Expect != expect:
			return Decision{Action: Refuse, Why: fmt.Sprintf("node %s has bootstrap-expect %d, this node %d", m.ID, m.Expect, expect)}
		case m.Expect == expect:
			set = append(set, Server{m.ID, m.Raft})
		}
	}
	slices.SortFunc(set, func(a, b Server) int { return cmp.Compare(a.ID, b.ID) })
	switch n := len(set); {
	case first != nil:
		return Decision{Action: Follow, Why: fmt.Sprintf("the cluster is being founded, node %s has data already", first.ID)}
	case n > expect:
		return Decision{Action: Refuse, Why: fmt.Sprintf("%d empty nodes have bootstrap-expect %d", n, expect)}
	case n < expect:
		return Decision{Action: Wait, Why: fmt.Sprintf("%d of %d nodes are here", n, expect)}
	case set[0].ID != self.ID:
		return Decision{Action: Wait, Why: fmt.Sprintf("all %d nodes are here; node %s founds the cluster", n, set[0].ID)}
	}
	return Decision{Action: Found, Why: fmt.Sprintf("all %d nodes are here and this one has the smallest id", expect), Servers: set}
}
