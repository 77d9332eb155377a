package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	"chorale/client/nodes"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

const defaultStallAfter = 10 * time.Second

// Options of a client. The zero value is a client without encryption and without
// credentials.
type Options struct {
	// Credentials of the transport: credentials.NewTLS for TLS and mutual TLS; nil
	// means plain text.
	Credentials credentials.TransportCredentials
	// Token is sent with every call, if it is not nil.
	Token credentials.PerRPCCredentials
	// StallAfter is how long a node may keep silent while an answer or a delivery is
	// due before another node is asked; 0 means 10 s. Nodes send something every
	// api.ProgressInterval.
	StallAfter time.Duration
	// DialOptions are applied last: interceptors, a dialer, a proxy.
	DialOptions []grpc.DialOption
}

// Client reaches a cluster through the addresses of some or all of its nodes.
// Safe for concurrent use.
type Client struct {
	nodes *nodes.Set
	stall time.Duration

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu sync.Mutex // orders starting against Close
	// running counts the goroutines of publishers and subscriptions.
	running sync.WaitGroup
}

// Dial makes a client of the nodes at these addresses (host:port, or what gRPC
// resolves). It connects when there is something to do; a node that is down is not
// an error here. Close the client when it is no longer needed.
func Dial(addresses []string, o Options) (*Client, error) {
	transport := o.Credentials
	if transport == nil {
		transport = insecure.NewCredentials()
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(transport)}
	if o.Token != nil {
		options = append(options, grpc.WithPerRPCCredentials(o.Token))
	}
	set, err := nodes.Dial(addresses, append(options, o.DialOptions...)...)
	if err != nil {
		return nil, invalid{err}
	}
	c := &Client{nodes: set, stall: o.StallAfter}
	if c.stall <= 0 {
		c.stall = defaultStallAfter
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Close ends every publisher and subscription of the client and its connections.
// Close publishers first: what they have not got acknowledged resolves as
// ErrUncertain or ErrUnpublished. It may be called again.
func (c *Client) Close() error {
	c.mu.Lock()
	first := c.ctx.Err() == nil
	c.cancel()
	c.mu.Unlock()
	c.running.Wait()
	if !first {
		return nil
	}
	return c.nodes.Close()
}

// start runs a goroutine that Close waits for.
func (c *Client) start(run func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return fmt.Errorf("%w: the client", ErrClosed)
	}
	c.running.Go(run)
	return nil
}
