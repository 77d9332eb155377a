package roster

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"chorale/raftfsm/level"
	"chorale/raftfsm/members"

	"github.com/hashicorp/raft"
)

// Refusal is a change that is not made, and says what to do instead.
type Refusal struct {
	// Reason is one word, for programs.
	Reason string
	Text   string
}

// Error is for a person.
func (e *Refusal) Error() string { return e.Text }

// The reasons of refusals.
const (
	ReasonUnknown     = "UNKNOWN_NODE"
	ReasonLastVoter   = "LAST_VOTER"
	ReasonQuorum      = "QUORUM_AT_RISK"
	ReasonRemoved     = "REMOVED"
	ReasonOtherFolder = "OTHER_FOLDER"
	ReasonStrange     = "STRANGE_DATA"
	ReasonMember      = "MEMBER_ALREADY"
	ReasonFull        = "CLUSTER_FULL"
	ReasonNotVoter    = "NOT_A_VOTER"
	ReasonBehind      = "BEHIND"
	ReasonBusy        = "BUSY"
	ReasonOld         = "EARLIER_VERSION"
	ReasonFiles       = "FILES_AT_RISK"
	ReasonLevel       = "OTHER_LEVEL"
)

// view is everything that decisions about members are made of.
type view struct {
	self    raft.ServerID
	servers []raft.Server // Raft's newest configuration
	list    members.List
	reports map[raft.ServerID]Report
	now     time.Time
	steady  time.Duration
	voters  uint64 // Electorate of the configuration
	level   level.Mark
	proven  level.Level
	reads   level.Range // by this build
}

// stepKind is a change of Raft's configuration, or a transfer of leadership.
type stepKind string

const (
	stepDrop     stepKind = "removal"
	stepDemote   stepKind = "demotion"
	stepPromote  stepKind = "promotion"
	stepTransfer stepKind = "hand-over"
)

// step is one step from Raft's configuration towards the list.
type step struct {
	kind   stepKind
	server raft.Server
	why    string
}

// next is the most urgent step, if any is due. Pure. A server that the list does not
// know is one of the first members and stays; a member that is not in the
// configuration is let in when it asks. Gossip is not heard here: nobody is removed
// because of silence. A leader that nobody can follow keeps its place until somebody
// can, and goes on with the others meanwhile.
func next(v view) (step, bool) {
	_, err := v.successor("")
	for _, due := range []func(raft.Server) (stepKind, string, bool){v.drop, v.demotion, v.promotion} {
		for _, s := range v.servers {
			kind, why, ok := due(s)
			switch {
			case ok && s.ID != v.self:
				return step{kind, s, why}, true
			case ok && err == nil:
				return step{stepTransfer, s, why}, true
			}
		}
	}
	return step{}, false
}

func (v view) drop(s raft.Server) (stepKind, string, bool) {
	m, _ := v.list.Find(string(s.ID))
	return stepDrop, "it was removed", m.Removed && v.others(s.ID) > 0
}

func (v view) demotion(s raft.Server) (stepKind, string, bool) {
	m, known := v.list.Find(string(s.ID))
	return stepDemote, "it is to be no voter", known && !m.Voter && s.Suffrage == raft.Voter && v.others(s.ID) > 0
}

func (v view) promotion(s raft.Server) (stepKind, string, bool) {
	m, _ := v.list.Find(string(s.ID))
	n := v.reports[s.ID]
	ready := n.Incarnation == m.Incarnation && n.steady(v.now, v.steady) && n.Undurable == 0
	return stepPromote, fmt.Sprintf("log and files have been caught up for %v", v.now.Sub(n.Since).Round(time.Millisecond)),
		m.Voter && !m.Removed && s.Suffrage != raft.Voter && ready
}

// Electorate is a fingerprint of who votes. Raft would tell the index of a configuration,
// but hashicorp/raft says 0 for each (GetConfiguration, v1.8.0).
func Electorate(c raft.Configuration) uint64 {
	var ids []string
	for _, s := range c.Servers {
		if s.Suffrage == raft.Voter {
			ids = append(ids, string(s.ID))
		}
	}
	slices.Sort(ids)
	h := fnv.New64a()
	for _, id := range ids {
		h.Write(append([]byte(id), 0))
	}
	return h.Sum64()
}

// find is a server of the configuration.
func (v view) find(id raft.ServerID) (raft.Server, bool) {
	i := slices.IndexFunc(v.servers, func(s raft.Server) bool { return s.ID == id })
	if i < 0 {
		return raft.Server{}, false
	}
	return v.servers[i], true
}

// stays reports whether a server is a voter and meant to stay one.
func (v view) stays(s raft.Server) bool {
	m, known := v.list.Find(string(s.ID))
	return s.Suffrage == raft.Voter && (!known || m.Voter && !m.Removed)
}

// others counts the voters but for one.
func (v view) others(id raft.ServerID) (n int) {
	for _, s := range v.servers {
		if s.Suffrage == raft.Voter && s.ID != id {
			n++
		}
	}
	return n
}

// mayLose refuses that a voter goes where it is the last one, or where those that stay
// are not a majority of themselves alive: then nothing could be committed any more; or
// where no such majority has all files, and the node that goes may have the last copy.
func (v view) mayLose(id raft.ServerID) error {
	s, ok := v.find(id)
	if !ok || !v.stays(s) {
		return nil
	}
	var silent, lacking, unaware []raft.ServerID
	voters := 0
	for _, s := range v.servers {
		if s.ID == id || !v.stays(s) {
			continue
		}
		voters++
		switch n := v.reports[s.ID]; {
		case s.ID != v.self && !n.Fresh(v.now):
			silent = append(silent, s.ID)
		case n.Voters != v.voters:
			unaware = append(unaware, s.ID)
		case n.Undurable > 0:
			lacking = append(lacking, s.ID)
		}
	}
	if voters == 0 {
		return &Refusal{ReasonLastVoter, fmt.Sprintf("node %s is the last voter, without which the cluster ends: add another node first", id)}
	}
	if alive := voters - len(silent); alive < voters/2+1 {
		return &Refusal{ReasonQuorum, fmt.Sprintf("without node %s only %d of %d voters would be alive, and %d are needed: start %v first, or remove that node instead",
			id, alive, voters, voters/2+1, silent)}
	}
	// Raft denies its vote to whom the voter does not know as one: a configuration that
	// only the nodes know that go or end would let nobody be elected.
	if aware := voters - len(silent) - len(unaware); aware < voters/2+1 {
		return &Refusal{ReasonBehind, fmt.Sprintf("without node %s only %d of %d voters would know who votes, and %d are needed: wait until %v have caught up with the log (chorale members list shows it)",
			id, aware, voters, voters/2+1, unaware)}
	}
	// A node that does not answer could give the others nothing.
	answers := id == v.self || v.reports[id].Fresh(v.now)
	if whole := voters - len(silent) - len(unaware) - len(lacking); answers && whole < voters/2+1 {
		return &Refusal{ReasonFiles, fmt.Sprintf("without node %s only %d of %d voters would have every data file on their disks, and %d are needed: wait until %v have fetched theirs (chorale members list shows it), or, if nobody has those files, stop node %s before you try again",
			id, whole, voters, voters/2+1, lacking, id)}
	}
	return nil
}

// successor is the server that may lead next: id, or the best one if that is "".
func (v view) successor(id raft.ServerID) (raft.Server, error) {
	if id != "" {
		s, ok := v.find(id)
		n := v.reports[id]
		m, listed := v.list.Find(string(id))
		switch {
		case !ok && listed && (!m.Removed || m.Invited):
			return s, &Refusal{ReasonNotVoter, fmt.Sprintf("node %s has not joined, so it cannot lead: start it, and wait until members list shows that it votes", id)}
		case !ok:
			return s, v.unknown(id)
		case !v.stays(s):
			return s, &Refusal{ReasonNotVoter, fmt.Sprintf("node %s is no voter, so it cannot lead: promote it first", id)}
		case id == v.self:
			return s, nil
		case !n.Fresh(v.now) || n.Since.IsZero():
			return s, &Refusal{ReasonBehind, fmt.Sprintf("node %s does not answer or has not caught up: wait until members list shows that it has, or name another node", id)}
		}
		return s, nil
	}
	var best raft.Server
	for _, s := range v.servers {
		n := v.reports[s.ID]
		if s.ID == v.self || !v.stays(s) || !n.Fresh(v.now) || n.Since.IsZero() {
			continue
		}
		if best.ID == "" || n.Lag < v.reports[best.ID].Lag {
			best = s
		}
	}
	if best.ID == "" {
		return best, &Refusal{ReasonBehind, "no other voter is alive and caught up: start or add one first"}
	}
	return best, nil
}

// unknown is the refusal of an id that is nowhere.
func (v view) unknown(id raft.ServerID) error {
	var ids []string
	for _, s := range v.servers {
		ids = append(ids, string(s.ID))
	}
	for _, m := range v.list {
		if _, ok := v.find(raft.ServerID(m.ID)); !ok && (!m.Removed || m.Invited) {
			ids = append(ids, m.ID)
		}
	}
	slices.Sort(ids)
	return &Refusal{ReasonUnknown, fmt.Sprintf("node %s is not known here: the members are %v", id, ids)}
}
