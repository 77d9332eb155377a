package node

import (
	"cmp"
	"fmt"
	"slices"

	"chorale/api"
	"chorale/membership"
	"chorale/raftfsm"
	"chorale/raftfsm/members"

	"github.com/hashicorp/raft"
)

// directory answers who is where, from gossip. It believes nodes of its own
// cluster only.
type directory struct {
	gossip  *membership.Gossip
	cluster func() raftfsm.ClusterID
	servers func() []raft.Server // of Raft's configuration
	members func() members.List  // the replicated list
}

// others are the other nodes of this cluster, and those of none yet, by id.
func (d directory) others() []membership.Member {
	return slices.DeleteFunc(d.gossip.Members(), func(m membership.Member) bool { return !d.ours(m) })
}

// ours reports whether a node is of this cluster, or of none yet.
func (d directory) ours(m membership.Member) bool {
	none, own := raftfsm.ClusterID{}, d.cluster()
	return m.Cluster == own || m.Cluster == none || own == none
}

func (d directory) find(id raft.ServerID) (membership.Member, bool) {
	m, ok := d.gossip.Member(string(id))
	return m, ok && d.ours(m)
}

// API implements peers.Directory.
func (d directory) API(id raft.ServerID) (string, bool) {
	m, ok := d.find(id)
	return m.API, ok && m.API != ""
}

// Others implements peers.Directory: the living first.
func (d directory) Others() []raft.ServerID {
	members := d.others()
	slices.SortStableFunc(members, func(a, b membership.Member) int {
		return cmp.Compare(rank(a.State), rank(b.State))
	})
	var out []raft.ServerID
	for _, m := range members {
		out = append(out, raft.ServerID(m.ID))
	}
	return out
}

func rank(state string) int {
	if state == "alive" {
		return 0
	}
	return 1
}

// ServerAddr implements raft.ServerAddressProvider: addresses change when nodes
// move, so what gossip says now goes before what Raft's configuration said then.
func (d directory) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	if m, ok := d.find(id); ok {
		return raft.ServerAddress(m.Raft), nil
	}
	for _, s := range d.servers() {
		if s.ID == id {
			return s.Address, nil
		}
	}
	return "", fmt.Errorf("the address of node %s is not known", id)
}

// status joins Raft's configuration with gossip: a node of either is listed, but for
// those that gossip only remembers for a while: that were removed, or that ended before
// they became members.
func (d directory) status(servers []raft.Server, leader raft.ServerID) []*api.MemberStatus {
	byID := map[string]*api.MemberStatus{}
	for _, s := range servers {
		byID[string(s.ID)] = &api.MemberStatus{
			NodeId: string(s.ID), Voter: s.Suffrage == raft.Voter, RaftAddress: string(s.Address),
			Gossip: "unknown", Leader: s.ID == leader,
		}
	}
	list := d.members()
	for _, m := range append(d.others(), d.gossip.Self()) {
		s := byID[m.ID]
		listed, known := list.Find(m.ID)
		if gone := len(servers) > 0 && !known && m.State != "alive"; s == nil && (listed.Removed || gone) {
			continue
		}
		if s == nil {
			s = &api.MemberStatus{NodeId: m.ID}
			byID[m.ID] = s
		}
		s.RaftAddress, s.ApiAddress, s.HttpAddress, s.Gossip = m.Raft, m.API, m.HTTP, m.State
		s.Version, s.LowestLevel, s.HighestLevel = m.Version, uint32(m.LowestLevel), uint32(m.HighestLevel)
	}
	out := make([]*api.MemberStatus, 0, len(byID))
	for _, s := range byID {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *api.MemberStatus) int { return cmp.Compare(a.NodeId, b.NodeId) })
	return out
}
