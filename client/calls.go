package client

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"chorale/api"
	"chorale/client/nodes"

	"google.golang.org/grpc"
)

// ask makes a call on one node after the other until one answers, each at most
// once.
func (c *Client) ask(ctx context.Context, call nodes.Call) error {
	return c.nodes.Ask(ctx, c.stall, call, callError)
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
	err, _ = c.nodes.AskOne(ctx, c.nodes.All()[i], c.stall, call, callError)
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

// SetRules puts rules of subtrees in the place of the set with the number known (see
// Retention). If that is another one by now, the error is an ErrRulesChanged. What they let
// go is gone for ever.
func (c *Client) SetRules(ctx context.Context, known uint64, rules ...*api.RetentionPolicy) error {
	return c.ask(ctx, func(ctx context.Context, n *nodes.Node) error {
		_, err := n.Stream.SetRules(ctx, &api.SetRulesRequest{Known: known, Rules: rules})
		return err
	})
}

// Cluster calls one node after the other about members, until one answers. A call that
// changes something wraps its error with api.Once, so that it is not made twice: then the
// error may be an ErrUncertain.
func (c *Client) Cluster(ctx context.Context, call func(context.Context, api.ClusterClient) error) error {
	return c.ask(ctx, func(ctx context.Context, n *nodes.Node) error { return call(ctx, n.Cluster) })
}

// Topics ranges over the topics that the filters match (all without any), with
// their volumes, by name, as one node knows them. An error is the last pair.
func (c *Client) Topics(ctx context.Context, filters ...string) iter.Seq2[*api.TopicStats, error] {
	pages := list(ctx, c, func(ctx context.Context, n *nodes.Node) (grpc.ServerStreamingClient[api.ListTopicsResponse], error) {
		return n.Stream.ListTopics(ctx, &api.ListTopicsRequest{Filters: filters})
	})
	return func(yield func(*api.TopicStats, error) bool) {
		for page, err := range pages {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, t := range page.Topics {
				if !yield(t, nil) {
					return
				}
			}
		}
	}
}

// Explain ranges over what a subscription up to the newest message would read, as one
// node says it; the last response has the total. An error is the last pair; errors are
// those of Subscribe.
func (c *Client) Explain(ctx context.Context, o SubscribeOptions) iter.Seq2[*api.ExplainResponse, error] {
	q, _, err := o.request()
	if err != nil {
		return func(yield func(*api.ExplainResponse, error) bool) { yield(nil, err) }
	}
	return list(ctx, c, func(ctx context.Context, n *nodes.Node) (grpc.ServerStreamingClient[api.ExplainResponse], error) {
		return n.Stream.Explain(ctx, q)
	})
}

// list is nodes.List by this client.
func list[R any](ctx context.Context, c *Client, call func(context.Context, *nodes.Node) (grpc.ServerStreamingClient[R], error)) iter.Seq2[*R, error] {
	return nodes.List(ctx, c.nodes, c.stall, call, callError)
}
