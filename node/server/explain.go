package server

import (
	"time"

	"chorale/api"
	"chorale/node/engine/pace"
	"chorale/recovery"
	"chorale/segments"

	"google.golang.org/grpc"
)

const (
	// explainParts is how many parts one response has at most, and explainEvery how
	// long they may wait for each other: clients expect to hear something.
	explainParts = 256
	explainEvery = time.Second
)

// Explain implements api.StreamServer.
func (s *Server) Explain(q *api.SubscribeRequest, stream grpc.ServerStreamingServer[api.ExplainResponse]) error {
	if err := s.ready(); err != nil {
		return err
	}
	ctx := stream.Context()
	q.UntilTip = true
	r, err := s.request(ctx, q)
	if err != nil {
		return s.failed(err)
	}
	sub, err := s.Engine.Subscribe(ctx, r)
	if err != nil {
		return s.failed(s.askBeyond(ctx, q, err))
	}
	defer sub.Close()
	x := explanation{server: s, stream: stream, next: &api.ExplainResponse{Opened: s.opened(sub)}, sent: time.Now()}
	x.files, x.memory = s.Engine.Pace.Rates()
	if err := sub.Explain(x.take); err != nil {
		return s.failed(err)
	}
	x.next.Total = x.summary()
	return stream.Send(x.next)
}

// explanation gathers parts into responses, and sums them up.
type explanation struct {
	server        *Server
	stream        grpc.ServerStreamingServer[api.ExplainResponse]
	next          *api.ExplainResponse
	sent          time.Time
	files, memory pace.Rate

	read, decoded, bytes, fromFiles, messages segments.Amount
	cached                                    uint64
	took                                      time.Duration
}

// take adds a part.
func (x *explanation) take(p recovery.Part) error {
	took := x.memory.Time(p.Bytes.Estimate)
	if p.Kind != 0 {
		took = x.files.Time(p.Tables + p.Decoded.Estimate)
		x.fromFiles = x.fromFiles.Plus(p.Bytes)
	}
	x.read, x.decoded, x.bytes, x.messages = x.read.Plus(p.Read()), x.decoded.Plus(p.Decoded), x.bytes.Plus(p.Bytes), x.messages.Plus(p.Messages)
	x.cached += p.Cached
	x.took += took
	x.next.Parts = append(x.next.Parts, &api.ExplainPart{
		Source: sourceOf(p), FirstSeq: p.First, LastSeq: p.Last,
		Files: uint32(p.Files), FilesAsked: uint32(p.Asked), FilesRead: uint32(p.Touched),
		Blocks: amount(p.Blocks), TableBytes: p.Tables, ReadBytes: amount(p.Read()), CachedBytes: p.Cached,
		DecodedBytes: amount(p.Decoded), Bytes: amount(p.Bytes), Messages: amount(p.Messages), Nanos: int64(took),
	})
	if x.server.life.Err() != nil {
		return x.server.unavailable("this node is shutting down")
	}
	if len(x.next.Parts) < explainParts && time.Since(x.sent) < explainEvery {
		return nil
	}
	err := x.stream.Send(x.next)
	x.next, x.sent = &api.ExplainResponse{}, time.Now()
	return err
}

func (x *explanation) summary() *api.ExplainTotal {
	t := &api.ExplainTotal{
		ReadBytes: amount(x.read), CachedBytes: x.cached, DecodedBytes: amount(x.decoded), Bytes: amount(x.bytes),
		FileBytes: amount(x.fromFiles), Messages: amount(x.messages), Nanos: int64(x.took),
		FileRate: rate(x.files), MemoryRate: rate(x.memory),
	}
	if n := float64(x.fromFiles.Estimate); n > 0 {
		t.ReadAmplification, t.DecodedAmplification = float64(x.read.Estimate)/n, float64(x.decoded.Estimate)/n
	}
	return t
}

func sourceOf(p recovery.Part) api.ExplainPart_Source {
	switch {
	case p.Tip:
		return api.ExplainPart_TIP
	case p.Kind == segments.KindSegment:
		return api.ExplainPart_SEGMENT
	case p.Kind == segments.KindStore:
		return api.ExplainPart_STORES
	}
	return api.ExplainPart_MEMORY
}

func amount(a segments.Amount) *api.Amount {
	return &api.Amount{Estimate: a.Estimate, Low: a.Low, High: a.High}
}

func rate(r pace.Rate) *api.Rate {
	return &api.Rate{BytesPerSecond: r.BytesPerSecond, Measured: r.Measured}
}
