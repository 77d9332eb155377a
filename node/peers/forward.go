package peers

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"chorale/api"
	"chorale/node/engine"
	"chorale/raftfsm"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
)

// forwarder passes batches on to one node over one stream, many in flight.
type forwarder struct {
	// mu is held while a batch is sent, so that batches keep their order; when the
	// other node does not read, senders wait here: that is the pushing back.
	mu     sync.Mutex
	stream *forwardStream // nil before the first batch and after a failure
}

// forwardStream is one Publish stream and the batches that wait for an answer.
type forwardStream struct {
	grpc.BidiStreamingClient[api.PublishRequest, api.PublishResponse]
	cancel context.CancelFunc

	mu     sync.Mutex
	next   uint64
	open   []waiting // ascending ids
	broken error     // set once, when open was emptied for good
}

type waiting struct {
	id   uint64
	done func([]raftfsm.Outcome, error)
}

// Submit implements engine.Peers.
func (p *Peers) Submit(_ context.Context, leader raft.ServerID, batch []byte, done func([]raftfsm.Outcome, error)) {
	n, err := p.to(leader)
	if err != nil {
		done(nil, err)
		return
	}
	n.forward.mu.Lock()
	defer n.forward.mu.Unlock()
	s, err := p.streamTo(n)
	if err != nil {
		done(nil, fmt.Errorf("%w: node %s: %w", engine.ErrUnavailable, leader, err))
		return
	}
	id, ok := s.await(done)
	if !ok {
		// The receiver has just found the stream broken: nothing was sent.
		n.forward.stream = nil
		done(nil, fmt.Errorf("%w: node %s: the connection broke", engine.ErrUnavailable, leader))
		return
	}
	// A copy, since gRPC may hold the bytes for longer than the batch's owner, where a
	// stream breaks while they are being written.
	frame := &api.BatchFrame{ID: id, Batch: mem.Copy(batch, api.Buffers)}
	defer frame.Release()
	if err := s.SendMsg(frame); err != nil {
		// The receiver learns the cause and answers all that is open, this one too.
		s.cancel()
		n.forward.stream = nil
	}
}

// streamTo is the open stream to a node, or a new one. n.forward.mu is held.
func (p *Peers) streamTo(n *peer) (s *forwardStream, err error) {
	if s := n.forward.stream; s != nil && !s.isBroken() {
		return s, nil
	}
	ctx, cancel := context.WithCancel(passedOn(p.life))
	defer func() {
		if err != nil {
			cancel()
		}
	}()
	stream, err := api.NewStreamClient(n.conn).Publish(ctx)
	if err != nil {
		return nil, err
	}
	s = &forwardStream{BidiStreamingClient: stream, cancel: cancel}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.life.Err(); err != nil {
		return nil, err // Close may be waiting already
	}
	p.receivers.Go(func() {
		defer cancel()
		s.fail(s.receive())
	})
	n.forward.stream = s
	return s, nil
}

// await registers a batch that is about to be sent; false if the stream is broken.
func (s *forwardStream) await(done func([]raftfsm.Outcome, error)) (id uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return 0, false
	}
	s.next++
	s.open = append(s.open, waiting{s.next, done})
	return s.next, true
}

func (s *forwardStream) isBroken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken != nil
}

// receive gives the answers out until the stream ends.
func (s *forwardStream) receive() error {
	for {
		r, err := s.Recv()
		if err != nil {
			return err
		}
		s.mu.Lock()
		if len(s.open) == 0 || s.open[0].id != r.Id {
			s.mu.Unlock()
			return fmt.Errorf("answer to batch %d, which is not the next one", r.Id)
		}
		w := s.open[0]
		s.open = s.open[1:]
		s.mu.Unlock()
		w.done(result(r))
	}
}

// fail answers all that is open: it may have arrived and may be stored.
func (s *forwardStream) fail(cause error) {
	s.mu.Lock()
	open := s.open
	s.open, s.broken = nil, cause
	s.mu.Unlock()
	for _, w := range open {
		w.done(nil, fmt.Errorf("%w: the connection to the leader broke: %w", engine.ErrUnknown, cause))
	}
}

// result is the answer of another node as the engine gives it.
func result(r *api.PublishResponse) ([]raftfsm.Outcome, error) {
	if e := r.Error; e != nil {
		kind := engine.ErrUnknown
		switch e.Kind {
		case api.PublishError_INVALID:
			kind = engine.ErrInvalid
		case api.PublishError_UNAVAILABLE:
			kind = engine.ErrUnavailable
		}
		return nil, fmt.Errorf("%w: %w", kind, errors.New(e.Message))
	}
	outcomes := make([]raftfsm.Outcome, len(r.Outcomes))
	for i, o := range r.Outcomes {
		outcomes[i] = raftfsm.Outcome{Kind: raftfsm.OutcomeKind(o.Kind), Seq: o.Seq, Units: o.Units, Index: o.Index}
	}
	return outcomes, nil
}
