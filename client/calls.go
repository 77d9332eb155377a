package client

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"chorale/api"
	"chorale/client/nodes"
)

// ask makes a call on one node after the other until one answers, each at most
// once.
func (c *Client) ask(ctx context.Context, call func(ctx context.Context, n *nodes.Node) error) error {
	var last error
	for range c.nodes.All() {
		n, err := c.nodes.Next(ctx)
		if err != nil {
			return err
		}
		var retry bool
		if last, retry = c.askOne(ctx, n, call); last == nil || !retry {
			return last
		}
	}
	return last
}

func (c *Client) askOne(ctx context.Context, n *nodes.Node, call func(ctx context.Context, n *nodes.Node) error) (err error, retry bool) {
	one, cancel := context.WithTimeout(ctx, c.stall)
	defer cancel()
	if err = call(one, n); err == nil {
		c.nodes.Worked(n)
		return nil, false
	}
	if ctx.Err() != nil {
		return ctx.Err(), false
	}
	err, retry = callError(n.Address, err)
	if retry {
		c.nodes.Failed(n)
	}
	return err, retry
}

// Addresses lists the nodes that the client was given.
func (c *Client) Addresses() []string {
	var out []string
	for _, n := range c.nodes.All() {
		out = append(out, n.Address)
	}
	return out
}

// Status asks a node what it knows of itself and of its cluster: the one at this
// address, which must be one of Addresses, or any if it is empty.
func (c *Client) Status(ctx context.Context, address string) (out *api.GetStatusResponse, err error) {
	call := func(ctx context.Context, n *nodes.Node) error {
		out, err = n.Stream.GetStatus(ctx, &api.GetStatusRequest{})
		return err
	}
	if address == "" {
		err = c.ask(ctx, call)
		return out, err
	}
	i := slices.IndexFunc(c.nodes.All(), func(n *nodes.Node) bool { return n.Address == address })
	if i < 0 {
		return nil, fmt.Errorf("%w: %s is not an address of this client", ErrInvalid, address)
	}
	err, _ = c.askOne(ctx, c.nodes.All()[i], call)
	return out, err
}

// LastNumber is the last number that the cluster has of a producer; 0 if it does
// not know it.
func (c *Client) LastNumber(ctx context.Context, producer ProducerID) (last uint64, err error) {
	err = c.ask(ctx, func(ctx context.Context, n *nodes.Node) error {
		r, err := n.Stream.GetProducer(ctx, &api.GetProducerRequest{ProducerId: producer[:]})
		last = r.GetLastNumber()
		return err
	})
	return last, err
}

// Retention tells the limits of what the cluster keeps.
func (c *Client) Retention(ctx context.Context) (out *api.GetRetentionResponse, err error) {
	err = c.ask(ctx, func(ctx context.Context, n *nodes.Node) (err error) {
		out, err = n.Stream.GetRetention(ctx, &api.GetRetentionRequest{})
		return err
	})
	return out, err
}

// SetRetention puts limits in the place of those before; without a policy everything
// is kept. What they let go is gone for ever.
func (c *Client) SetRetention(ctx context.Context, policies ...*api.RetentionPolicy) error {
	return c.ask(ctx, func(ctx context.Context, n *nodes.Node) error {
		_, err := n.Stream.SetRetention(ctx, &api.SetRetentionRequest{Policies: policies})
		return err
	})
}

// Topics ranges over the topics that the filters match (all without any), with
// their volumes, by name, as one node knows them. An error is the last pair.
func (c *Client) Topics(ctx context.Context, filters ...string) iter.Seq2[*api.TopicStats, error] {
	return func(yield func(*api.TopicStats, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		// The first page decides whether a node can answer at all; after it, no other
		// can go on: it might know more or less.
		var l listing
		if err := c.ask(ctx, func(_ context.Context, n *nodes.Node) error {
			l = listing{stall: c.stall, node: n}
			return l.open(ctx, filters)
		}); err != nil {
			yield(nil, err)
			return
		}
		defer func() { l.cancel() }()
		for l.page != nil {
			for _, t := range l.page.Topics {
				if !yield(t, nil) {
					return
				}
			}
			if err := l.next(); err != nil {
				err, _ = callError(l.node.Address, err)
				yield(nil, err)
				return
			}
		}
	}
}

// listing is the pages of one ListTopics call, each of which is due within stall.
type listing struct {
	stall  time.Duration
	node   *nodes.Node
	stream api.Stream_ListTopicsClient
	cancel context.CancelFunc
	page   *api.ListTopicsResponse // nil at the end
}

func (l *listing) open(ctx context.Context, filters []string) (err error) {
	ctx, l.cancel = context.WithCancel(ctx)
	if l.stream, err = l.node.Stream.ListTopics(ctx, &api.ListTopicsRequest{Filters: filters}); err != nil {
		return err
	}
	return l.next()
}

func (l *listing) next() (err error) {
	dog := time.AfterFunc(l.stall, l.cancel)
	defer dog.Stop()
	if l.page, err = l.stream.Recv(); err == io.EOF {
		l.page = nil
		return nil
	}
	return err
}
