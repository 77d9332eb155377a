package node

import (
	"cmp"
	"fmt"
	"slices"

	"chorale/api"
	"chorale/membership"
	"chorale/raftfsm"

	"github.com/hashicorp/raft"
)

// directory answers who is where, from gossip. It believes nodes of its own
// cluster only.
type directory struct {
	gossip  *membership.Gossip
	cluster func() raftfsm.ClusterID
}

// members are the other nodes of this cluster, and those of none yet, by id.
func (d directory) members() []membership.Member {
	ours := d.cluster()
	return slices.DeleteFunc(d.gossip.Members(), func(m membership.Member) bool {
		none := raftfsm.ClusterID{}
		return m.Cluster != ours && m.Cluster != none && ours != none
	})
}

func (d directory) find(id raft.ServerID) (membership.Member, bool) {
	for _, m := range d.members() {
		if m.ID == string(id) {
			return m, true
		}
	}
	return membership.Member{}, false
}

// API implements peers.Directory.
func (d directory) API(id raft.ServerID) (string, bool) {
	m, ok := d.find(id)
	return m.API, ok && m.API != ""
}

// Others implements peers.Directory: the living first.
func (d directory) Others() []raft.ServerID {
	members := d.members()
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

// ServerAddr implements raft.ServerAddressProvider. With an error Raft takes the
// address of its configuration.
func (d directory) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	m, ok := d.find(id)
	if !ok || m.Raft == "" {
		return "", fmt.Errorf("gossip does not know node %s", id)
	}
	return raft.ServerAddress(m.Raft), nil
}

// status joins Raft's configuration with gossip: a node of either is listed.
func (d directory) status(servers []raft.Server, leader raft.ServerID) []*api.MemberStatus {
	byID := map[string]*api.MemberStatus{}
	for _, s := range servers {
		byID[string(s.ID)] = &api.MemberStatus{
			NodeId: string(s.ID), Voter: s.Suffrage == raft.Voter, RaftAddress: string(s.Address),
			Gossip: "unknown", Leader: s.ID == leader,
		}
	}
	for _, m := range append(d.members(), d.gossip.Self()) {
		s := byID[m.ID]
		if s == nil {
			s = &api.MemberStatus{NodeId: m.ID}
			byID[m.ID] = s
		}
		s.RaftAddress, s.ApiAddress, s.HttpAddress, s.Gossip = m.Raft, m.API, m.HTTP, m.State
	}
	out := make([]*api.MemberStatus, 0, len(byID))
	for _, s := range byID {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *api.MemberStatus) int { return cmp.Compare(a.NodeId, b.NodeId) })
	return out
}
