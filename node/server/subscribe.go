package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"chorale/api"
	"chorale/message"
	"chorale/node/engine"
	"chorale/node/turns"
	"chorale/raftfsm"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

const (
	defaultBatchBytes = 256 << 10
	minBatchBytes     = 4 << 10
	maxBatchBytes     = 4 << 20
	// markEvery is how often a subscription that is given nothing else is told how
	// far it has come. Clients count on twice this.
	markEvery = api.ProgressInterval / 2
	// liveLag is how many messages a subscription may be behind the newest one and yet count
	// as one that follows them.
	liveLag = 4096
	// leaderAnswer bounds a question to the leader.
	leaderAnswer = 2 * time.Second
	// maxNamesBytes bounds the names in a response, nameHeadBytes what one takes beside
	// itself. With the floors (4 MiB at most), and the records or one long one, they stay
	// below api.MaxMessageBytes.
	maxNamesBytes = 8 << 20
	nameHeadBytes = 16
)

// Subscribe implements api.StreamServer.
func (s *Server) Subscribe(q *api.SubscribeRequest, stream grpc.ServerStreamingServer[api.SubscribeResponse]) error {
	if err := s.ready(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	r, err := s.request(ctx, q)
	if err != nil {
		return s.failed(err)
	}
	sub, err := s.Engine.Subscribe(ctx, r)
	if err != nil {
		return s.failed(s.askBeyond(ctx, q, err))
	}
	defer sub.Close()
	s.metrics.subscriptions.Inc()
	defer s.metrics.subscriptions.Dec()
	d := delivery{server: s, sub: sub, stream: stream, limit: batchBytes(q.MaxBatchBytes)}
	if err := d.open(); err != nil {
		return err
	}
	if err := d.run(ctx); err != nil && s.life.Err() != nil {
		return s.unavailable("this node is shutting down")
	} else if err != nil {
		return s.failed(err)
	}
	return nil
}

func batchBytes(asked uint32) int {
	if asked == 0 {
		return defaultBatchBytes
	}
	return int(min(max(asked, minBatchBytes), maxBatchBytes))
}

func (s *Server) request(ctx context.Context, q *api.SubscribeRequest) (engine.SubscribeRequest, error) {
	r := engine.SubscribeRequest{Filters: q.Filters, UntilTip: q.UntilTip}
	switch start := q.Start.(type) {
	case *api.SubscribeRequest_AfterSeq:
		r.After = start.AfterSeq
	case *api.SubscribeRequest_FromTime:
		r.FromTime = max(start.FromTime, 1)
	case *api.SubscribeRequest_FromTip:
		r.FromTip = start.FromTip
	default:
		r.FromOldest = true
	}
	if q.ClusterId != "" {
		id, err := hex.DecodeString(q.ClusterId)
		if err != nil || len(id) != len(r.Cluster) {
			return r, fmt.Errorf("%w: cluster id %q: want 32 hexadecimal digits", engine.ErrInvalid, q.ClusterId)
		}
		r.Cluster = raftfsm.ClusterID(id)
	}
	if q.UntilTip {
		r.Until = s.leaderEnd(ctx)
	}
	return r, nil
}

// leaderEnd is the end of the stream as the leader knows it, so that until_tip on
// a follower does not miss what was acknowledged a moment ago. 0 if this node
// leads or no leader answers; then this node's own end has to do, and Opened tells
// the client which it is.
func (s *Server) leaderEnd(ctx context.Context) uint64 {
	leader, local := s.Engine.Leader()
	if local || leader == "" {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, leaderAnswer)
	defer cancel()
	st, err := s.Leader.Status(ctx, leader)
	if err != nil {
		s.Log.Debug("the leader did not tell its end", "leader", leader, "error", err)
	}
	return st.GetLastSeq()
}

// askBeyond makes of "has not arrived here" what the leader says to the same
// request: beyond the end of the stream, or just not here yet.
func (s *Server) askBeyond(ctx context.Context, q *api.SubscribeRequest, err error) error {
	leader, local := s.Engine.Leader()
	var beyond *engine.BeyondEndError
	if !errors.As(err, &beyond) || beyond.Final || local || leader == "" || forwarded(ctx) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, leaderAnswer)
	defer cancel()
	if said := s.Leader.Opens(ctx, leader, q); status.Code(said) == codes.OutOfRange {
		return said
	}
	return err
}

// delivery sends what a subscription finds.
type delivery struct {
	server *Server
	sub    *engine.Subscription
	stream grpc.ServerStream
	limit  int
	full   bool // the last records took more than half of what was to be read, and there were more
	named  idSet
	marked time.Time    // when the client was last told a position
	told   uint64       // that position
	floors []*api.Floor // that the client is to be told with the next frame
}

func (d *delivery) open() error {
	d.marked, d.told = time.Now(), d.sub.After
	return d.stream.SendMsg(&api.Frame{Opened: d.server.opened(d.sub), TipSeq: d.server.Engine.End()})
}

func (s *Server) opened(sub *engine.Subscription) *api.Opened {
	return &api.Opened{
		ClusterId: fmt.Sprintf("%x", s.Engine.Cluster()),
		NodeId:    string(s.Engine.ID()),
		Filters:   sub.Filters,
		AfterSeq:  sub.After,
		UntilSeq:  sub.Until,
		OldestSeq: sub.Oldest,
	}
}

// run delivers until the subscription ends (nil), ctx ends or an error.
func (d *delivery) run(ctx context.Context) error {
	for {
		if err := d.await(ctx); err != nil {
			return err
		}
		var turn turns.Turn
		if recovers(d.sub.Position(), d.end(), d.full) {
			turn = d.server.turns.Take(ctx, d.server.Engine.End())
		}
		frame, count, err := d.read(ctx, turn.Limit(d.limit))
		sendErr := d.deliver(frame, count, err != nil)
		frame.Release()
		turn.Give()
		switch {
		case sendErr != nil:
			return sendErr
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// read reads once, up to limit bytes, and counts the messages.
func (d *delivery) read(ctx context.Context, limit int) (*api.Frame, int, error) {
	buffer := api.Buffers.Get(limit)
	records, p, err := d.sub.Next(ctx, (*buffer)[:0], limit)
	*buffer, d.full = records, len(records) > limit/2 && d.sub.Position() < d.end()
	d.floors = append(d.floors, floors(d.sub.Floors())...)
	return &api.Frame{Records: mem.NewBuffer(buffer, api.Buffers), ScannedSeq: d.sub.Position(), TipSeq: d.server.Engine.End()}, p.Count, err
}

// end is the newest message that there is for the subscription.
func (d *delivery) end() uint64 {
	end := d.server.Engine.End()
	if d.sub.Until != 0 {
		end = min(end, d.sub.Until)
	}
	return end
}

// recovers reports whether what is next is of the past, or much; full is whether the last
// read was cut at the limit. Whoever has come to the end does not.
func recovers(position, end uint64, full bool) bool {
	return position < end && (full || position+liveLag < end)
}

// await returns when there is something to read; meanwhile it tells the position
// from time to time. A node that is cut off from its cluster would have nothing to
// read for ever, so it sends its waiting subscribers elsewhere.
func (d *delivery) await(ctx context.Context) error {
	for {
		wait, cancel := context.WithTimeout(ctx, markEvery)
		err := d.sub.Wait(wait)
		cancel()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if err := d.server.ready(); err != nil {
			return err
		}
		if err := d.mark(); err != nil {
			return err
		}
	}
}

// mark sends a position without records.
func (d *delivery) mark() error {
	d.marked, d.told = time.Now(), d.sub.Position()
	return d.send(&api.Frame{ScannedSeq: d.told, TipSeq: d.server.Engine.End()})
}

// send sends a frame with the floors that explain what is not in it.
func (d *delivery) send(frame *api.Frame) error {
	frame.Floors, d.floors = d.floors, nil
	return d.stream.SendMsg(frame)
}

// deliver sends a frame with records, or one without if it is time for a mark.
func (d *delivery) deliver(frame *api.Frame, count int, last bool) error {
	if count == 0 {
		if time.Since(d.marked) < markEvery && !(last && frame.ScannedSeq > d.told) {
			return nil
		}
		return d.mark()
	}
	if err := d.name(frame); err != nil {
		return err
	}
	d.marked, d.told = time.Now(), frame.ScannedSeq
	d.server.metrics.delivered(count, len(frame.RecordBytes()))
	return d.send(frame)
}

// name gives the frame the names of those of its topics that the client was not told. What
// has no room in it goes ahead, in frames without records: the shortest messages with the
// longest names would make it longer than a gRPC message may be.
func (d *delivery) name(frame *api.Frame) error {
	bytes := 0
	for rest := frame.RecordBytes(); len(rest) > 0; {
		r, tail, err := message.Split(rest)
		if err != nil {
			panic(fmt.Sprintf("a subscription delivered bytes that are no records: %v", err))
		}
		rest = tail
		id := r.Topic()
		if !d.named.add(id) {
			continue
		}
		name := &api.TopicName{Id: id, Name: d.server.Engine.TopicName(id)}
		if bytes += len(name.Name) + nameHeadBytes; bytes > maxNamesBytes {
			ahead := &api.Frame{Topics: frame.Topics, ScannedSeq: d.told, TipSeq: frame.TipSeq}
			if err := d.send(ahead); err != nil {
				return err
			}
			frame.Topics, bytes = nil, len(name.Name)+nameHeadBytes
		}
		frame.Topics = append(frame.Topics, name)
	}
	return nil
}

// idSet is a set of topic ids: a bit each, in pages that exist where ids are.
type idSet struct{ pages []*[idPageWords]uint64 }

const idPageWords = 512 // 32,768 ids, 4 KiB

// add reports whether the id is new.
func (s *idSet) add(id uint32) bool {
	page, bit := int(id/(64*idPageWords)), id%(64*idPageWords)
	for len(s.pages) <= page {
		s.pages = append(s.pages, nil)
	}
	if s.pages[page] == nil {
		s.pages[page] = new([idPageWords]uint64)
	}
	word, mask := &s.pages[page][bit/64], uint64(1)<<(bit%64)
	fresh := *word&mask == 0
	*word |= mask
	return fresh
}
