package roster

import (
	"context"
	"fmt"
	"strings"

	"chorale/raftfsm"
	"chorale/raftfsm/level"

	"github.com/hashicorp/raft"
)

// inUse is the level that a leader keeps to. A log that has none yet is at level.Base, if
// all members answer that they read it, or at what they read; who is silent is known to
// read no more than what is in the log already.
func (v view) inUse(but raft.ServerID) level.Level {
	if v.level.Level > 0 {
		return v.level.Level
	}
	use := min(level.Base, v.reads.Highest)
	for _, s := range v.servers {
		switch n := v.reports[s.ID]; {
		case s.ID == v.self || s.ID == but:
		case v.now.Sub(n.Said) < heardWait:
			use = min(use, n.Reads.Highest)
		default:
			use = min(use, v.proven)
		}
	}
	return use
}

// rise is the level to which the log may be raised: all members, voters or not, have
// answered now, out of the folders that they are known by, and read it.
func (v view) rise(answered map[raft.ServerID]bool) (m level.Mark, due bool) {
	m.Level = v.reads.Highest
	for _, s := range v.servers {
		if !answered[s.ID] || !v.ours(s.ID) {
			return m, false
		}
		m.Level = min(m.Level, v.reports[s.ID].Reads.Highest)
	}
	for _, s := range v.servers {
		if n := v.reports[s.ID]; n.Reads.Highest == m.Level {
			m.By = n.Version
		}
	}
	return m, m.Level >= level.Logged && m.Level > v.level.Level
}

// ours reports whether what a node says comes from the data folder that is the member.
func (v view) ours(id raft.ServerID) bool {
	m, _ := v.list.Find(string(id))
	return id == v.self || m.Incarnation == 0 || m.Incarnation == v.reports[id].Incarnation
}

// raise raises the level of the log if that is due: for ever. Nobody joins meanwhile.
func (r *Roster) raise(ctx context.Context, answered map[raft.ServerID]bool) error {
	if r.View().Level.Level >= r.Reads.Highest {
		return nil
	}
	release, err := r.hold(ctx)
	if err != nil {
		return nil
	}
	defer release()
	m, due := r.view().rise(answered)
	if !due {
		return nil
	}
	result, err := r.Command(ctx, raftfsm.EncodeLevel(m))
	if err == nil {
		err = result.Err
	}
	if err == nil {
		r.Log.Info("the level of the log is raised: all members understand it", "level", m.Level, "version", m.By)
	}
	return err
}

// Permit refuses an entry that a member would stop at, because its build is too old for
// it. Only a leader can say so. It waits until the leader knows who runs what.
func (r *Roster) Permit(ctx context.Context, entry []byte) error { return r.permit(ctx, entry, "") }

// permit is Permit with a member out of account.
func (r *Roster) permit(ctx context.Context, entry []byte, but raft.ServerID) error {
	need := level.Of(entry)
	if need <= max(level.First, r.View().Proven) {
		return nil
	}
	if err := r.awaitLook(ctx); err != nil {
		return err
	}
	v := r.view()
	use := v.inUse(but)
	if need <= use {
		return nil
	}
	return &Refusal{ReasonOld, fmt.Sprintf("%v came with level %d of the log, and level %d is in use: %s. Upgrade every node, and it can be used",
		level.Kind(entry[0]), need, use, strings.Join(v.behind(need), "; "))}
}

// behind says of each member that does not read a level, or is silent, what it is.
func (v view) behind(l level.Level) (out []string) {
	for _, s := range v.servers {
		n := v.reports[s.ID]
		reads, version := n.Reads, "an earlier version"
		if n.Version != "" {
			version = "version " + n.Version
		}
		if s.ID == v.self {
			reads = v.reads
		}
		switch {
		case s.ID != v.self && v.now.Sub(n.Said) >= heardWait:
			out = append(out, fmt.Sprintf("node %s does not answer", s.ID))
		case !v.ours(s.ID):
			out = append(out, fmt.Sprintf("node %s answers with another data folder than the one that is a member", s.ID))
		case reads.Highest < l:
			out = append(out, fmt.Sprintf("node %s runs %s, which reads levels %v", s.ID, version, reads))
		}
	}
	return out
}

// admits refuses a node whose build does not read the log: it would stop at it. A member
// is never refused where the log has no level, since that one keeps to the members.
func (v view) admits(q JoinRequest) error {
	if _, counts := v.find(q.ID); counts && v.level.Level == 0 {
		return nil
	}
	use := level.Mark{Level: v.inUse(""), By: v.level.By}
	if err := use.Check(q.Reads); err != nil {
		return &Refusal{ReasonLevel, fmt.Sprintf("node %s, of version %s: %v", q.ID, q.Version, err)}
	}
	return nil
}

// Levels is how the level of the log stands.
type Levels struct {
	// InUse is the level whose commands a leader proposes, as far as this node knows.
	InUse level.Level
	// Held is why that is not the highest one of this build; "" if it is, or if this node
	// does not lead.
	Held string
}

// Levels may be called on any node.
func (r *Roster) Levels() Levels {
	if r.Raft() == nil {
		return Levels{InUse: r.View().Level.Level}
	}
	v := r.view()
	out := Levels{InUse: v.inUse("")}
	if out.InUse >= v.reads.Highest || r.Serves() != nil || !r.begun() {
		return out
	}
	behind := v.behind(v.reads.Highest)
	if len(behind) == 0 {
		return out // it is about to be raised
	}
	out.Held = fmt.Sprintf("level %d waits: %s", v.reads.Highest, strings.Join(behind, "; "))
	if names := level.Between(out.InUse, v.reads.Highest); len(names) > 0 {
		out.Held += "; not used until then: " + strings.Join(names, ", ")
	}
	return out
}
