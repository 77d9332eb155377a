package server

import (
	"context"
	"errors"
	"strconv"

	"chorale/api"
	"chorale/node/engine"
	"chorale/node/engine/roster"
	"chorale/raftfsm/kept"
	"chorale/recovery"
	"chorale/segments"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Every error of a call carries an ErrorInfo of this domain. Its metadata hold the
// numbers and names of the message: end, oldest, nodes.
const errorDomain = "chorale"

func failure(code codes.Code, reason, message string, metadata map[string]string) error {
	st := status.New(code, message)
	if with, err := st.WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: errorDomain, Metadata: metadata}); err == nil {
		st = with
	}
	return st.Err()
}

// unavailable names the nodes that may do what this one cannot.
func (s *Server) unavailable(message string) error {
	nodes := s.others()
	if nodes != "" {
		message += "; other nodes: " + nodes
	}
	return failure(codes.Unavailable, "UNAVAILABLE", message, map[string]string{"nodes": nodes})
}

// failed is the gRPC status of an error of the engine or the history. What is a
// status already stays.
func (s *Server) failed(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	var beyond *engine.BeyondEndError
	var expired *engine.ExpiredError
	var overtaken *recovery.OvertakenError
	var refused *roster.Refusal
	switch {
	case errors.As(err, &refused) && refused.Reason == roster.ReasonUnknown:
		return failure(codes.NotFound, refused.Reason, refused.Text, nil)
	case errors.As(err, &refused):
		return failure(codes.FailedPrecondition, refused.Reason, refused.Text, nil)
	case errors.Is(err, kept.ErrOtherRules):
		return failure(codes.FailedPrecondition, "RULES_CHANGED", err.Error(), nil)
	case errors.Is(err, engine.ErrInvalid):
		return failure(codes.InvalidArgument, "INVALID", err.Error(), nil)
	case errors.As(err, &beyond) && beyond.Final:
		return failure(codes.OutOfRange, "BEYOND_END", err.Error(), map[string]string{"end": strconv.FormatUint(beyond.End, 10)})
	case errors.As(err, &expired):
		return failure(codes.OutOfRange, "EXPIRED", err.Error(), map[string]string{"oldest": strconv.FormatUint(expired.Oldest, 10)})
	case errors.As(err, &overtaken):
		return failure(codes.OutOfRange, "EXPIRED", err.Error(), map[string]string{"oldest": strconv.FormatUint(overtaken.Oldest, 10)})
	case errors.Is(err, segments.ErrExpired):
		oldest := strconv.FormatUint(s.Engine.Status().History.Oldest, 10)
		return failure(codes.OutOfRange, "EXPIRED", err.Error()+"; the oldest is "+oldest, map[string]string{"oldest": oldest})
	case errors.Is(err, engine.ErrOtherCluster):
		return failure(codes.FailedPrecondition, "OTHER_CLUSTER", err.Error(), nil)
	case errors.Is(err, segments.ErrCorrupt):
		return failure(codes.DataLoss, "DAMAGED", err.Error(), map[string]string{"nodes": s.others()})
	case errors.As(err, new(*segments.MissingError)):
		return s.missing(err)
	case errors.Is(err, engine.ErrUnavailable), notLeading(err), errors.Is(err, segments.ErrNotHere), errors.As(err, &beyond):
		return s.unavailable(err.Error())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	return failure(codes.Internal, "INTERNAL", err.Error(), nil)
}

// publishError is the answer to a batch that was not taken.
func publishError(err error) *api.PublishError {
	kind := api.PublishError_UNKNOWN
	switch {
	case errors.Is(err, engine.ErrInvalid):
		kind = api.PublishError_INVALID
	case errors.Is(err, engine.ErrUnavailable):
		kind = api.PublishError_UNAVAILABLE
	}
	out := &api.PublishError{Kind: kind, Message: err.Error()}
	var payload *engine.PayloadError
	if errors.As(err, &payload) {
		out.PayloadLimit = uint64(payload.Limit)
	}
	return out
}
