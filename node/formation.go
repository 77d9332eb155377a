package node

import (
	"context"
	"fmt"
	"time"

	"chorale/membership"
	"chorale/raftfsm/level"

	"github.com/hashicorp/raft"
)

const formationCheck = time.Second

// form returns nil when Raft may be started. On an empty folder that is not before
// the node has founded a cluster, knows who has, or has found the cluster that it
// is to be added to: an empty node that answers Raft under an id that voted before
// could make that vote a second time.
func (p *process) form(ctx context.Context) error {
	for said := ""; ; {
		changed := p.gossip.Changed()
		d := membership.Decide(p.gossip.Self(), p.gossip.Members())
		if d.Action == membership.Join {
			var err error
			if d, err = p.mayJoin(ctx, d); err != nil {
				return err
			}
		}
		p.formation.Store(d.Why)
		if d.Why != said {
			p.log.Info("formation", "decision", d.Action, "why", d.Why)
			said = d.Why
		}
		switch d.Action {
		case membership.Refuse:
			return &errNotIn{"this node will not start: " + d.Why}
		case membership.Found:
			return p.found(d.Servers)
		case membership.Follow:
			return p.firstMember()
		case membership.Resume, membership.Join:
			return nil
		}
		timer := time.NewTimer(formationCheck)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// firstMember notes, before Raft runs, that this node is one of the first.
func (p *process) firstMember() error {
	return p.folder.change(func(i *identity) { i.Expect, i.Founding = p.config.BootstrapExpect, true })
}

// found writes the first configuration of a new cluster.
func (p *process) found(servers []membership.Server) error {
	if err := p.firstMember(); err != nil {
		return err
	}
	var c raft.Configuration
	for _, s := range servers {
		c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(s.ID), Address: raft.ServerAddress(s.Raft)})
	}
	if err := p.engine.Bootstrap(c); err != nil {
		return fmt.Errorf("found the cluster: %w", err)
	}
	p.hasData.Store(true)
	return p.gossip.Update(p.meta())
}

// meta is what this node says of itself in gossip.
func (p *process) meta() membership.Meta {
	id := p.folder.get()
	return membership.Meta{
		Cluster:  p.folder.cluster(),
		Expect:   p.config.BootstrapExpect,
		HasData:  p.hasData.Load(),
		Founding: p.hasData.Load() && id.Founding,
		Ending:   p.ending.Load(),
		Drained:  p.drained.Err() != nil,
		API:      p.addresses.API,
		HTTP:     p.addresses.HTTP,
		Raft:     p.addresses.Raft,
		Version:  level.Version(p.config.Version),

		LowestLevel: uint8(level.Built().Lowest), HighestLevel: uint8(level.Built().Highest),
	}
}
