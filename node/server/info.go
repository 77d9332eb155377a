package server

import (
	"context"
	"errors"
	"fmt"
	"io"

	"chorale/api"
	"chorale/message"
	"chorale/node/engine"
	"chorale/segments"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

const (
	topicsPerPage  = 1000
	fileChunkBytes = 256 << 10
)

// ListTopics implements api.StreamServer.
func (s *Server) ListTopics(q *api.ListTopicsRequest, stream grpc.ServerStreamingServer[api.ListTopicsResponse]) error {
	topics, err := s.Engine.Topics(q.Filters...)
	if err != nil {
		return s.failed(err)
	}
	for len(topics) > 0 {
		page := &api.ListTopicsResponse{}
		for _, t := range topics[:min(topicsPerPage, len(topics))] {
			page.Topics = append(page.Topics, &api.TopicStats{Name: t.Name, Messages: t.Messages, Bytes: t.Bytes, LastSeq: t.LastSeq, FloorSeq: t.Floor})
		}
		topics = topics[len(page.Topics):]
		if err := stream.Send(page); err != nil {
			return err
		}
	}
	return nil
}

// GetProducer implements api.StreamServer. Only the leader can answer; others ask it.
func (s *Server) GetProducer(ctx context.Context, q *api.GetProducerRequest) (*api.GetProducerResponse, error) {
	if len(q.ProducerId) != len(message.ProducerID{}) {
		return nil, s.failed(fmt.Errorf("%w: producer id of %d bytes: want %d", engine.ErrInvalid, len(q.ProducerId), len(message.ProducerID{})))
	}
	last, err := s.Engine.Producer(ctx, message.ProducerID(q.ProducerId))
	if err == nil {
		return &api.GetProducerResponse{LastNumber: last}, nil
	}
	leader, local := s.Engine.Leader()
	if !errors.Is(err, engine.ErrNotLeader) || local || forwarded(ctx) {
		return nil, s.failed(err)
	}
	if leader == "" {
		return nil, s.unavailable("no leader is known")
	}
	return s.Leader.Producer(ctx, leader, q)
}

// GetStatus implements api.StreamServer. It answers also when the node is not ready.
func (s *Server) GetStatus(context.Context, *api.GetStatusRequest) (*api.GetStatusResponse, error) {
	st := s.Engine.Status()
	out := &api.GetStatusResponse{
		NodeId:     string(st.ID),
		Version:    s.Version,
		State:      st.State,
		LeaderId:   string(st.Leader),
		NotReady:   s.incomplete(),
		OldestSeq:  st.History.Oldest,
		LastSeq:    st.View.LastSeq,
		LastTime:   st.View.LastTime,
		Topics:     uint64(st.Topics),
		Partitions: uint64(st.Partitions),
		Producers:  uint64(st.View.Producers),
		Tip: &api.TipStatus{
			FloorSeq: st.Tip.Floor, HeadSeq: st.Tip.Head,
			Bytes: uint64(st.Tip.Bytes), CapacityBytes: uint64(st.Tip.Capacity),
			PoolBlocks: uint64(st.Tip.Blocks), PoolFreeBlocks: uint64(st.Tip.FreeBlocks),
			FillFromSeq: st.Fill.From, FillAtSeq: st.Fill.At,
		},
		History: &api.HistoryStatus{
			Segments: uint64(st.History.Files - st.History.Stores), Stores: uint64(st.History.Stores), Bytes: uint64(st.History.Bytes), Plan: st.Plan,
			MissingFiles: uint64(st.History.Missing), DurableSeq: st.History.DurableEnd,
		},
		Members:          s.Members(),
		RaftAppliedIndex: st.Applied,
		RaftLastIndex:    st.Last,
		RaftTerm:         st.Term,
		Scrub:            scrubStatus(st.Scrub),
		Fetch:            fetchStatus(st.Fetch),
		Level:            levelStatus(st),
	}
	if st.View.Genesis.Cluster != [16]byte{} {
		out.ClusterId = fmt.Sprintf("%x", st.View.Genesis.Cluster)
	}
	return out, nil
}

// FetchFile implements api.PeerServer.
func (s *Server) FetchFile(q *api.FetchFileRequest, stream grpc.ServerStreamingServer[api.FetchFileResponse]) error {
	if len(q.Hash) != len(segments.Hash{}) {
		return s.failed(fmt.Errorf("%w: hash of %d bytes: want %d", engine.ErrInvalid, len(q.Hash), len(segments.Hash{})))
	}
	open := s.Engine.OpenFile
	if q.Salvage {
		open = s.Engine.Salvage
	}
	file, meta, err := open(segments.Hash(q.Hash))
	if errors.Is(err, segments.ErrNotHere) {
		return failure(codes.NotFound, "NOT_FOUND", err.Error(), nil)
	}
	if err != nil {
		return s.failed(err)
	}
	defer file.Close()
	if q.Offset > uint64(meta.Bytes) {
		return s.failed(fmt.Errorf("%w: offset %d of a file of %d bytes", engine.ErrInvalid, q.Offset, meta.Bytes))
	}
	end := uint64(meta.Bytes)
	if q.Length > 0 && q.Length < end-q.Offset {
		end = q.Offset + q.Length
	}
	chunk := make([]byte, min(fileChunkBytes, max(end-q.Offset, 1)))
	for offset := q.Offset; ; {
		n, err := file.ReadAt(chunk[:min(uint64(len(chunk)), end-offset)], int64(offset))
		offset += uint64(n)
		if n > 0 || offset == 0 {
			if err := stream.Send(&api.FetchFileResponse{Data: chunk[:n], Size: uint64(meta.Bytes)}); err != nil {
				return err
			}
			s.metrics.fileBytes.Add(float64(n))
		}
		switch {
		case errors.Is(err, io.EOF), offset == end:
			return nil
		case err != nil:
			return s.failed(fmt.Errorf("%w: read at %d: %w", segments.ErrCorrupt, offset, err))
		}
	}
}
