package engine

import (
	"chorale/node/engine/roster"
	"chorale/raftfsm/kept"
	"chorale/raftfsm/level"
	"chorale/raftfsm/members"
)

// newRoster wires what this node does about members.
func (e *Engine) newRoster() *roster.Roster {
	return roster.New(roster.Options{
		ID: e.settings.ID, Incarnation: e.settings.Incarnation, Raft: e.running,
		Members: e.machine.FSM.Members, Command: e.put, Health: e.Health, Ask: e.seams.Peers.Health,
		Serves: func() error {
			if _, leads := e.leading.Now(); !leads {
				return ErrNotLeader
			}
			return nil
		},
		Reads: e.settings.Reads, View: e.machine.View,
		Steady: e.settings.Steady, RemoveDead: e.settings.RemoveDead, Log: e.log.Named("members"),
	})
}

// Roster is what this node does about members.
func (e *Engine) Roster() *roster.Roster { return e.roster }

// Members is the replicated list, not to be changed.
func (e *Engine) Members() members.List {
	list, _ := e.machine.FSM.Members()
	return list
}

// Level is that of the log, zero as long as it has none.
func (e *Engine) Level() level.Mark { return e.machine.FSM.View().Level }

// Subtrees are the rules of subtrees and what has gone by them, as far as this node knows.
func (e *Engine) Subtrees() kept.State { return e.machine.FSM.Kept() }

// Health is how far this node is. What it is building itself is not missing.
func (e *Engine) Health() roster.Health {
	done, _ := e.compaction.Newest()
	h := roster.Health{
		Incarnation: e.settings.Incarnation, Undurable: e.history.Undurable(), Plan: done.Plan, PlanSum: done.Sum(),
		Reads: e.settings.Reads, Version: e.settings.Version,
	}
	for _, f := range e.history.Proposals() {
		h.Built = append(h.Built, f.Hash)
	}
	for _, m := range e.history.Missing() {
		if !e.compaction.Makes(m) {
			h.MissingFiles++
			h.MissingBytes += m.Bytes
		}
	}
	if r := e.running(); r != nil {
		h.Applied, h.Voters = r.AppliedIndex(), roster.Electorate(r.GetConfiguration().Configuration())
		_, h.Leader = r.LeaderWithID()
	}
	return h
}
