package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"chorale/api"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	// After its first failure a node is left alone for backoffMin, then twice as
	// long each time up to backoffMax, give or take a quarter.
	backoffMin = 25 * time.Millisecond
	backoffMax = time.Second
	// A node that does not complete a connection in this time is passed over.
	connectTimeout = 3 * time.Second
)

// node is one address and its connection.
type node struct {
	address string
	conn    *grpc.ClientConn
	stream  api.StreamClient

	// Guarded by nodes.mu: failures in a row, and until when it is left alone.
	failures int
	rest     time.Time
}

// nodes is the set of nodes that a client knows, shared by everything that it
// does: what one publisher finds out about a node, a subscription need not.
type nodes struct {
	mu   sync.Mutex
	list []*node
	turn int
}

func dialNodes(addresses []string, o Options) (*nodes, error) {
	if len(addresses) == 0 {
		return nil, fmt.Errorf("%w: no address of a node", ErrInvalid)
	}
	credentials := o.Credentials
	if credentials == nil {
		credentials = insecure.NewCredentials()
	}
	options := append(api.DialOptions(),
		grpc.WithTransportCredentials(credentials),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: backoffMin, Multiplier: 2, Jitter: 0.25, MaxDelay: backoffMax},
			MinConnectTimeout: connectTimeout,
		}),
	)
	if o.Token != nil {
		options = append(options, grpc.WithPerRPCCredentials(o.Token))
	}
	options = append(options, o.DialOptions...)

	s := &nodes{turn: rand.IntN(len(addresses))}
	for _, a := range addresses {
		conn, err := grpc.NewClient(a, options...)
		if err != nil {
			s.close()
			return nil, fmt.Errorf("%w: address %q: %w", ErrInvalid, a, err)
		}
		s.list = append(s.list, &node{address: a, conn: conn, stream: api.NewStreamClient(conn)})
	}
	return s, nil
}

// next is the node to try now: one that is not resting, in turn; if all rest, it
// waits for the first to be rested. The error is the context's.
func (s *nodes) next(ctx context.Context) (*node, error) {
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

func (s *nodes) pick() (best *node, rested time.Time) {
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

// failed lets a node rest, so that others are tried first.
func (s *nodes) failed(n *node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := min(backoffMin<<min(n.failures, 16), backoffMax)
	n.failures++
	n.rest = time.Now().Add(rest*3/4 + rand.N(rest/2))
}

// worked forgets a node's failures.
func (s *nodes) worked(n *node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.failures, n.rest = 0, time.Time{}
}

func (s *nodes) close() error {
	var first error
	for _, n := range s.list {
		if err := n.conn.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}
