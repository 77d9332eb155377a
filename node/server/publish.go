package server

import (
	"context"
	"errors"
	"io"
	"time"

	"chorale/api"
	"chorale/raftfsm"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// ForwardedKey is the metadata key of a call that a node passes on to the leader.
// Such a call is never passed on again: two nodes that
// each believe the other leads would play ball.
const ForwardedKey = "chorale-forwarded"

// openAnswers bounds the batches of one stream that wait for their answer. What
// they hold in bytes is bounded by the engine.
const openAnswers = 4096

// answer is one batch on its way. done holds at most the one response.
type answer struct{ done chan *api.PublishResponse }

// Publish implements api.StreamServer.
func (s *Server) Publish(stream grpc.BidiStreamingServer[api.PublishRequest, api.PublishResponse]) error {
	ctx := stream.Context()
	submit := s.Engine.Submit
	if forwarded(ctx) {
		submit = s.Engine.SubmitLocal
	}
	// The reader cannot be woken from RecvMsg but by the end of the stream: so the
	// writer is the handler, and its return ends the reader.
	answers := make(chan answer, openAnswers)
	var last error
	go func() {
		defer close(answers)
		last = s.receive(ctx, stream, submit, answers)
	}()
	for {
		select {
		case a, more := <-answers:
			if !more {
				if errors.Is(last, io.EOF) {
					return nil
				}
				return last
			}
			if err := s.respond(ctx, stream, a); err != nil {
				return err
			}
		case <-s.life.Done():
			// What was read is answered still; the engine answers all it took.
			for {
				select {
				case a, more := <-answers:
					if !more {
						return nil
					}
					if err := s.respond(ctx, stream, a); err != nil {
						return err
					}
				default:
					return s.unavailable("this node is shutting down")
				}
			}
		}
	}
}

// forwarded reports whether another node passed the call on to this one.
func forwarded(ctx context.Context) bool {
	md, ok := metadata.FromIncomingContext(ctx)
	return ok && len(md.Get(ForwardedKey)) > 0
}

type submitFunc func(context.Context, []byte, func([]raftfsm.Outcome, error))

// receive submits batches until the stream ends; io.EOF if the client said so.
func (s *Server) receive(ctx context.Context, stream grpc.ServerStream, submit submitFunc, answers chan<- answer) error {
	for {
		frame := new(api.BatchFrame)
		if err := stream.RecvMsg(frame); err != nil {
			return err
		}
		a := answer{make(chan *api.PublishResponse, 1)}
		select {
		case answers <- a:
		case <-ctx.Done():
			frame.Release()
			return ctx.Err()
		}
		start, id, bytes := time.Now(), frame.ID, len(frame.BatchBytes())
		submit(ctx, frame.BatchBytes(), func(outcomes []raftfsm.Outcome, err error) {
			frame.Release()
			s.metrics.published(bytes, time.Since(start), err)
			a.done <- response(id, outcomes, err)
		})
	}
}

func (s *Server) respond(ctx context.Context, stream grpc.BidiStreamingServer[api.PublishRequest, api.PublishResponse], a answer) error {
	select {
	case r := <-a.done:
		return stream.Send(r)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func response(id uint64, outcomes []raftfsm.Outcome, err error) *api.PublishResponse {
	r := &api.PublishResponse{Id: id}
	if err != nil {
		r.Error = publishError(err)
		return r
	}
	r.Outcomes = make([]*api.Outcome, len(outcomes))
	for i, o := range outcomes {
		r.Outcomes[i] = &api.Outcome{Kind: api.Outcome_Kind(o.Kind), Seq: o.Seq, Units: o.Units, Index: o.Index}
	}
	return r
}
