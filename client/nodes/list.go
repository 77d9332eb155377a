package nodes

import (
	"context"
	"io"
	"iter"
	"time"

	"google.golang.org/grpc"
)

// List ranges over the responses of a call, each of which is due within stall. An error, as
// judged, is the last pair. The
// first one decides whether a node can answer at all; after it, no other can go on: it
// might know more or less.
func List[R any](ctx context.Context, s *Set, stall time.Duration, call func(context.Context, *Node) (grpc.ServerStreamingClient[R], error), judge Judge) iter.Seq2[*R, error] {
	return func(yield func(*R, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var stream grpc.ServerStreamingClient[R]
		var stop context.CancelFunc // of the stream, which ends with ctx at the latest
		var node *Node
		var page *R // nil at the end
		next := func() (err error) {
			dog := time.AfterFunc(stall, stop)
			defer dog.Stop()
			if page, err = stream.Recv(); err == io.EOF {
				page, err = nil, nil
			}
			return err
		}
		if err := s.Ask(ctx, stall, func(_ context.Context, n *Node) (err error) {
			node = n
			var one context.Context
			one, stop = context.WithCancel(ctx)
			if stream, err = call(one, n); err == nil {
				err = next()
			}
			return err
		}, judge); err != nil {
			yield(nil, err)
			return
		}
		for page != nil && yield(page, nil) {
			if err := next(); err != nil {
				err, _ = judge(node.Address, err)
				yield(nil, err)
				return
			}
		}
	}
}
