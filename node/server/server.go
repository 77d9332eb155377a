// Package server answers clients, operators and other nodes over gRPC, and
// operators over HTTP. It translates: what it knows of the stream, it asks the
// engine.
package server

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"chorale/api"
	"chorale/node/engine"
	"chorale/node/turns"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
)

// Leader asks the node that leads what only it knows.
type Leader interface {
	Status(ctx context.Context, leader raft.ServerID) (*api.GetStatusResponse, error)
	Producer(ctx context.Context, leader raft.ServerID, q *api.GetProducerRequest) (*api.GetProducerResponse, error)
	Retention(ctx context.Context, leader raft.ServerID, q *api.GetRetentionRequest) (*api.GetRetentionResponse, error)
	SetRetention(ctx context.Context, leader raft.ServerID, q *api.SetRetentionRequest) (*api.SetRetentionResponse, error)
	SetRules(ctx context.Context, leader raft.ServerID, q *api.SetRulesRequest) (*api.SetRulesResponse, error)
	Members(ctx context.Context, leader raft.ServerID, q *api.ListMembersRequest) (*api.ListMembersResponse, error)
	ChangeMember(ctx context.Context, leader raft.ServerID, q *api.ChangeMemberRequest) (*api.ChangeMemberResponse, error)
	Transfer(ctx context.Context, leader raft.ServerID, q *api.TransferLeadershipRequest) (*api.TransferLeadershipResponse, error)
	Join(ctx context.Context, leader raft.ServerID, q *api.JoinRequest) (*api.JoinResponse, error)
	// Opens is nil if the leader would open the subscription, else its refusal.
	Opens(ctx context.Context, leader raft.ServerID, q *api.SubscribeRequest) error
}

// Options of a server.
type Options struct {
	Engine  *engine.Engine
	Leader  Leader
	Log     hclog.Logger
	Version string
	// Members are the nodes of the cluster as configuration and gossip know them.
	Members func() []*api.MemberStatus
	// Drain ends the node as an interrupt does. It does not wait for that.
	Drain func()
	// GossipAddress is what the node lets go last when it ends, host:port.
	GossipAddress string
	// NotReady is why the node does not serve; "" if it does.
	NotReady func() string
	Pprof    bool
}

// Server holds the services of one node.
type Server struct {
	Options
	metrics *metrics
	turns   *turns.Turns
	grpc    *grpc.Server
	health  *health.Server
	// life ends when the node ends: streams then end by themselves, so that their
	// clients go elsewhere.
	life context.Context
	end  context.CancelFunc
	// reading is held by who reads the state; of capacity 1.
	reading chan struct{}
	// ends: the node is being drained, or asks whether it may be.
	ends atomic.Bool
	api.UnimplementedStreamServer
	api.UnimplementedPeerServer
	api.UnimplementedClusterServer
}

// New makes a server. GRPC and HTTP are to be served by the caller.
func New(o Options) *Server {
	s := &Server{Options: o, health: health.NewServer(), reading: make(chan struct{}, 1)}
	s.life, s.end = context.WithCancel(context.Background())
	options := append(api.ServerOptions(),
		grpc.ChainStreamInterceptor(s.guardStream), grpc.ChainUnaryInterceptor(s.guardUnary))
	s.metrics = newMetrics(o)
	s.turns = turns.New(runtime.GOMAXPROCS(0), s.metrics.waited)
	s.metrics.shows(s.turns)
	s.grpc = grpc.NewServer(options...)
	api.RegisterStreamServer(s.grpc, s)
	api.RegisterPeerServer(s.grpc, s)
	api.RegisterClusterServer(s.grpc, s)
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	s.SetReady(false)
	return s
}

// GRPC is the gRPC server, for Serve, GracefulStop and Stop.
func (s *Server) GRPC() *grpc.Server { return s.grpc }

// SetReady is what the health service answers, for the node and for its services.
func (s *Server) SetReady(ready bool) {
	state := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if ready {
		state = grpc_health_v1.HealthCheckResponse_SERVING
	}
	for _, name := range []string{"", api.Stream_ServiceDesc.ServiceName, api.Peer_ServiceDesc.ServiceName, api.Cluster_ServiceDesc.ServiceName} {
		s.health.SetServingStatus(name, state)
	}
}

// End makes all streams end soon, each after the answers that it owes.
func (s *Server) End() { s.end() }

// guardStream and guardUnary are the last line of defence: a panic in a handler is
// a bug of ours that a client found, and must not end the node for all others.
func (s *Server) guardStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer s.recovered(info.FullMethod, &err)
	return next(srv, stream)
}

func (s *Server) guardUnary(ctx context.Context, q any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (answer any, err error) {
	defer s.recovered(info.FullMethod, &err)
	return next(ctx, q)
}

func (s *Server) recovered(method string, err *error) {
	if p := recover(); p != nil {
		s.Log.Error("a request made its handler panic", "method", method, "panic", p, "stack", string(debug.Stack()))
		s.metrics.panics.Inc()
		*err = status.Errorf(codes.Internal, "this node met a bug of its own: %v", p)
	}
}

// ready is nil, or Unavailable with the reason and the nodes to go to.
func (s *Server) ready() error {
	if why := s.NotReady(); why != "" {
		return s.unavailable("this node is not ready: " + why)
	}
	return nil
}

// others names the other nodes that gossip believes alive.
func (s *Server) others() string {
	var out []string
	for _, m := range s.Members() {
		if m.NodeId != string(s.Engine.ID()) && m.Gossip == "alive" && m.ApiAddress != "" {
			out = append(out, fmt.Sprintf("%s=%s", m.NodeId, m.ApiAddress))
		}
	}
	return strings.Join(out, ",")
}
