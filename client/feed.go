package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"chorale/api"
	"chorale/client/nodes"
	"chorale/client/waits"

	"google.golang.org/grpc"
)

// feed brings the frames of a subscription from one node after the other into a
// channel. It trusts nodes in nothing but how far a frame says that it goes; the
// subscription verifies the rest.
type feed struct {
	client  *Client
	ctx     context.Context // ends with the subscription
	request *api.SubscribeRequest
	filters []string // canonical
	frames  chan fed
	waits   *waits.Teller

	// Of the goroutine that runs the feed:
	cluster string
	scanned uint64
	until   uint64
	bounded bool
	resumed bool // no longer on the first stream
}

// framesAhead is how many frames wait for the subscriber, beside those in gRPC's
// own window.
const framesAhead = 2

// fed is a frame, or why there are no more.
type fed struct {
	frame api.Frame
	node  string
	// cut says that the node did not know where the subscription ends.
	cut bool
	err error
}

// source is one stream from one node.
type source struct {
	node   *nodes.Node
	stream grpc.ServerStreamingClient[api.SubscribeResponse]
	opened *api.Opened
	cancel context.CancelCauseFunc
	// dog ends the stream when it has been silent for too long.
	dog *time.Timer
}

func (s *source) close() {
	s.dog.Stop()
	s.cancel(nil)
}

// run feeds until the subscription ends, is complete, or no node can go on.
func (f *feed) run(s *source) {
	defer close(f.frames)
	defer f.waits.End()
	for {
		err := f.relay(s)
		s.close()
		if f.ctx.Err() != nil || f.complete() {
			return
		}
		e, _ := refusal(err)
		f.failed(s.node, e)
		f.resume()
		if s, err = f.open(f.ctx, f.client.stall); err != nil {
			f.pass(fed{err: err})
			return
		}
	}
}

func (f *feed) complete() bool { return f.bounded && f.scanned >= f.until }

// relay passes frames on until the stream ends or the subscription is complete.
func (f *feed) relay(s *source) error {
	for !f.complete() {
		out := fed{node: s.node.Address, cut: f.resumed}
		s.dog.Reset(f.client.stall)
		err := s.stream.RecvMsg(&out.frame)
		s.dog.Stop()
		if err != nil {
			return s.cause(err)
		}
		f.waits.Serves()
		scanned := out.frame.ScannedSeq
		if !f.pass(out) {
			return f.ctx.Err()
		}
		f.scanned = max(f.scanned, scanned)
	}
	return nil
}

// pass hands a frame to the subscriber; false means that the subscription is over.
func (f *feed) pass(out fed) bool {
	select {
	case f.frames <- out:
		return true
	case <-f.ctx.Done():
		out.frame.Release()
		return false
	}
}

// cause is why the stream ended, if the watchdog ended it.
func (s *source) cause(err error) error {
	if why := context.Cause(s.stream.Context()); errors.Is(why, errStalled) {
		return why
	}
	if err == io.EOF {
		return errors.New("the node ended the stream")
	}
	return err
}

// failed remembers that a node did not serve, and why, for whoever asks why nothing
// comes.
func (f *feed) failed(n *nodes.Node, e *nodeError) {
	f.client.nodes.Failed(n)
	f.waits.Failed(n.Address, e)
}

// resume makes the request ask for what comes behind the last frame. It does not
// ask the next node to stop at the tip: where that is was settled at the start.
func (f *feed) resume() {
	f.resumed = true
	f.request.ClusterId = f.cluster
	f.request.Start = &api.SubscribeRequest_AfterSeq{AfterSeq: f.scanned}
	f.request.UntilTip = false
}

// open opens the request's stream on some node, trying until ctx ends or a node
// gives an answer that no other could better. That the start lies beyond the end is
// such an answer only if all nodes had their turn for so long: a follower may lag.
func (f *feed) open(ctx context.Context, patience time.Duration) (*source, error) {
	begin := time.Now()
	attempts, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.ctx, cancel)()
	for tries := 1; ; tries++ {
		n, err := f.client.nodes.Next(attempts)
		if err != nil {
			return nil, f.over(ctx)
		}
		f.waits.Trying(n.Address)
		s, err := f.try(attempts, n)
		if err == nil {
			f.client.nodes.Worked(n)
			f.waits.Opened()
			return s, nil
		}
		if attempts.Err() != nil {
			return nil, f.over(ctx)
		}
		if violation := new(ViolationError); errors.As(err, &violation) || errors.Is(err, ErrOtherCluster) {
			return nil, err
		}
		e, retry := refusal(err)
		patient := tries < len(f.client.nodes.All()) || time.Since(begin) < patience
		if !retry || errors.Is(e, ErrOutOfRange) && !patient {
			return nil, e.at(n.Address)
		}
		f.failed(n, e)
	}
}

// try opens the stream on one node and takes its first response.
func (f *feed) try(ctx context.Context, n *nodes.Node) (_ *source, err error) {
	whole, cancel := context.WithCancelCause(f.ctx)
	s := &source{node: n, cancel: cancel, dog: time.AfterFunc(f.client.stall, func() { cancel(errStalled) })}
	unhook := context.AfterFunc(ctx, func() { cancel(ctx.Err()) })
	defer func() {
		if !unhook() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			s.close()
		}
	}()
	if s.stream, err = n.Stream.Subscribe(whole, f.request); err != nil {
		return nil, err
	}
	var first api.Frame
	if err := s.stream.RecvMsg(&first); err != nil {
		return nil, s.cause(err)
	}
	defer first.Release()
	s.dog.Stop()
	if s.opened = first.Opened; s.opened == nil {
		return nil, errors.New("the first response does not open the subscription")
	}
	return s, f.check(n, s.opened)
}

// check holds the opening of a stream against the request.
func (f *feed) check(n *nodes.Node, o *api.Opened) error {
	if known := f.request.ClusterId; known != "" && o.ClusterId != known {
		return fmt.Errorf("%w: node %s belongs to %q, the subscription to %q", ErrOtherCluster, n.Address, o.ClusterId, known)
	}
	violation := &ViolationError{Node: n.Address, Position: Position{Cluster: f.cluster, Filters: f.filters}}
	if start, ok := f.request.Start.(*api.SubscribeRequest_AfterSeq); ok {
		violation.Position.Seq = start.AfterSeq
		if o.AfterSeq != start.AfterSeq {
			violation.Reason = fmt.Sprintf("it starts behind %d, %d was asked for", o.AfterSeq, start.AfterSeq)
			return violation
		}
	}
	if !slices.Equal(o.Filters, f.filters) {
		violation.Reason = fmt.Sprintf("it understood the filters as %q, they are %q", o.Filters, f.filters)
		return violation
	}
	return nil
}

// over is why there are no more attempts: ctx ended, or the subscription did.
func (f *feed) over(ctx context.Context) error {
	if ctx.Err() != nil {
		return f.explain(ctx.Err())
	}
	return fmt.Errorf("%w: the client", ErrClosed)
}

// explain adds the last trouble to the error of a context that ended.
func (f *feed) explain(err error) error {
	if node, trouble := f.waits.Trouble(); trouble != nil {
		return fmt.Errorf("%w; the last trouble was: node %s: %v", err, node, trouble)
	}
	return err
}
