package server

import (
	"context"
	"errors"
	"fmt"
	"math"

	"chorale/api"
	"chorale/node/engine"
	"chorale/raftfsm"

	"github.com/hashicorp/raft"
)

// wholeStream is the filter of the only policy there can be.
const wholeStream = "**"

// GetRetention implements api.StreamServer. Only the leader can answer; others ask it.
func (s *Server) GetRetention(ctx context.Context, q *api.GetRetentionRequest) (*api.GetRetentionResponse, error) {
	k, err := s.Engine.Retention(ctx)
	if err != nil {
		return passOn(ctx, s, err, q, s.Leader.Retention)
	}
	out := &api.GetRetentionResponse{OldestSeq: k.Oldest, OldestTime: k.OldestTime, Bytes: uint64(k.Bytes)}
	if k.Retention != (raftfsm.Retention{}) {
		out.Policies = []*api.RetentionPolicy{{Filter: wholeStream, MaxAge: k.Age, MaxBytes: uint64(k.Retention.Bytes)}}
	}
	return out, nil
}

// SetRetention implements api.StreamServer. Only the leader can do it; others ask it.
func (s *Server) SetRetention(ctx context.Context, q *api.SetRetentionRequest) (*api.SetRetentionResponse, error) {
	r, err := retentionOf(q)
	if err != nil {
		return nil, s.failed(err)
	}
	if err := s.Engine.SetRetention(ctx, r); err != nil {
		return passOn(ctx, s, err, q, s.Leader.SetRetention)
	}
	return &api.SetRetentionResponse{}, nil
}

// retentionOf checks what a client asks for.
func retentionOf(q *api.SetRetentionRequest) (r raftfsm.Retention, err error) {
	if len(q.Policies) > 1 {
		return r, fmt.Errorf("%w: %d policies: one for the whole stream is possible", engine.ErrInvalid, len(q.Policies))
	}
	for _, p := range q.Policies {
		switch {
		case p.Filter != wholeStream:
			return r, fmt.Errorf("%w: a policy for %q: only %s, the whole stream, can have one", engine.ErrInvalid, p.Filter, wholeStream)
		case p.MaxAge < 0 || p.MaxBytes > math.MaxInt64 || p.MaxAge == 0 && p.MaxBytes == 0:
			return r, fmt.Errorf("%w: an age of %d ns and %d bytes: a policy has one limit above 0 at least", engine.ErrInvalid, p.MaxAge, p.MaxBytes)
		}
		r = raftfsm.Retention{Age: p.MaxAge, Bytes: int64(p.MaxBytes)}
	}
	return r, nil
}

// passOn asks the leader what this node could not do because it does not lead.
func passOn[Q, A any](ctx context.Context, s *Server, err error, q Q, ask func(context.Context, raft.ServerID, Q) (A, error)) (none A, _ error) {
	leader, local := s.Engine.Leader()
	if !errors.Is(err, engine.ErrNotLeader) || local || forwarded(ctx) {
		return none, s.failed(err)
	}
	if leader == "" {
		return none, s.unavailable(noLeader)
	}
	return ask(ctx, leader, q)
}
