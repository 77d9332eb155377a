// Package peers reaches other nodes over gRPC: it passes batches on to the leader
// in one pipelined stream a node, fetches parts of data files, and asks the leader what
// only it knows.
package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"chorale/api"
	"chorale/node/engine"
	"chorale/node/engine/roster"
	"chorale/node/server"
	"chorale/raftfsm/level"
	"chorale/raftfsm/members"
	"chorale/segments"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Directory knows the API addresses of the other nodes. Safe for concurrent use.
type Directory interface {
	// API is the address of a node; false if it is not known.
	API(id raft.ServerID) (address string, ok bool)
	// Others are the nodes that may hold files, the likeliest first.
	Others() []raft.ServerID
}

// dialBackoff keeps a returning node from being missed for long: gRPC's own would
// wait up to two minutes.
var dialBackoff = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
	MinConnectTimeout: 2 * time.Second,
}

// dialKeepalive finds a node that vanished without a goodbye: its timeout is also
// how long sent bytes may stay without acknowledgement.
var dialKeepalive = keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second}

// Peers implements engine.Peers and server.Leader. Safe for concurrent use.
type Peers struct {
	directory Directory
	log       hclog.Logger
	life      context.Context
	end       context.CancelFunc
	receivers sync.WaitGroup

	mu    sync.Mutex
	peers map[raft.ServerID]*peer
}

// peer is the connection to one node.
type peer struct {
	id      raft.ServerID
	address string
	conn    *grpc.ClientConn
	forward forwarder
}

// New returns peers without connections. Close ends them.
func New(d Directory, log hclog.Logger) *Peers {
	p := &Peers{directory: d, log: log, peers: make(map[raft.ServerID]*peer)}
	p.life, p.end = context.WithCancel(context.Background())
	return p
}

// Close ends all connections; what is still open is answered with ErrUnknown
// before it returns.
func (p *Peers) Close() {
	p.end()
	p.mu.Lock()
	for id, peer := range p.peers {
		peer.conn.Close()
		delete(p.peers, id)
	}
	p.mu.Unlock()
	p.receivers.Wait()
}

// to is the connection to a node, new if its address has changed.
func (p *Peers) to(id raft.ServerID) (*peer, error) {
	address, ok := p.directory.API(id)
	if !ok {
		return nil, fmt.Errorf("%w: the address of node %s is not known", engine.ErrUnavailable, id)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.Err() != nil {
		return nil, fmt.Errorf("%w: shutting down", engine.ErrUnavailable)
	}
	if old := p.peers[id]; old != nil {
		if old.address == address {
			return old, nil
		}
		old.conn.Close()
	}
	options := append(api.DialOptions(), grpc.WithConnectParams(dialBackoff), grpc.WithKeepaliveParams(dialKeepalive),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return nil, fmt.Errorf("%w: node %s at %s: %w", engine.ErrUnavailable, id, address, err)
	}
	n := &peer{id: id, address: address, conn: conn}
	p.peers[id] = n
	return n, nil
}

// passedOn marks a call so that the other node does not pass it on once more.
func passedOn(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, server.ForwardedKey, "1")
}

// Status implements server.Leader.
func (p *Peers) Status(ctx context.Context, leader raft.ServerID) (*api.GetStatusResponse, error) {
	n, err := p.to(leader)
	if err != nil {
		return nil, err
	}
	return api.NewStreamClient(n.conn).GetStatus(passedOn(ctx), &api.GetStatusRequest{})
}

// Producer implements server.Leader.
func (p *Peers) Producer(ctx context.Context, leader raft.ServerID, q *api.GetProducerRequest) (*api.GetProducerResponse, error) {
	n, err := p.to(leader)
	if err != nil {
		return nil, err
	}
	return api.NewStreamClient(n.conn).GetProducer(passedOn(ctx), q)
}

// Retention implements server.Leader.
func (p *Peers) Retention(ctx context.Context, leader raft.ServerID, q *api.GetRetentionRequest) (*api.GetRetentionResponse, error) {
	n, err := p.to(leader)
	if err != nil {
		return nil, err
	}
	return api.NewStreamClient(n.conn).GetRetention(passedOn(ctx), q)
}

// SetRetention implements server.Leader.
func (p *Peers) SetRetention(ctx context.Context, leader raft.ServerID, q *api.SetRetentionRequest) (*api.SetRetentionResponse, error) {
	n, err := p.to(leader)
	if err != nil {
		return nil, err
	}
	return api.NewStreamClient(n.conn).SetRetention(passedOn(ctx), q)
}

// SetRules implements server.Leader.
func (p *Peers) SetRules(ctx context.Context, leader raft.ServerID, q *api.SetRulesRequest) (*api.SetRulesResponse, error) {
	n, err := p.to(leader)
	if err != nil {
		return nil, err
	}
	return api.NewStreamClient(n.conn).SetRules(passedOn(ctx), q)
}

// Members implements server.Leader.
func (p *Peers) Members(ctx context.Context, leader raft.ServerID, q *api.ListMembersRequest) (*api.ListMembersResponse, error) {
	n, err := p.to(leader)
	if err != nil {
		return nil, err
	}
	return api.NewClusterClient(n.conn).ListMembers(passedOn(ctx), q)
}

// ChangeMember implements server.Leader.
func (p *Peers) ChangeMember(ctx context.Context, leader raft.ServerID, q *api.ChangeMemberRequest) (*api.ChangeMemberResponse, error) {
	n, err := p.to(leader)
	if err != nil {
		return nil, err
	}
	out, err := api.NewClusterClient(n.conn).ChangeMember(passedOn(ctx), q)
	return out, api.Once(err)
}

// Transfer implements server.Leader.
func (p *Peers) Transfer(ctx context.Context, leader raft.ServerID, q *api.TransferLeadershipRequest) (*api.TransferLeadershipResponse, error) {
	n, err := p.to(leader)
	if err != nil {
		return nil, err
	}
	out, err := api.NewClusterClient(n.conn).TransferLeadership(passedOn(ctx), q)
	return out, api.Once(err)
}

// Join implements server.Leader.
func (p *Peers) Join(ctx context.Context, leader raft.ServerID, q *api.JoinRequest) (*api.JoinResponse, error) {
	n, err := p.to(leader)
	if err != nil {
		return nil, err
	}
	return api.NewPeerClient(n.conn).Join(passedOn(ctx), q)
}

// AskJoin asks any node, which passes it on to the leader.
func (p *Peers) AskJoin(ctx context.Context, id raft.ServerID, q *api.JoinRequest) (*api.JoinResponse, error) {
	n, err := p.to(id)
	if err != nil {
		return nil, err
	}
	return api.NewPeerClient(n.conn).Join(ctx, q)
}

// Health implements engine.Peers.
func (p *Peers) Health(ctx context.Context, id raft.ServerID) (roster.Health, error) {
	n, err := p.to(id)
	if err != nil {
		return roster.Health{}, err
	}
	h, err := api.NewPeerClient(n.conn).GetHealth(ctx, &api.GetHealthRequest{})
	if status.Code(err) == codes.Unimplemented {
		err = roster.ErrOld
	}
	if err == nil && h.NodeId != string(id) {
		err = fmt.Errorf("%w: at %s is node %s", engine.ErrUnavailable, n.address, h.NodeId)
	}
	if err != nil {
		return roster.Health{}, fmt.Errorf("node %s: %w", id, err)
	}
	out := roster.Health{
		Incarnation: members.Incarnation(h.Incarnation), Applied: h.AppliedIndex, Leader: raft.ServerID(h.LeaderId),
		MissingFiles: int(h.MissingFiles), MissingBytes: int64(h.MissingBytes), Undurable: int(h.UndurableFiles), Plan: h.Plan,
		Voters: h.Voters, Ends: h.Ends, Reads: level.Announced(h.LowestLevel, h.HighestLevel), Version: h.Version,
	}
	copy(out.PlanSum[:], h.PlanSum)
	for _, b := range h.Built {
		var sum segments.Hash
		copy(sum[:], b) // of another length, it is that of no file
		out.Built = append(out.Built, sum)
	}
	return out, nil
}

// Opens implements server.Leader.
func (p *Peers) Opens(ctx context.Context, leader raft.ServerID, q *api.SubscribeRequest) error {
	n, err := p.to(leader)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(passedOn(ctx))
	defer cancel()
	stream, err := api.NewStreamClient(n.conn).Subscribe(ctx, q)
	if err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

// Others implements fetching.Peers.
func (p *Peers) Others() []raft.ServerID { return p.directory.Others() }

// Fetch implements fetching.Peers. A node of an earlier version gives all that follows.
func (p *Peers) Fetch(ctx context.Context, from raft.ServerID, h segments.Hash, offset, length int64, w io.Writer) error {
	written, err := p.fetch(ctx, from, &api.FetchFileRequest{Hash: h[:], Offset: uint64(offset), Length: uint64(length)}, w)
	if err == nil && written < length {
		err = fmt.Errorf("%w: its copy is cut: %w", segments.ErrCorrupt, io.ErrUnexpectedEOF)
	}
	return err
}

// Salvage implements fetching.Peers. A node of an earlier version has nothing to give.
func (p *Peers) Salvage(ctx context.Context, from raft.ServerID, h segments.Hash, offset, length int64, w io.Writer) error {
	_, err := p.fetch(ctx, from, &api.FetchFileRequest{Hash: h[:], Offset: uint64(offset), Length: uint64(length), Salvage: true}, w)
	return err
}

// fetch writes what a node gives, and tells how much that was.
func (p *Peers) fetch(ctx context.Context, from raft.ServerID, q *api.FetchFileRequest, w io.Writer) (written int64, err error) {
	n, err := p.to(from)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := api.NewPeerClient(n.conn).FetchFile(ctx, q)
	if err != nil {
		return 0, err
	}
	for {
		r, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return written, nil
		case status.Code(err) == codes.NotFound:
			return written, segments.ErrNotHere
		case status.Code(err) == codes.DataLoss:
			return written, fmt.Errorf("%w: %w", segments.ErrCorrupt, err)
		case err != nil:
			return written, err
		}
		got, err := w.Write(r.Data)
		written += int64(got)
		if err != nil {
			return written, err
		}
	}
}
