package server

import (
	"context"
	"errors"
	"fmt"
	"math"

	"chorale/api"
	"chorale/node/engine"
	"chorale/raftfsm"
	"chorale/raftfsm/kept"
	"chorale/retention"

	"github.com/hashicorp/raft"
)

// GetRetention implements api.StreamServer. Only the leader can answer; others ask it.
func (s *Server) GetRetention(ctx context.Context, q *api.GetRetentionRequest) (*api.GetRetentionResponse, error) {
	k, err := s.Engine.Retention(ctx)
	if err != nil {
		return passOn(ctx, s, err, q, s.Leader.Retention)
	}
	out := &api.GetRetentionResponse{OldestSeq: k.Oldest, OldestTime: k.OldestTime, Bytes: uint64(k.Bytes)}
	if k.Retention != (raftfsm.Retention{}) {
		out.Policies = []*api.RetentionPolicy{{Filter: retention.WholeStream, MaxAge: k.Age, MaxBytes: uint64(k.Retention.Bytes)}}
	}
	out.RulesNumber = k.Subtrees.Rules.Number
	for _, r := range k.Subtrees.Rules.List {
		out.Rules = append(out.Rules, &api.RetentionPolicy{Filter: r.Filter, MaxAge: r.Age, MaxBytes: uint64(r.Bytes)})
	}
	out.Floors = floors(k.Subtrees.Floors.List())
	return out, nil
}

func floors(list []retention.Floor) (out []*api.Floor) {
	for _, f := range list {
		out = append(out, &api.Floor{Filter: f.Filter, Seq: f.Seq})
	}
	return out
}

// SetRules implements api.StreamServer. Only the leader can do it; others ask it.
func (s *Server) SetRules(ctx context.Context, q *api.SetRulesRequest) (*api.SetRulesResponse, error) {
	c := kept.Change{Known: q.Known}
	for _, p := range q.Rules {
		if p.MaxBytes > math.MaxInt64 {
			return nil, s.failed(fmt.Errorf("%w: %d bytes for %q: at most %d are allowed", engine.ErrInvalid, p.MaxBytes, p.Filter, int64(math.MaxInt64)))
		}
		c.Rules = append(c.Rules, retention.Rule{Filter: p.Filter, Age: p.MaxAge, Bytes: int64(p.MaxBytes)})
	}
	if err := s.Engine.SetRules(ctx, c); err != nil {
		return passOn(ctx, s, err, q, s.Leader.SetRules)
	}
	return &api.SetRulesResponse{Number: q.Known + 1}, nil
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
		case p.Filter != retention.WholeStream:
			return r, fmt.Errorf("%w: a policy for %q: only %s, the whole stream, can have one; a subtree has rules", engine.ErrInvalid, p.Filter, retention.WholeStream)
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
