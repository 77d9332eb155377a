package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"chorale/api"
	"chorale/node/engine"
	"chorale/node/engine/roster"
	"chorale/raftfsm/level"
	"chorale/raftfsm/members"

	"github.com/hashicorp/raft"
)

// noLeader is the answer to what only a leader can do.
const noLeader = "no leader is known: the cluster has no majority of its voters, so nothing can change until enough of them run again; if they are gone for good, see chorale recover-quorum --help"

// changes are the calls that change members, by what they are asked for.
var changes = map[api.ChangeMemberRequest_Change]func(*roster.Roster, context.Context, raft.ServerID) error{
	api.ChangeMemberRequest_ADD: func(r *roster.Roster, ctx context.Context, id raft.ServerID) error { return r.Invite(ctx, id, true) },
	api.ChangeMemberRequest_ADD_NON_VOTER: func(r *roster.Roster, ctx context.Context, id raft.ServerID) error {
		return r.Invite(ctx, id, false)
	},
	api.ChangeMemberRequest_REMOVE: (*roster.Roster).Remove,
	api.ChangeMemberRequest_PROMOTE: func(r *roster.Roster, ctx context.Context, id raft.ServerID) error {
		return r.SetVoter(ctx, id, true)
	},
	api.ChangeMemberRequest_DEMOTE: func(r *roster.Roster, ctx context.Context, id raft.ServerID) error {
		return r.SetVoter(ctx, id, false)
	},
}

// ChangeMember implements api.ClusterServer. Only the leader can do it; others ask it.
func (s *Server) ChangeMember(ctx context.Context, q *api.ChangeMemberRequest) (*api.ChangeMemberResponse, error) {
	change := changes[q.Change]
	switch {
	case change == nil:
		return nil, s.failed(fmt.Errorf("%w: change %v: want add, add-non-voter, remove, promote or demote", engine.ErrInvalid, q.Change))
	case !members.ValidID(q.NodeId):
		return nil, s.failed(fmt.Errorf("%w: node id %q: want 1 to 63 letters, digits, dots, dashes and underscores", engine.ErrInvalid, q.NodeId))
	}
	if err := s.sameCluster(q.ClusterId); err != nil {
		return nil, err
	}
	if err := change(s.Engine.Roster(), ctx, raft.ServerID(q.NodeId)); err != nil {
		return passOn(ctx, s, uncertain(err), q, s.Leader.ChangeMember)
	}
	return &api.ChangeMemberResponse{}, nil
}

// uncertain is an error of a change of members: one that may yet be committed, as that of
// a leader that lost its majority, is not to be made again without looking.
func uncertain(err error) error {
	if errors.Is(err, engine.ErrUnknown) {
		return api.Unknown(err.Error())
	}
	return err
}

// TransferLeadership implements api.ClusterServer.
func (s *Server) TransferLeadership(ctx context.Context, q *api.TransferLeadershipRequest) (*api.TransferLeadershipResponse, error) {
	if err := s.sameCluster(q.ClusterId); err != nil {
		return nil, err
	}
	id, err := s.Engine.Roster().Transfer(ctx, raft.ServerID(q.NodeId))
	if err != nil {
		return passOn(ctx, s, uncertain(err), q, s.Leader.Transfer)
	}
	return &api.TransferLeadershipResponse{LeaderId: string(id)}, nil
}

// notLeading reports whether it was refused because this node leads no more.
func notLeading(err error) bool {
	return errors.Is(err, engine.ErrNotLeader) || errors.Is(err, raft.ErrNotLeader)
}

// Drain implements api.ClusterServer, for this node alone.
func (s *Server) Drain(ctx context.Context, q *api.DrainRequest) (*api.DrainResponse, error) {
	self := string(s.Engine.ID())
	if q.NodeId != self {
		return nil, s.failed(&roster.Refusal{Reason: roster.ReasonUnknown, Text: fmt.Sprintf("this is node %s, not %q: ask that node", self, q.NodeId)})
	}
	// Of two that drain at a time each is told before it asks: at least one sees the other.
	s.ends.Store(true)
	drained := false
	defer func() { s.ends.Store(drained) }()
	list, err := s.ListMembers(ctx, &api.ListMembersRequest{Now: true})
	if err != nil {
		return nil, err
	}
	if list.LeaderId == "" {
		return nil, s.unavailable(noLeader)
	}
	voters, others, votes := 0, 0, false
	for _, m := range list.Members {
		if m.Role != api.Member_VOTER {
			continue
		}
		voters++
		switch {
		case m.NodeId == self:
			votes = true
		case m.Heard:
			others++
		}
	}
	if votes && voters == 1 {
		return nil, s.failed(&roster.Refusal{Reason: roster.ReasonQuorum, Text: fmt.Sprintf(
			"node %s is the only voter, without which nothing can be published: add others first, or stop it with SIGTERM all the same", self)})
	}
	if votes && others < voters/2+1 {
		return nil, s.failed(&roster.Refusal{Reason: roster.ReasonQuorum, Text: fmt.Sprintf(
			"without node %s only %d of %d voters would run, and %d are needed: start or add others first", self, others, voters, voters/2+1)})
	}
	if _, leads := s.Engine.Leader(); leads {
		// Raft may give up on a transfer that comes about all the same, or on one that another
		// election was faster than: what counts is that this node does not lead.
		if _, err := s.Engine.Roster().Transfer(ctx, ""); err != nil && !notLeading(err) {
			return nil, s.failed(err)
		}
	}
	s.Log.Info("this node is drained: it ends and stays a member")
	s.Options.Drain()
	drained = true
	return &api.DrainResponse{GossipAddress: s.GossipAddress}, nil
}

// Join implements api.PeerServer.
func (s *Server) Join(ctx context.Context, q *api.JoinRequest) (*api.JoinResponse, error) {
	if !members.ValidID(q.NodeId) || q.Incarnation == 0 {
		return nil, s.failed(fmt.Errorf("%w: node id %q, incarnation %x", engine.ErrInvalid, q.NodeId, q.Incarnation))
	}
	if err := s.sameCluster(q.ClusterId); err != nil {
		return nil, err
	}
	r := roster.JoinRequest{
		ID: raft.ServerID(q.NodeId), Incarnation: members.Incarnation(q.Incarnation), Address: raft.ServerAddress(q.RaftAddress),
		Voter: !q.NonVoter, HasData: q.HasData, Reads: level.Announced(q.LowestLevel, q.HighestLevel), Version: cmp.Or(q.Version, "an earlier one"),
	}
	err := s.Engine.Roster().Check(r)
	if err == nil {
		err = s.Engine.Roster().Join(ctx, r)
	}
	if err != nil {
		return passOn(ctx, s, err, q, s.Leader.Join)
	}
	return &api.JoinResponse{ClusterId: s.cluster()}, nil
}

// cluster is the id that clients know the cluster by, "" before there is one.
func (s *Server) cluster() string {
	if id := s.Engine.Cluster(); id != [16]byte{} {
		return fmt.Sprintf("%x", id)
	}
	return ""
}

// sameCluster refuses what was meant for another cluster.
func (s *Server) sameCluster(id string) error {
	if ours := s.cluster(); id != "" && ours != "" && id != ours {
		return s.failed(&roster.Refusal{Reason: "OTHER_CLUSTER", Text: fmt.Sprintf("this is a node of cluster %s, not of %s", ours, id)})
	}
	return nil
}

// GetHealth implements api.PeerServer.
func (s *Server) GetHealth(context.Context, *api.GetHealthRequest) (*api.GetHealthResponse, error) {
	h := s.Engine.Health()
	out := &api.GetHealthResponse{
		NodeId: string(s.Engine.ID()), Incarnation: uint64(h.Incarnation), ClusterId: s.cluster(), AppliedIndex: h.Applied,
		MissingFiles: uint64(h.MissingFiles), MissingBytes: uint64(h.MissingBytes), LeaderId: string(h.Leader),
		UndurableFiles: uint64(h.Undurable), Plan: h.Plan, PlanSum: h.PlanSum[:],
		Voters: h.Voters, Ends: s.ends.Load(),
		Version: h.Version, LowestLevel: uint32(h.Reads.Lowest), HighestLevel: uint32(h.Reads.Highest),
	}
	for _, f := range h.Built {
		out.Built = append(out.Built, f[:])
	}
	return out, nil
}

// ListMembers implements api.ClusterServer. The leader knows how far everybody is;
// without one a node tells what it knows.
func (s *Server) ListMembers(ctx context.Context, q *api.ListMembersRequest) (*api.ListMembersResponse, error) {
	leader, local := s.Engine.Leader()
	if !local && leader != "" && !forwarded(ctx) {
		ask, cancel := context.WithTimeout(ctx, leaderAnswer)
		defer cancel()
		out, err := s.Leader.Members(ask, leader, q)
		if err == nil {
			return out, nil
		}
		s.Log.Debug("the leader did not tell the members", "leader", leader, "error", err)
		leader = ""
	}
	return &api.ListMembersResponse{
		Members: s.memberList(ctx, leader, local, q.Now), LeaderId: string(leader), NodeId: string(s.Engine.ID()), Level: levelStatus(s.Engine.Status()),
	}, nil
}

// memberList joins the list, Raft's configuration, gossip and the leader's reports.
func (s *Server) memberList(ctx context.Context, leader raft.ServerID, local, now bool) []*api.Member {
	byID := map[string]*api.Member{}
	get := func(id string) *api.Member {
		if byID[id] == nil {
			byID[id] = &api.Member{NodeId: id, Gossip: "unknown"}
		}
		return byID[id]
	}
	for _, c := range s.Engine.Servers() {
		m := get(string(c.ID))
		m.Role, m.Wish, m.Leader, m.RaftAddress = roleOf(c.Suffrage == raft.Voter), api.Member_VOTER, c.ID == leader, string(c.Address)
	}
	for _, r := range s.Engine.Members() {
		m := get(r.ID)
		m.Wish, m.Invited = roleOf(r.Voter), r.Invited
		if r.Removed && !r.Invited {
			m.Wish = api.Member_NONE
		}
	}
	for _, g := range s.Members() {
		if m := byID[g.NodeId]; m != nil {
			m.Gossip, m.ApiAddress, m.HttpAddress, m.RaftAddress = g.Gossip, g.ApiAddress, g.HttpAddress, g.RaftAddress
			m.Version, m.LowestLevel, m.HighestLevel = g.Version, g.LowestLevel, g.HighestLevel
		}
	}
	if local {
		var running map[raft.ServerID]bool
		if now {
			running = s.Engine.Roster().Running(ctx)
			running[s.Engine.ID()] = !s.ends.Load()
		}
		for id, n := range s.Engine.Roster().Reports() {
			if m := byID[string(id)]; m != nil && (running[id] || !now && n.Fresh(time.Now())) {
				m.Heard, m.LogLag, m.MissingFiles, m.MissingBytes = true, n.Lag, uint64(n.MissingFiles), uint64(n.MissingBytes)
				m.CaughtUp = !n.Since.IsZero()
				m.Version, m.LowestLevel, m.HighestLevel = n.Version, uint32(n.Reads.Lowest), uint32(n.Reads.Highest)
			}
		}
	}
	out := make([]*api.Member, 0, len(byID))
	for _, m := range byID {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *api.Member) int { return strings.Compare(a.NodeId, b.NodeId) })
	return out
}

func levelStatus(st engine.Status) *api.LevelStatus {
	return &api.LevelStatus{InUse: uint32(st.Levels.InUse), Held: st.Levels.Held, Lowest: uint32(st.Reads.Lowest), Highest: uint32(st.Reads.Highest)}
}

func roleOf(voter bool) api.Member_Role {
	if voter {
		return api.Member_VOTER
	}
	return api.Member_NON_VOTER
}
