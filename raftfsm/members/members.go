// Package members is the replicated list of a cluster's nodes: which data folder each
// id stands for, whether it is meant to vote, and which ids were removed for good.
//
// It says what is wanted. Which nodes Raft counts is Raft's configuration, which the
// leader brings in line with the list, a server at a time.
package members

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// What a change is refused for: data, alike on all nodes.
var (
	// ErrRemoved is the result of a join with a folder of a node that was removed, and
	// of a change of a removed node.
	ErrRemoved = errors.New("the node was removed from the cluster")
	// ErrOtherFolder is the result of a join under an id that stands for another
	// folder: the node's disk was wiped or exchanged, or two nodes have one id.
	ErrOtherFolder = errors.New("the id belongs to a member with another data folder")
	// ErrMember is the result of an invitation of a member.
	ErrMember = errors.New("the node is a member already")
	// ErrFull is the result of one member more than MaxLive.
	ErrFull = errors.New("the cluster is full")
)

const (
	// MaxLive bounds the members that are not removed, MaxRecords all that are
	// remembered: over that, the removal that lies back farthest is forgotten.
	MaxLive    = 256
	MaxRecords = 1024
	// MaxIDBytes bounds an id.
	MaxIDBytes = 63
)

// Incarnation is drawn at random with each new data folder, so that the same id over
// another folder can be told from the node that the cluster knows. 0 is not known.
type Incarnation uint64

// Member is what the cluster remembers of an id.
type Member struct {
	ID string
	// Incarnation is 0 of a node that has not joined yet, and of one of the first
	// members until it has introduced itself.
	Incarnation Incarnation
	// Voter: the node is meant to vote, once it has caught up.
	Voter bool
	// Removed: neither votes nor serves, with this folder never again.
	Removed bool
	// Invited: Voter was chosen before the node joined with an empty folder, which it
	// has not done yet.
	Invited bool
	// Changed is the index of the entry that changed this last.
	Changed uint64
}

// List is all of them, ascending by id. It is never changed, only replaced. The zero
// value is empty.
type List []Member

// Find is the member with that id.
func (l List) Find(id string) (Member, bool) {
	i, ok := l.search(id)
	if !ok {
		return Member{ID: id}, false
	}
	return l[i], true
}

func (l List) search(id string) (int, bool) {
	return slices.BinarySearchFunc(l, id, func(m Member, id string) int { return cmp.Compare(m.ID, id) })
}

// Op is what a Change does. The values are part of the log for ever.
type Op uint8

// The changes.
const (
	// Join: a node asks to be a member, or introduces itself as the one that it is.
	Join Op = iota + 1
	// Invite: an id may join, as a voter or not.
	Invite
	// Remove: an id is no member any more.
	Remove
	// Wish: a member is meant to vote, or not to.
	Wish
)

// String is the name in messages.
func (o Op) String() string {
	names := [...]string{"", "join", "invite", "remove", "wish"}
	if o >= Join && int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("operation %d", uint8(o))
}

// Change is a command.
type Change struct {
	Op Op
	ID string
	// Incarnation of Join: not 0.
	Incarnation Incarnation
	// Voter of Join, Invite and Wish.
	Voter bool
	// HasData of Join: the folder holds data of its node's life in a cluster.
	HasData bool
}

// Apply is the list after a change, made by the entry with that index. An error
// leaves the list as it is. Pure.
func (l List) Apply(index uint64, c Change) (List, error) {
	m, known := l.Find(c.ID)
	next, err := m.apply(known, c)
	if err != nil || known && next == m {
		return l, err
	}
	next.Changed = index
	return l.put(next)
}

func (m Member) apply(known bool, c Change) (Member, error) {
	switch c.Op {
	case Join:
		return m.join(known, c)
	case Invite:
		if known && !m.Removed && !m.Invited {
			return m, fmt.Errorf("%w: %s", ErrMember, m.ID)
		}
		m.Invited, m.Voter = true, c.Voter
		return m, nil
	}
	if m.Removed && !m.Invited {
		return m, fmt.Errorf("%w: %s", ErrRemoved, m.ID)
	}
	if c.Op == Remove {
		m.Removed, m.Invited, m.Voter = true, false, false
	} else {
		m.Voter = c.Voter
	}
	return m, nil
}

// join is the one place that decides whether a folder may stand for an id.
//
//	record                    folder empty          folder with data
//	none                      becomes a member      becomes a member (one of the first)
//	removed, this folder      refused               refused
//	removed, another folder   becomes a member      refused
//	invited                   becomes a member      refused
//	member, this folder       is one already        is one already
//	member, folder not known  refused               its folder is known from now on
//	member, another folder    refused               refused
//
// An empty folder may have voted in a life that it has forgotten; so it never takes
// the place of one that may count.
func (m Member) join(known bool, c Change) (Member, error) {
	voter := c.Voter && (!m.Invited || m.Voter)
	fresh := Member{ID: c.ID, Incarnation: c.Incarnation, Voter: voter}
	switch {
	case !known:
		return fresh, nil
	case m.Removed && (c.HasData || c.Incarnation == m.Incarnation):
		return m, fmt.Errorf("%w: %s", ErrRemoved, m.ID)
	case m.Removed || m.Invited && !c.HasData:
		return fresh, nil
	case m.Incarnation == c.Incarnation:
		return m, nil
	case m.Incarnation == 0 && !m.Invited && c.HasData:
		m.Incarnation = c.Incarnation
		return m, nil
	}
	return m, fmt.Errorf("%w: %s", ErrOtherFolder, m.ID)
}

// put is the list with a record replaced or added.
func (l List) put(m Member) (List, error) {
	live := 0
	for _, other := range l {
		if other.ID != m.ID && other.live() {
			live++
		}
	}
	if m.live() && live >= MaxLive {
		return l, fmt.Errorf("%w: it has %d members, as many as are allowed", ErrFull, live)
	}
	out := slices.Clone(l)
	i, known := out.search(m.ID)
	if known {
		out[i] = m
		return out, nil
	}
	out = slices.Insert(out, i, m)
	if len(out) > MaxRecords {
		out = out.forget()
	}
	return out, nil
}

// Alone is the list of a cluster that has lost all nodes but one: that one votes, with
// this folder, and all others are removed, those of configured too, which may have no
// record yet. Who is only invited stays so. The error is that of a join: a node that was
// removed, or whose id has passed to another folder, is not what is left of a cluster.
func (l List) Alone(index uint64, id string, folder Incarnation, configured []string) (List, error) {
	others := slices.Clone(configured)
	for _, m := range l {
		if m.live() && !m.Invited {
			others = append(others, m.ID)
		}
	}
	var steps []Change
	slices.Sort(others)
	for _, other := range slices.Compact(others) {
		if m, _ := l.Find(other); other != id && (!m.Removed || m.Invited) {
			steps = append(steps, Change{Op: Remove, ID: other})
		}
	}
	steps = append(steps, Change{Op: Join, ID: id, Incarnation: folder, Voter: true, HasData: true}, Change{Op: Wish, ID: id, Voter: true})
	for _, c := range steps {
		var err error
		if l, err = l.Apply(index, c); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// live reports whether a member counts towards MaxLive.
func (m Member) live() bool { return !m.Removed || m.Invited }

// forget drops the record that was removed first. There is one, since MaxLive is
// less than MaxRecords.
func (l List) forget() List {
	oldest := -1
	for i, m := range l {
		if !m.live() && (oldest < 0 || m.Changed < l[oldest].Changed) {
			oldest = i
		}
	}
	return slices.Delete(l, oldest, oldest+1)
}
