package node

import (
	"context"
	"fmt"
	"net"
	"time"

	"chorale/membership"

	"github.com/hashicorp/raft"
)

// seedWindow is how long after its start a node takes a stranger behind --join for a
// mistake of whoever started it: see noteStrangers.
const seedWindow = 10 * time.Second

// watch keeps what the node says of itself up to date, until ctx ends.
func (p *process) watch(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	ready, told := false, false
	strangers, begun := map[string]bool{}, time.Now()
	for {
		if err := p.remember(); err != nil {
			return err
		}
		if now := p.notReady() == ""; now != ready {
			ready = now
			p.server.SetReady(ready)
			p.log.Info("readiness", "ready", ready, "why not", p.notReady())
		}
		if ready && !told {
			told = true
			p.log.Info("ready", "api", p.addresses.API, "http", p.addresses.HTTP, "raft", p.addresses.Raft, "gossip", p.addresses.Gossip, "cluster", p.folder.get().Cluster)
			p.ready(p.addresses)
		}
		if err := p.noteStrangers(strangers, time.Since(begun) < seedWindow); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// noteStrangers tells once of each node of another cluster. At the start such a node
// behind an address of this one's own --join, and none of its own cluster anywhere,
// is a wrong flag or a wrong folder, and ends it. Later it is not: gossip alone must
// not end a node that serves.
func (p *process) noteStrangers(known map[string]bool, start bool) error {
	for _, m := range p.gossip.Members() {
		if p.directory.ours(m) || known[m.ID] {
			continue
		}
		known[m.ID] = true
		if former := p.folder.get().Former; former != "" && former == fmt.Sprintf("%x", m.Cluster) {
			p.log.Warn("a node of the cluster that this one was recovered from still runs and is left alone: stop it, empty its folder, and let it join",
				"node", m.ID, "address", m.Gossip, "cluster", former)
			continue
		}
		p.log.Warn("a node of another cluster is in the gossip and is left alone", "node", m.ID, "address", m.Gossip, "cluster", fmt.Sprintf("%x", m.Cluster))
		if seed := p.seedOf(m); start && seed != "" && len(p.directory.others()) == 0 {
			return &ConfigError{Key: "join", Value: seed, Allowed: p.strange(m)}
		}
	}
	return nil
}

// strange says what to do about a node of another cluster behind --join. The node cannot
// know which of the two is wanted, and the remedy for one destroys the other.
func (p *process) strange(m membership.Member) string {
	return fmt.Sprintf("want nodes of cluster %s, whose folder %s is; at this address is node %s of cluster %x. "+
		"To keep what the folder has, leave out join, or name nodes of its own cluster. "+
		"A folder that was restored from a backup is of a new cluster: start it without join, and restore it for one node only; the others join that one with empty folders. "+
		"If that cluster was made of this one by chorale recover-quorum, or else has taken its place, so that nothing of the folder is wanted any more: empty the folder and leave out bootstrap-expect, and the node joins as a new one",
		p.folder.get().Cluster, p.config.Dir, m.ID, m.Cluster)
}

// seedOf is the address of --join that a member answers at, or "".
func (p *process) seedOf(m membership.Member) string {
	for _, seed := range p.config.Join {
		if a, err := net.ResolveTCPAddr("tcp", seed); err == nil && a.String() == m.Gossip {
			return seed
		}
	}
	return ""
}

// remember brings folder and gossip up to date with what the engine has learned.
func (p *process) remember() error {
	if id := p.engine.Cluster(); (id != p.folder.cluster() || p.folder.get().Joining) && id != [16]byte{} {
		if err := p.folder.join(id); err != nil {
			return err
		}
	}
	if err := p.folder.atLevel(p.engine.Level()); err != nil {
		return err
	}
	if !p.hasData.Load() && p.engine.HasLog() {
		p.hasData.Store(true)
	}
	if p.folder.get().Founding && p.allHaveData() {
		if err := p.folder.change(func(i *identity) { i.Founding = false }); err != nil {
			return err
		}
	}
	return p.gossip.Update(p.meta())
}

// allHaveData reports whether every other voter says that it holds data.
func (p *process) allHaveData() bool {
	for _, s := range p.engine.Servers() {
		m, ok := p.directory.find(s.ID)
		if s.Suffrage == raft.Voter && s.ID != raft.ServerID(p.config.ID) && (!ok || !m.HasData) {
			return false
		}
	}
	return p.engine.Cluster() != [16]byte{}
}
