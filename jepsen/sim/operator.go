package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"chorale/jepsen/sim/wire"
	"chorale/message"
	"chorale/node/engine"
	"chorale/node/engine/roster"
	"chorale/raftfsm/level"

	"github.com/hashicorp/raft"
)

const (
	// steady is how long a machine must be caught up before it votes.
	steady = 500 * time.Millisecond
	// operatorPause is between two looks or tries of the operator, operatorWait bounds
	// one try.
	operatorPause = 200 * time.Millisecond
	operatorWait  = 3 * time.Second
)

// operator replaces machines while the nemesis does harm: it removes a node, gives its
// machine an empty disk and lets it join again. Every machine that was taken is brought
// back, if need be after the storm.
type operator struct {
	c   *cluster
	rng *rand.Rand
}

func (o *operator) run(ctx context.Context) {
	for {
		select {
		case <-time.After(time.Duration(o.rng.Int64N(int64(4 * time.Second)))):
		case <-ctx.Done():
			return
		}
		o.replace(ctx, o.c.machines[o.rng.IntN(nodes)])
	}
}

// lead makes a call on the node that leads.
func (c *cluster) lead(call func(context.Context, *engine.Engine) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), operatorWait)
	defer cancel()
	for _, m := range c.machines {
		if p := m.process(); p != nil {
			if _, leads := p.engine.Leader(); leads {
				return call(ctx, p.engine)
			}
		}
	}
	return errors.New("nobody leads")
}

// insist makes a call until it succeeds; false if the deadline of the clients is over.
func (c *cluster) insist(what string, call func(context.Context, *engine.Engine) error) bool {
	for {
		err := c.lead(call)
		if err == nil {
			return true
		}
		if c.expired() {
			c.found("stuck", "%s: %v", what, err)
			return false
		}
		time.Sleep(operatorPause)
	}
}

var errNotYet = errors.New("not yet")

// has reports whether a node is in the leader's configuration.
func has(e *engine.Engine, name string) bool {
	return slices.ContainsFunc(e.Servers(), func(s raft.Server) bool { return s.ID == serverID(name) })
}

func (o *operator) replace(ctx context.Context, m *machine) {
	m.leaving.Store(true)
	defer m.leaving.Store(false)
	remove := func(ctx context.Context, e *engine.Engine) error { return e.Roster().Remove(ctx, serverID(m.name)) }
	for err := o.c.lead(remove); err != nil; err = o.c.lead(remove) {
		var refused *roster.Refusal
		if errors.As(err, &refused) && refused.Reason == roster.ReasonRemoved {
			break // an earlier try was committed, although nobody said so
		}
		if ctx.Err() != nil {
			break
		}
		time.Sleep(operatorPause)
	}
	// Perhaps the last try was committed. Who leads next knows.
	gone := false
	if !o.c.insist("removal of "+m.name, func(ctx context.Context, e *engine.Engine) error {
		if _, err := e.Producer(ctx, message.ProducerID{1}); err != nil {
			return err // it answers behind everything that was committed, and so does the list
		}
		r, _ := e.Members().Find(m.name)
		if gone = r.Removed; gone && has(e, m.name) {
			return errNotYet
		}
		return nil
	}) {
		return
	}
	if !gone {
		return
	}
	m.held.Store(true)
	o.c.note("%s is removed and gets an empty disk", m.name)
	m.starting <- struct{}{}
	m.folder.Add(1)
	m.crash(true)
	m.disk.Wipe()
	// It gets the newest version: the level may rise while it is no member, and then the log
	// does not admit an earlier one.
	m.reads.Store(uint32(level.Built().Highest))
	m.bootNow()
	m.held.Store(false)
	<-m.starting
	// The next one goes when this one votes again: with one voter left an entry would be
	// committed that the ledger never sees on two disks.
	o.c.insist("return of "+m.name, func(_ context.Context, e *engine.Engine) error {
		if !slices.Contains(e.Servers(), raft.Server{ID: serverID(m.name), Address: wire.Address(m.index), Suffrage: raft.Voter}) {
			return errNotYet
		}
		return nil
	})
	o.c.saw("a machine was replaced")
}

// introduce makes the node a member before Raft runs, where its disk is empty; else
// beside it, as package node does. False if the node was taken before.
func (p *process) introduce() bool {
	folder := p.m.folder.Load()
	join := func() error {
		return p.m.c.lead(func(ctx context.Context, e *engine.Engine) error {
			return e.Roster().Join(ctx, roster.JoinRequest{
				ID: serverID(p.m.name), Incarnation: p.engine.Health().Incarnation, Reads: p.engine.Health().Reads, Address: wire.Address(p.m.index), Voter: true,
				HasData: folder == 1 || p.m.joined.Load() == folder,
			})
		})
	}
	if !p.m.c.plan.replaced {
		return true
	}
	if folder == 1 || p.m.joined.Load() == folder {
		go p.insist(join)
		return true
	}
	if !p.insist(join) {
		return false
	}
	p.m.joined.Store(folder)
	return true
}

// insist tries until it succeeds; false if the process ends before.
func (p *process) insist(try func() error) bool {
	for try() != nil {
		select {
		case <-time.After(operatorPause):
		case <-p.life.Done():
			return false
		}
	}
	return true
}

// wasRemoved reports whether a node ended because it was removed, as it may if the
// operator wants that.
func (m *machine) wasRemoved(err error) bool {
	var removed *roster.RemovedError
	if !errors.As(err, &removed) {
		return false
	}
	if !m.leaving.Load() {
		m.c.found("removed", "%s ended although nobody removed it: %v", m.name, err)
	}
	return true
}
