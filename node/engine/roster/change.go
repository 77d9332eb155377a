package roster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chorale/raftfsm"
	"chorale/raftfsm/level"
	"chorale/raftfsm/members"

	"github.com/hashicorp/raft"
)

// JoinRequest is a node that asks to be a member, or introduces itself as one.
type JoinRequest struct {
	ID          raft.ServerID
	Incarnation members.Incarnation
	// Address of its Raft. It is what Raft falls back on where gossip knows no newer.
	Address raft.ServerAddress
	Voter   bool
	HasData bool
	// Reads is what of the log the node's build understands, Version which one that is.
	Reads   level.Range
	Version string
}

// Check refuses what this node knows to be refused, whoever leads: what was removed
// stays removed.
func (r *Roster) Check(q JoinRequest) error {
	list, _ := r.Members()
	if m, _ := list.Find(string(q.ID)); m.Removed && m.Incarnation == q.Incarnation {
		return r.explain(members.ErrRemoved, q.ID)
	}
	return nil
}

// Join makes the node a member, and a non-voter of Raft's configuration, unless it is
// one already. Only the leader can.
func (r *Roster) Join(ctx context.Context, q JoinRequest) error {
	release, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer release()
	v := r.view()
	if err := v.admits(q); err != nil {
		return err
	}
	m, known := v.list.Find(string(q.ID))
	s, counts := v.find(q.ID)
	switch {
	case !known && counts && !q.HasData:
		// One of the first members that has not introduced itself yet, or its wiped disk.
		return r.explain(members.ErrOtherFolder, q.ID)
	case !known && !counts && q.HasData:
		return &Refusal{ReasonStrange, fmt.Sprintf("node %s holds data but is no member of this cluster: empty its data folder and start it with --join", q.ID)}
	case m.Removed && counts && !q.HasData:
		// Its former life still counts: that has to end before another one begins.
		if err := r.drop(ctx, s); err != nil {
			return err
		}
		counts = false
	}
	if err := r.commit(ctx, members.Change{Op: members.Join, ID: string(q.ID), Incarnation: q.Incarnation, Voter: q.Voter, HasData: q.HasData}); err != nil {
		return err
	}
	if counts {
		return nil
	}
	r.Log.Info("a node joins", "node", q.ID, "address", q.Address, "voter", q.Voter)
	return r.demand(ctx, func(now *raft.Raft) raft.Future { return now.AddNonvoter(q.ID, q.Address, 0, askWait) })
}

// drop removes a server from Raft's configuration now.
func (r *Roster) drop(ctx context.Context, s raft.Server) error {
	if s.ID == r.ID {
		return &Refusal{ReasonMember, fmt.Sprintf("node %s is being removed: try again", s.ID)}
	}
	return r.demand(ctx, func(now *raft.Raft) raft.Future { return now.RemoveServer(s.ID, 0, askWait) })
}

// Invite lets an id join with an empty folder, as a voter or not.
func (r *Roster) Invite(ctx context.Context, id raft.ServerID, voter bool) error {
	return r.change(ctx, id, members.Change{Op: members.Invite, Voter: voter}, func(v view) error {
		if m, known := v.list.Find(string(id)); !known || m.Removed {
			if s, counts := v.find(id); counts && !m.Removed {
				return r.explain(members.ErrMember, s.ID)
			}
		}
		return nil
	})
}

// Remove ends a node's membership for good.
func (r *Roster) Remove(ctx context.Context, id raft.ServerID) error {
	return r.change(ctx, id, members.Change{Op: members.Remove}, func(v view) error {
		if err := v.known(id); err != nil {
			return err
		}
		return v.mayLose(id)
	})
}

// SetVoter says whether a member is meant to vote.
func (r *Roster) SetVoter(ctx context.Context, id raft.ServerID, voter bool) error {
	return r.change(ctx, id, members.Change{Op: members.Wish, Voter: voter}, func(v view) error {
		if err := v.known(id); err != nil || voter {
			return err
		}
		return v.mayLose(id)
	})
}

// known refuses an id that is neither configured nor listed.
func (v view) known(id raft.ServerID) error {
	_, listed := v.list.Find(string(id))
	if _, counts := v.find(id); !counts && !listed {
		return v.unknown(id)
	}
	return nil
}

// Transfer lets another voter lead: that one, or the best if id is "". It returns who.
func (r *Roster) Transfer(ctx context.Context, id raft.ServerID) (raft.ServerID, error) {
	release, err := r.begin(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	if id == r.ID {
		return id, nil
	}
	to, err := r.transfer(ctx, id)
	if now := r.Raft(); to != "" && err != nil && now != nil && now.State() == raft.Leader && ctx.Err() == nil {
		return to, &Refusal{ReasonBehind, fmt.Sprintf("node %s did not take over, so node %s still leads: %v: wait until members list shows that it is alive and has caught up, or name another node", to, r.ID, err)}
	}
	return to, err
}

func (r *Roster) view() view {
	list, _ := r.Members()
	c := r.Raft().GetConfiguration().Configuration()
	state := r.View()
	return view{
		self: r.ID, servers: c.Servers, list: list, reports: r.Reports(), now: time.Now(), steady: r.Steady, voters: Electorate(c),
		level: state.Level, proven: state.Proven, reads: r.Reads,
	}
}

// viewOfNow is a view in which only nodes that answer now are alive. One that died a
// moment ago would else count for the majority that is left without the node that goes.
func (r *Roster) viewOfNow(ctx context.Context) view {
	answered := r.look(ctx)
	v := r.view()
	for id, n := range v.reports {
		if !answered[id] {
			n.Heard = time.Time{}
			v.reports[id] = n
		}
	}
	return v
}

// begin takes the right to change members on a node that leads.
func (r *Roster) begin(ctx context.Context) (release func(), err error) {
	if err := r.Serves(); err != nil {
		return nil, err
	}
	if err := r.awaitLook(ctx); err != nil {
		return nil, err
	}
	return r.hold(ctx)
}

// awaitLook waits until a leader knows of everybody who answers.
func (r *Roster) awaitLook(ctx context.Context) error {
	r.mu.Lock()
	looked := r.looked
	r.mu.Unlock()
	late := time.NewTimer(beginWait)
	defer late.Stop()
	select {
	case <-looked:
		return nil
	case <-late.C:
		return &Refusal{ReasonBusy, "the leader has just begun and does not know yet how far the others are: try again"}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// change commits a change that check lets pass.
func (r *Roster) change(ctx context.Context, id raft.ServerID, c members.Change, check func(view) error) error {
	release, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer release()
	if c.Op == members.Remove || c.Op == members.Wish && !c.Voter {
		err = r.checkNow(ctx, check)
	} else {
		err = check(r.view())
	}
	if err != nil {
		return err
	}
	c.ID = string(id)
	return r.commit(ctx, c)
}

// checkNow checks a change against what nodes say now, and gives those that are a little
// behind with log or files a moment to catch up.
func (r *Roster) checkNow(ctx context.Context, check func(view) error) error {
	for until := time.Now().Add(moment); ; {
		err := check(r.viewOfNow(ctx))
		var refused *Refusal
		if !errors.As(err, &refused) || refused.Reason != ReasonFiles && refused.Reason != ReasonBehind || time.Now().After(until) {
			return err
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return err
		}
	}
}

// commit puts a change through the log.
func (r *Roster) commit(ctx context.Context, c members.Change) error {
	list, _ := r.Members()
	if m, _ := list.Find(c.ID); c.Op == members.Join && m.Incarnation == c.Incarnation && !m.Removed {
		return nil // it is a member already: nothing for the log
	}
	entry := raftfsm.EncodeMember(c)
	but := raft.ServerID("")
	if c.Op == members.Remove {
		but = raft.ServerID(c.ID) // that one may stop at it
	}
	if err := r.permit(ctx, entry, but); err != nil {
		return err
	}
	result, err := r.Command(ctx, entry)
	if err != nil {
		return err
	}
	return r.explain(result.Err, raft.ServerID(c.ID))
}

// explain makes of a refusal of the state machine one that says what to do.
func (r *Roster) explain(err error, id raft.ServerID) error {
	switch {
	case errors.Is(err, members.ErrRemoved):
		return &Refusal{ReasonRemoved, (&RemovedError{id}).Error()}
	case errors.Is(err, members.ErrOtherFolder):
		return &Refusal{ReasonOtherFolder, fmt.Sprintf("node %s is a member with another data folder: if that folder is lost, remove the node first (chorale members remove %s) and start it again with an empty folder; or choose another --id", id, id)}
	case errors.Is(err, members.ErrMember):
		return &Refusal{ReasonMember, fmt.Sprintf("node %s is a member already: promote and demote change its role", id)}
	case errors.Is(err, members.ErrFull):
		return &Refusal{ReasonFull, err.Error() + ": remove one that is not needed"}
	}
	return err
}
