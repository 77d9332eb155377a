// Package membership finds the other nodes by gossip and decides about the first
// formation of a cluster. It never changes Raft's configuration.
package membership

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"
)

// Member is a node that gossip knows.
type Member struct {
	ID string
	// State is alive, dead, or of a node that ended gently left, or drained.
	State string
	// Gossip is the node's gossip address, host:port.
	Gossip string
	Meta
}

func (m Member) alive() bool { return m.State == "alive" || m.State == "suspect" }

// Config of the gossip.
type Config struct {
	ID        string
	Bind      string // host:port; port 0 lets the system choose
	Advertise string // host:port that others are told; "" means the bound one
	Key       []byte // 16, 24 or 32 bytes encrypt; empty does not
	Meta      Meta
	// Seeds are asked for their view of the others, again and again. Known are
	// addresses of an earlier life and are asked too.
	Seeds, Known []string
	// Save is told the gossip addresses of all known nodes when they change.
	Save func(addresses []string) error
	Log  hclog.Logger
}

const (
	// A node that is alone asks its seeds often; one that is not, now and then,
	// which heals a split gossip.
	joinAlone    = time.Second
	joinTogether = 30 * time.Second
	// updateWait bounds the wait until a changed meta was sent out. It is sent
	// later all the same.
	updateWait = time.Second
	// reclaim is when a dead node's name may come back from another address.
	reclaim   = 5 * time.Second
	leaveWait = 500 * time.Millisecond
	// answerWait is how long a node may take to answer when it is asked for what it knows.
	answerWait = 2 * time.Second
)

// Gossip is a running gossip. Safe for concurrent use.
type Gossip struct {
	config  Config
	list    *memberlist.Memberlist
	address string

	// updating is held while a changed meta is sent out: who has nothing new to say waits
	// for it, since memberlist forgets what it has not sent when the node leaves.
	updating sync.Mutex
	// mu is taken by what memberlist calls, under memberlist's own locks: so nothing
	// of memberlist may be called while it is held.
	mu      sync.Mutex
	meta    Meta
	members map[string]Member // without this node
	changed chan struct{}     // closed at the next change
}

// Start binds and starts gossiping. Run keeps it up, Close ends it.
func Start(c Config) (*Gossip, error) {
	g := &Gossip{config: c, meta: c.Meta, members: make(map[string]Member), changed: make(chan struct{})}
	if _, err := c.Meta.Encode(); err != nil {
		return nil, err
	}
	m := memberlist.DefaultLANConfig()
	m.Name = c.ID
	var err error
	if m.BindAddr, m.BindPort, err = resolve(c.Bind); err != nil {
		return nil, fmt.Errorf("gossip: listen on %s: %w", c.Bind, err)
	}
	m.AdvertisePort = m.BindPort
	if c.Advertise != "" {
		if m.AdvertiseAddr, m.AdvertisePort, err = resolve(c.Advertise); err != nil {
			return nil, fmt.Errorf("gossip: advertise %s: %w", c.Advertise, err)
		}
	}
	m.SecretKey = c.Key
	m.SuspicionMult = 6 // a busy machine is not a dead one
	m.ProbeTimeout = time.Second
	m.ProbeInterval = 2 * time.Second
	m.DeadNodeReclaimTime = reclaim
	m.TCPTimeout = answerWait
	d := delegate{g}
	m.Delegate, m.Events, m.Conflict = d, d, d
	m.Logger = c.Log.StandardLogger(&hclog.StandardLoggerOptions{InferLevels: true})
	if g.list, err = memberlist.Create(m); err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	g.address = g.list.LocalNode().Address()
	return g, nil
}

// resolve turns host:port into the IP address that memberlist wants.
func resolve(hostPort string) (ip string, port int, err error) {
	host, p, err := net.SplitHostPort(hostPort)
	if err != nil {
		return "", 0, err
	}
	if port, err = strconv.Atoi(p); err != nil {
		return "", 0, err
	}
	if host == "" {
		return "0.0.0.0", port, nil
	}
	addr, err := net.ResolveIPAddr("ip", host)
	if err != nil {
		return "", 0, err
	}
	return addr.String(), port, nil
}

// Address is the gossip address that others are told.
func (g *Gossip) Address() string { return g.address }

// Run asks the seeds until ctx ends, then says goodbye and returns nil.
func (g *Gossip) Run(ctx context.Context) error {
	var saved []string
	for ctx.Err() == nil {
		changed := g.Changed()
		wait := joinTogether
		if !g.join(ctx) {
			wait = joinAlone
		}
		if known := g.addresses(); !slices.Equal(known, saved) && len(known) > 0 {
			if err := g.config.Save(known); err != nil {
				g.config.Log.Warn("the known nodes could not be saved", "error", err)
			}
			saved = known
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-changed:
			// Not to ask again at once, only to save what is new.
			pause := time.NewTimer(joinAlone)
			select {
			case <-ctx.Done():
			case <-pause.C:
			}
			pause.Stop()
		}
		timer.Stop()
	}
	if err := g.list.Leave(leaveWait); err != nil {
		g.config.Log.Debug("leaving the gossip", "error", err)
	}
	return nil
}

// Close ends the gossip at once. Run says goodbye before.
func (g *Gossip) Close() error { return g.list.Shutdown() }

// join asks seeds and known nodes; true if anybody else is there. One after the other, so
// that a node which ends waits for one of them at most: those that are switched off keep
// silent for as long as they are asked.
func (g *Gossip) join(ctx context.Context) bool {
	for _, a := range append(slices.Clone(g.config.Seeds), g.config.Known...) {
		if ctx.Err() != nil {
			break
		}
		if _, err := g.list.Join([]string{a}); err != nil {
			g.config.Log.Debug("a seed did not answer", "address", a, "error", err)
		}
	}
	return g.list.NumMembers() > 1
}

// addresses are the gossip addresses of all other nodes, sorted.
func (g *Gossip) addresses() []string {
	var out []string
	for _, m := range g.Members() {
		out = append(out, m.Gossip)
	}
	slices.Sort(out)
	return out
}

// Update changes what this node says of itself. It returns when that was sent out, or
// after a second.
func (g *Gossip) Update(m Meta) error {
	if _, err := m.Encode(); err != nil {
		return err
	}
	g.updating.Lock()
	defer g.updating.Unlock()
	g.mu.Lock()
	same := g.meta == m
	g.meta = m
	g.mu.Unlock()
	if same {
		return nil
	}
	if err := g.list.UpdateNode(updateWait); err != nil {
		g.config.Log.Debug("the others will learn later of the changed meta", "error", err)
	}
	return nil
}

// Member is a node, this one included, by its id.
func (g *Gossip) Member(id string) (Member, bool) {
	if id == g.config.ID {
		return g.Self(), true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	m, ok := g.members[id]
	return m, ok
}

// Self is this node.
func (g *Gossip) Self() Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Member{ID: g.config.ID, State: "alive", Gossip: g.address, Meta: g.meta}
}

// Members are the other nodes, by id, with what was last known of them.
func (g *Gossip) Members() []Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.SortedFunc(maps.Values(g.members), func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
}

// Changed is closed when Members changes.
func (g *Gossip) Changed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed
}

// note takes what gossip says of a node.
func (g *Gossip) note(n *memberlist.Node, state string) {
	if n.Name == g.config.ID {
		return
	}
	meta, err := DecodeMeta(n.Meta)
	if err != nil {
		g.config.Log.Warn("a node speaks in gossip that is no node of ours", "name", n.Name, "address", n.Address(), "error", err)
		return
	}
	switch {
	case state == "dead" && meta.Drained:
		state = "drained"
	case state == "dead" && meta.Ending:
		state = "left"
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members[n.Name] = Member{ID: n.Name, State: state, Gossip: n.Address(), Meta: meta}
	close(g.changed)
	g.changed = make(chan struct{})
}

// delegate is what memberlist calls; it calls the event methods one at a time.
type delegate struct{ g *Gossip }

func (d delegate) NodeMeta(limit int) []byte {
	d.g.mu.Lock()
	defer d.g.mu.Unlock()
	b, err := d.g.meta.Encode()
	if err != nil || len(b) > limit {
		panic(fmt.Sprintf("meta of %d bytes, gossip takes %d: %v", len(b), limit, err))
	}
	return b
}

func (d delegate) NotifyJoin(n *memberlist.Node)   { d.g.note(n, "alive") }
func (d delegate) NotifyUpdate(n *memberlist.Node) { d.g.note(n, "alive") }

// NotifyLeave is told of who left and of who died. memberlist does not pass on which of
// the two it was, so a node says before that it ends.
func (d delegate) NotifyLeave(n *memberlist.Node) {
	d.g.note(n, "dead")
}

// NotifyConflict: two nodes with one id would both be that voter.
func (d delegate) NotifyConflict(existing, other *memberlist.Node) {
	d.g.config.Log.Error("two nodes have the same id", "id", existing.Name, "one", existing.Address(), "other", other.Address())
}

// Nothing else travels by gossip.
func (delegate) NotifyMsg([]byte)                {}
func (delegate) GetBroadcasts(int, int) [][]byte { return nil }
func (delegate) LocalState(bool) []byte          { return nil }
func (delegate) MergeRemoteState([]byte, bool)   {}
