package client

import (
	"context"
	"fmt"
	"io"
	"iter"
	"math"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"chorale/api"
	"chorale/client/verify"
	"chorale/client/waits"
	"chorale/message"
	"chorale/topic"
)

// Start says where a subscription begins. The zero value is First.
type Start struct {
	after   *uint64
	time    *time.Time
	tip     bool
	cluster string
	filters []string
}

// First begins with the oldest message that the cluster keeps.
func First() Start { return Start{} }

// Tip begins with the first message that is stored after the call.
func Tip() Start { return Start{tip: true} }

// AfterSeq begins behind a seq; 0 is the beginning of the stream.
func AfterSeq(seq uint64) Start { return Start{after: &seq} }

// FromTime begins with the first message of this stream time or a later one.
func FromTime(t time.Time) Start { return Start{time: &t} }

// streamTime is t in nanoseconds, which reach from 1677 to 2262: a time outside
// is before or behind every message, and must not wrap around to the other side.
func streamTime(t time.Time) int64 {
	switch {
	case t.Before(time.Unix(0, math.MinInt64)):
		return math.MinInt64
	case t.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	}
	return t.UnixNano()
}

// Resume begins behind a position, and only in its cluster. The subscription's
// filters must be those of the position; if none are given, they are.
func Resume(p Position) Start {
	return Start{after: &p.Seq, cluster: p.Cluster, filters: p.Filters}
}

// SubscribeOptions say what a subscription delivers.
type SubscribeOptions struct {
	// Filters is one or more of a/b, a/b/**, a/*/c, **.
	Filters []string
	From    Start
	// UntilTip ends the subscription with the newest message at the time of the
	// call; otherwise it follows the stream.
	UntilTip bool
	// BatchBytes bounds the records of one response; 0 lets the node choose.
	BatchBytes int
	// OnWait is told why nothing comes; nil means that nobody wants to know. See Wait.
	OnWait func(Wait)
	// OnExpired is told of messages that the rule of a subtree let go before they were
	// delivered: where the subscription resumed, or was, too far back. It is called by Next
	// and NextBatch, when the next message of the topic comes. Nil means that nobody wants to
	// know. If everything that is wanted has gone, it is an ErrGone instead.
	OnExpired func(Expired)
}

// Expired says which messages were not delivered, because they had gone before: some or all
// of those of Topic behind After, up to Last, which is one of them.
type Expired = verify.Gone

// Subscription delivers exactly the messages that its filters match, in order, each
// once, whatever nodes they come from. Every message is verified (see
// ViolationError). For one goroutine, but for Position and Close.
type Subscription struct {
	cluster  string
	filters  []string
	feed     *feed
	cancel   context.CancelFunc
	verifier *verify.Verifier
	position atomic.Uint64
	tip      atomic.Uint64
	current  *Batch // what Next is walking
	err      error  // why it has ended
}

// Subscribe opens a subscription on some node and returns when that has accepted
// it. ctx bounds the opening only; Close ends the subscription. The errors are
// ErrInvalid, ErrOutOfRange, ErrGone, ErrOtherCluster, ErrDenied, *ViolationError,
// or the context's.
func (c *Client) Subscribe(ctx context.Context, o SubscribeOptions) (*Subscription, error) {
	request, filters, err := o.request()
	if err != nil {
		return nil, err
	}
	f := &feed{
		client: c, request: request, filters: filters.Canonical(), frames: make(chan fed, framesAhead),
		waits: waits.New(o.OnWait),
	}
	whole, cancel := context.WithCancel(c.ctx)
	f.ctx = whole
	source, err := f.open(ctx, 0)
	if err != nil {
		f.waits.End()
		cancel()
		return nil, err
	}
	first := source.opened
	f.cluster, f.scanned, f.until, f.bounded = first.ClusterId, first.AfterSeq, first.UntilSeq, o.UntilTip
	s := &Subscription{cluster: first.ClusterId, filters: f.filters, feed: f, cancel: cancel}
	s.verifier = verify.New(filters, first.AfterSeq, o.UntilTip, first.UntilSeq, o.OnExpired)
	s.position.Store(first.AfterSeq)
	if err := c.start(func() { f.run(source) }); err != nil {
		source.close()
		f.waits.End()
		cancel()
		return nil, err
	}
	return s, nil
}

func (o SubscribeOptions) request() (*api.SubscribeRequest, *topic.Filters, error) {
	list := o.Filters
	if len(list) == 0 {
		list = o.From.filters
	}
	filters, err := topic.ParseFilters(list...)
	if err != nil {
		return nil, nil, invalid{err}
	}
	if !utf8.ValidString(o.From.cluster) {
		return nil, nil, fmt.Errorf("%w: position: the cluster %q is not valid UTF-8", ErrInvalid, o.From.cluster)
	}
	if o.BatchBytes < 0 || o.BatchBytes > api.MaxMessageBytes {
		return nil, nil, fmt.Errorf("%w: batch bytes %d: 0 to %s are allowed", ErrInvalid, o.BatchBytes, message.Size(api.MaxMessageBytes))
	}
	r := &api.SubscribeRequest{
		Filters: filters.Canonical(), UntilTip: o.UntilTip,
		ClusterId: o.From.cluster, MaxBatchBytes: uint32(o.BatchBytes),
	}
	switch {
	case o.From.after != nil:
		r.Start = &api.SubscribeRequest_AfterSeq{AfterSeq: *o.From.after}
	case o.From.time != nil:
		r.Start = &api.SubscribeRequest_FromTime{FromTime: streamTime(*o.From.time)}
	case o.From.tip:
		r.Start = &api.SubscribeRequest_FromTip{FromTip: true}
	}
	return r, filters, o.From.sameFilters(filters)
}

// sameFilters holds the filters of a position against those of the options: under
// others its seq would claim messages that were never delivered.
func (s Start) sameFilters(f *topic.Filters) error {
	if s.filters == nil {
		return nil
	}
	position, err := topic.ParseFilters(s.filters...)
	if err != nil {
		return fmt.Errorf("%w: position: %w", ErrInvalid, err)
	}
	if a, b := fmt.Sprint(position.Canonical()), fmt.Sprint(f.Canonical()); a != b {
		return fmt.Errorf("%w: the position is of the filters %s, not of %s", ErrInvalid, a, b)
	}
	return nil
}

// Next returns the next message. It waits for one until ctx ends, after which it
// may be called again. io.EOF is the end of a subscription with UntilTip. Any other
// error ends the subscription: *ViolationError, ErrOutOfRange, ErrGone,
// ErrOtherCluster, ErrInvalid, ErrDenied, ErrClosed.
func (s *Subscription) Next(ctx context.Context) (Delivery, error) {
	for s.current == nil || s.current.count == 0 {
		b, err := s.fill(ctx)
		if err != nil {
			return Delivery{}, err
		}
		// The batch is not released: its messages stay valid, so the garbage
		// collector has to say when the last one is gone.
		s.current = b
	}
	b := s.current
	r, rest, err := message.Split(b.records)
	if err != nil {
		panic(fmt.Sprintf("client: a verified batch does not split with %d messages left: %v", b.count, err))
	}
	b.records, b.count = rest, b.count-1
	if b.count == 0 {
		s.position.Store(b.scanned)
	} else {
		s.position.Store(r.Seq())
	}
	return delivery(r, b.Topic(r.Topic())), nil
}

// Messages ranges over the messages as Next returns them. The end of a subscription
// with UntilTip ends the range; any error is the last pair.
func (s *Subscription) Messages(ctx context.Context) iter.Seq2[Delivery, error] {
	return func(yield func(Delivery, error) bool) {
		for {
			d, err := s.Next(ctx)
			if err == io.EOF {
				return
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// NextBatch returns what came in one response, without a copy and without an
// allocation a message; see Next for waiting and errors. With it the batch counts
// as delivered: Position lies behind it.
func (s *Subscription) NextBatch(ctx context.Context) (*Batch, error) {
	b := s.current
	s.current = nil
	if b == nil || b.count == 0 {
		var err error
		if b, err = s.fill(ctx); err != nil {
			return nil, err
		}
	}
	s.position.Store(b.scanned)
	return b, nil
}

// fill waits for the next verified batch with messages in it.
func (s *Subscription) fill(ctx context.Context) (*Batch, error) {
	for s.err == nil {
		if s.verifier.Finished() {
			s.err = io.EOF
			break
		}
		select {
		case in, ok := <-s.feed.frames:
			if !ok {
				in.err = fmt.Errorf("%w: the subscription", ErrClosed)
			}
			if in.err != nil {
				s.err = in.err
				break
			}
			if b := s.verify(in); b != nil && b.count > 0 {
				return b, nil
			}
		case <-ctx.Done():
			return nil, s.feed.explain(ctx.Err())
		}
	}
	s.cancel()
	return nil, s.err
}

// verify makes a frame a batch; nil after a violation. A frame without messages
// only moves the position.
func (s *Subscription) verify(in fed) *Batch {
	records, count, bad := s.verifier.Accept(&in.frame, in.cut)
	if bad != nil {
		in.frame.Release()
		s.err = &ViolationError{Node: in.node, Position: s.Position(), Seq: bad.Seq, Reason: bad.Reason, Err: bad.Err}
		return nil
	}
	s.tip.Store(max(s.tip.Load(), in.frame.TipSeq))
	if count == 0 {
		in.frame.Release()
		s.position.Store(s.verifier.Scanned())
	}
	return &Batch{frame: in.frame, records: records, count: count, topics: s.verifier.Topics(), scanned: s.verifier.Scanned()}
}

// Position is where a new subscription goes on without gap or repeat: behind the
// last message that Next or NextBatch returned, or farther if nothing more matched.
// Any goroutine.
func (s *Subscription) Position() Position {
	return Position{Cluster: s.cluster, Seq: s.position.Load(), Filters: s.filters}
}

// TipSeq is the newest seq of the stream that a node was heard to know; 0 before
// the first response. Any goroutine.
func (s *Subscription) TipSeq() uint64 { return s.tip.Load() }

// Close ends the subscription; a waiting Next returns ErrClosed. Messages that were
// returned stay valid. Any goroutine, more than once.
func (s *Subscription) Close() { s.cancel() }
