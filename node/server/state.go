package server

import (
	"fmt"

	"chorale/api"

	"google.golang.org/grpc"
)

// ReadState implements api.ClusterServer. A slow caller keeps what changes in memory
// twice, so there is one at a time.
func (s *Server) ReadState(_ *api.ReadStateRequest, stream grpc.ServerStreamingServer[api.ReadStateResponse]) error {
	if err := s.ready(); err != nil {
		return err
	}
	select {
	case s.reading <- struct{}{}:
		defer func() { <-s.reading }()
	case <-stream.Context().Done():
		return s.failed(stream.Context().Err())
	case <-s.life.Done():
		return s.unavailable("this node is shutting down")
	}
	if err := stream.Send(&api.ReadStateResponse{NodeId: string(s.Engine.ID()), ClusterId: fmt.Sprintf("%x", s.Engine.Cluster())}); err != nil {
		return err
	}
	state, err := s.Engine.State()
	if err != nil {
		return s.unavailable(err.Error())
	}
	defer state.Release()
	if err := state.Persist(stateSink{stream}); err != nil {
		return s.failed(err)
	}
	return nil
}

// stateSink is a stream as a raft.SnapshotSink.
type stateSink struct {
	stream grpc.ServerStreamingServer[api.ReadStateResponse]
}

// Write implements io.Writer. The bytes have been encoded when Send returns.
func (s stateSink) Write(b []byte) (int, error) {
	if err := s.stream.Send(&api.ReadStateResponse{Data: b}); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Close implements io.Closer: the end of the call is the end.
func (stateSink) Close() error { return nil }

// Cancel implements raft.SnapshotSink: the error of the call tells it.
func (stateSink) Cancel() error { return nil }

// ID implements raft.SnapshotSink.
func (stateSink) ID() string { return "state" }
