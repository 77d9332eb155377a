package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"chorale/api"
	"chorale/membership"
	"chorale/node/engine/roster"
	"chorale/raftfsm"
	"chorale/raftfsm/level"

	"github.com/hashicorp/raft"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
)

const (
	// joinWait bounds the answer of one node: that of a leader takes two commits.
	joinWait = 5 * time.Second
	// introduceEvery is how often a node asks whether it is a member, as long as it has
	// no answer, or no leader speaks to it.
	introduceEvery = 2 * time.Second
)

// errNotIn is why a node is no member, for good, with its present folder.
type errNotIn struct{ why string }

func (e *errNotIn) Error() string { return e.why }

// final are the reasons of refusals that asking again cannot help.
var final = []string{
	roster.ReasonRemoved, roster.ReasonOtherFolder, roster.ReasonStrange, roster.ReasonFull, roster.ReasonLevel, "OTHER_CLUSTER",
}

// refusal is the final refusal in an answer, or nil.
func refusal(err error) error {
	var refused *roster.Refusal
	if errors.As(err, &refused) && slices.Contains(final, refused.Reason) {
		return &errNotIn{refused.Text}
	}
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && slices.Contains(final, info.Reason) {
			return &errNotIn{status.Convert(err).Message()}
		}
	}
	return nil
}

// mayJoin asks to be let in with an empty folder. Nothing of Raft runs before: an empty
// node that answers Raft under an id that voted before could make that vote again.
func (p *process) mayJoin(ctx context.Context, d membership.Decision) (membership.Decision, error) {
	if why := p.ambiguous(); why != "" {
		return membership.Decision{Action: membership.Wait, Why: why}, nil
	}
	cluster, err := p.askJoin(ctx)
	var out *errNotIn
	switch {
	case errors.As(err, &out):
		return membership.Decision{Action: membership.Refuse, Why: out.why}, nil
	case err != nil:
		return membership.Decision{Action: membership.Wait, Why: fmt.Sprintf("the folder is empty: asking to be let into the cluster: %v", err)}, nil
	}
	p.log.Info("let into the cluster", "cluster", cluster)
	return d, p.folder.letIn(cluster)
}

// candidates are the nodes with data that an empty node may ask, by their cluster. Gossip
// may have met nodes of other clusters, by somebody's mixed list of addresses: where any
// is behind an address of this node's own --join, only clusters of such nodes count.
func (p *process) candidates() map[raftfsm.ClusterID][]membership.Member {
	named, all := map[raftfsm.ClusterID]bool{}, map[raftfsm.ClusterID][]membership.Member{}
	for _, m := range p.directory.others() {
		if m.HasData && m.Cluster != (raftfsm.ClusterID{}) {
			all[m.Cluster] = append(all[m.Cluster], m)
			named[m.Cluster] = named[m.Cluster] || p.seedOf(m) != ""
		}
	}
	if slices.Contains(slices.Collect(maps.Values(named)), true) {
		maps.DeleteFunc(all, func(c raftfsm.ClusterID, _ []membership.Member) bool { return !named[c] })
	}
	return all
}

// namedWait is how long an empty node waits to see one behind an address of its own
// --join before others will do: gossip tells of the nodes one by one, in any order.
const namedWait = 3 * time.Second

// ambiguous says why an empty node asks nobody: it cannot know which cluster is meant.
func (p *process) ambiguous() string {
	all := p.candidates()
	if named := func(m membership.Member) bool { return p.seedOf(m) != "" }; !slices.ContainsFunc(p.directory.others(), named) &&
		time.Since(p.begun) < namedWait {
		return "the folder is empty: waiting for a node behind an address of --join"
	}
	if len(all) < 2 {
		return ""
	}
	var texts []string
	for cluster, nodes := range all {
		texts = append(texts, fmt.Sprintf("%x (node %s at %s)", cluster, nodes[0].ID, nodes[0].Gossip))
	}
	slices.Sort(texts)
	return fmt.Sprintf("the folder is empty, and nodes of several clusters are in sight, %s: start it with --join of nodes of one", strings.Join(texts, " and "))
}

// errNobody is returned when no node of a cluster is in sight.
var errNobody = errors.New("no node of a cluster is found: is one running behind an address of --join, which are gossip addresses, and with the same --gossip-key?")

// askJoin asks one node after the other to make or confirm this one a member, until
// one says yes or, with an *errNotIn, no.
func (p *process) askJoin(ctx context.Context) (cluster string, err error) {
	id := p.folder.get()
	if _, leads := p.engine.Leader(); leads {
		err := p.engine.Roster().Join(ctx, roster.JoinRequest{
			ID: raft.ServerID(p.config.ID), Incarnation: id.Incarnation, Address: raft.ServerAddress(p.addresses.Raft),
			Voter: !p.config.NonVoter, HasData: true, Reads: level.Built(), Version: p.config.Version,
		})
		if out := refusal(err); out != nil {
			err = out
		}
		return id.Cluster, err
	}
	q := &api.JoinRequest{
		NodeId: p.config.ID, Incarnation: uint64(id.Incarnation), ClusterId: id.Cluster, RaftAddress: p.addresses.Raft,
		NonVoter: p.config.NonVoter, HasData: p.hasData.Load(),
		Version: p.config.Version, LowestLevel: uint32(level.Built().Lowest), HighestLevel: uint32(level.Built().Highest),
	}
	err = errNobody
	all := p.candidates()
	for _, other := range p.directory.Others() {
		m, ok := p.directory.find(other)
		if _, wanted := all[m.Cluster]; !ok || !m.HasData || !wanted {
			continue
		}
		one, cancel := context.WithTimeout(ctx, joinWait)
		r, failed := p.peers.AskJoin(one, other, q)
		cancel()
		if failed == nil {
			return r.ClusterId, nil
		}
		if out := refusal(failed); out != nil {
			return "", out
		}
		err = fmt.Errorf("node %s: %s", other, status.Convert(failed).Message())
	}
	return "", err
}

// introduce asks, once Raft runs, whether this node is still a member: once, and again
// while no leader speaks to it. A log does not say what of it was committed, so a node
// that was removed while it was away learns of it in no other way. The error says that
// it was. Where nobody answers the node goes on.
func (p *process) introduce(ctx context.Context) error {
	tick := time.NewTicker(introduceEvery)
	defer tick.Stop()
	for known := false; ; {
		// A founder is known as one with data; before its first entry it would be taken for
		// its own wiped disk. One that was let in is known by its empty folder too.
		mine := p.hasData.Load() || p.folder.get().Joining
		if mine && p.formation.Load().(string) == "" && (!known || p.engine.NotReady() != "") {
			_, err := p.askJoin(ctx)
			var out *errNotIn
			if errors.As(err, &out) {
				return out
			}
			if err != nil && !errors.Is(err, errNobody) {
				p.log.Debug("nobody confirms that this node is a member", "error", err)
			}
			known = known || err == nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
