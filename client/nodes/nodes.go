// Package nodes is the set of nodes that a client knows, and the choice of the one to
// turn to: what one publisher finds out about a node, a subscription need not.
package nodes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"chorale/api"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
)

const (
	// After its first failure a node is left alone for backoffMin, then twice as
	// long each time up to backoffMax, give or take a quarter. An election takes
	// about as long as backoffMax: longer rests would be what a failover waits for.
	backoffMin = 25 * time.Millisecond
	backoffMax = 500 * time.Millisecond
	// A node that does not complete a connection in this time has failed.
	connectTimeout = 3 * time.Second
	// A node that has no connection after connectGrace is passed over while there are
	// others, and goes on connecting. A machine that is switched off does not refuse: all
	// of connectTimeout would be what a failover to its neighbour waits for.
	connectGrace = 250 * time.Millisecond
)

// Node is one address and its connection.
type Node struct {
	Address string
	Stream  api.StreamClient
	Cluster api.ClusterClient
	Peer    api.PeerClient

	conn *grpc.ClientConn
	// Guarded by Set.mu: failures in a row, and until when it is left alone.
	failures int
	rest     time.Time
}

// Set is the nodes of a client. Safe for concurrent use.
type Set struct {
	mu   sync.Mutex
	list []*Node
	turn int
}

// Dial makes the set. The options come behind those of package api; they must set
// credentials. Nothing is connected yet.
func Dial(addresses []string, more ...grpc.DialOption) (*Set, error) {
	if len(addresses) == 0 {
		return nil, errors.New("no address of a node")
	}
	options := append(api.DialOptions(), grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: backoffMin, Multiplier: 2, Jitter: 0.25, MaxDelay: backoffMax},
		MinConnectTimeout: connectTimeout,
	}))
	options = append(options, more...)
	s := &Set{turn: rand.IntN(len(addresses))}
	for _, a := range addresses {
		conn, err := grpc.NewClient(a, options...)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("address %q: %w", a, err), s.Close())
		}
		s.list = append(s.list, &Node{
			Address: a, conn: conn, Stream: api.NewStreamClient(conn), Cluster: api.NewClusterClient(conn), Peer: api.NewPeerClient(conn),
		})
	}
	return s, nil
}

// All lists the nodes, in the order of their addresses in Dial.
func (s *Set) All() []*Node { return s.list }

// Next is the node to try now: one that is not resting, in turn, and that is connected or
// has failed to connect; if all rest, it waits for the first to be rested. Where no node
// does either in time it is one that is still connecting. The error is the context's.
func (s *Set) Next(ctx context.Context) (*Node, error) {
	slow := map[*Node]bool{}
	for {
		n, err := s.rested(ctx)
		if err != nil || n.settles(ctx) {
			return n, err
		}
		if slow[n] = true; len(slow) == len(s.list) {
			return n, ctx.Err()
		}
		s.Failed(n)
	}
}

// settles waits until the node is connected, or could not be, and not for long.
func (n *Node) settles(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, connectGrace)
	defer cancel()
	for {
		state := n.conn.GetState()
		switch state {
		case connectivity.Idle:
			n.conn.Connect()
		case connectivity.Connecting:
		default:
			return true
		}
		if !n.conn.WaitForStateChange(ctx, state) {
			return false
		}
	}
}

// rested is the node whose turn it is.
func (s *Set) rested(ctx context.Context) (*Node, error) {
	for {
		n, rested := s.pick()
		wait := time.Until(rested)
		if wait <= 0 {
			return n, ctx.Err()
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

func (s *Set) pick() (best *Node, rested time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn++
	for i := range s.list {
		n := s.list[(s.turn+i)%len(s.list)]
		if best == nil || n.rest.Before(best.rest) {
			best = n
		}
	}
	return best, best.rest
}

// Failed lets a node rest, so that others are tried first.
func (s *Set) Failed(n *Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := min(backoffMin<<min(n.failures, 16), backoffMax)
	n.failures++
	n.rest = time.Now().Add(rest*3/4 + rand.N(rest/2))
}

// Worked forgets a node's failures.
func (s *Set) Worked(n *Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.failures, n.rest = 0, time.Time{}
}

// Close closes the connections.
func (s *Set) Close() error {
	var err error
	for _, n := range s.list {
		err = errors.Join(err, n.conn.Close())
	}
	return err
}
