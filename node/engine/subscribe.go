package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"chorale/message"
	"chorale/node/engine/pace"
	"chorale/raftfsm"
	"chorale/recovery"
	"chorale/retention"
	"chorale/segments"
	"chorale/topic"
)

// arrivalWait is how long a subscription on a follower waits for its start position
// to arrive before the answer is that it is not there.
const arrivalWait = 2 * time.Second

// SubscribeRequest says what a subscription wants.
type SubscribeRequest struct {
	Filters  []string
	After    uint64 // start behind this seq
	FromTime int64  // if > 0 instead: from this time on
	FromTip  bool   // instead: from the live end of this node
	// FromOldest instead: from the oldest kept message on.
	FromOldest bool
	UntilTip   bool              // end at the live end that this node has now, but not before Until
	Until      uint64            // with UntilTip: where the leader is known to be
	Cluster    raftfsm.ClusterID // zero, or where After comes from
}

// Subscription delivers a subscriber's messages. For one goroutine.
type Subscription struct {
	// After, Until, Oldest: see api.Opened. Until is 0 without UntilTip.
	After, Until, Oldest uint64
	Filters              []string
	untilTip             bool
	parsed               *topic.Filters
	pace                 *pace.Pace
	source               recovery.Source
	cursor               *recovery.Cursor
	explain              func(error) error
}

// Subscribe starts a subscription on this node. Errors wrap ErrInvalid,
// ErrUnavailable or ErrOtherCluster, or are a *BeyondEndError or an *ExpiredError.
// On a follower a start position that has not arrived yet is awaited for a moment.
func (e *Engine) Subscribe(ctx context.Context, q SubscribeRequest) (*Subscription, error) {
	filters, err := topic.ParseFilters(q.Filters...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	v := e.machine.FSM.View()
	if v.Genesis.Cluster == (raftfsm.ClusterID{}) {
		return nil, fmt.Errorf("%w: %s", ErrUnavailable, e.NotReady())
	}
	if q.Cluster != (raftfsm.ClusterID{}) && q.Cluster != v.Genesis.Cluster {
		return nil, fmt.Errorf("%w: it is of %x, this is %x", ErrOtherCluster, q.Cluster, v.Genesis.Cluster)
	}
	oldest := max(e.history.Oldest(), e.machine.FSM.Floors().Oldest(filters.Canonical()))
	after, err := e.startOf(ctx, q, oldest)
	if err != nil {
		return nil, err
	}
	s := &Subscription{After: after, Oldest: oldest, Filters: filters.Canonical(), untilTip: q.UntilTip, parsed: filters, pace: &e.Pace}
	if q.UntilTip {
		s.Until = max(e.End(), q.Until, after)
	}
	s.source = e.source()
	s.cursor = recovery.NewCursor(s.source, filters, after)
	s.explain = e.upkeep.Explain
	return s, nil
}

// startOf is the seq behind which the subscription starts.
func (e *Engine) startOf(ctx context.Context, q SubscribeRequest, oldest uint64) (uint64, error) {
	switch {
	case q.FromTip:
		return e.End(), nil
	case q.FromOldest:
		return oldest - 1, nil
	case q.FromTime > 0:
		after, err := e.history.SeekTime(q.FromTime)
		if errors.Is(err, segments.ErrNotHere) {
			return 0, fmt.Errorf("%w: %w", ErrUnavailable, e.upkeep.Explain(err))
		}
		return max(after, oldest-1), err
	}
	if q.After < oldest-1 {
		return 0, &ExpiredError{After: q.After, Oldest: oldest}
	}
	return q.After, e.arrived(ctx, q.After)
}

// arrived waits until seq is on this node, or says that it is not.
func (e *Engine) arrived(ctx context.Context, seq uint64) error {
	if seq <= e.End() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, arrivalWait)
	defer cancel()
	if _, leads := e.leading.Now(); leads {
		// Who led a moment ago may have been deposed without knowing, and a follower
		// may have applied what this node has only committed. A barrier settles both.
		_, err := e.command(ctx, nil)
		if seq <= e.End() {
			return nil
		}
		return &BeyondEndError{After: seq, End: e.End(), Final: err == nil}
	}
	if e.tip.Wait(ctx, seq-1) == nil {
		return nil
	}
	return &BeyondEndError{After: seq, End: e.End()}
}

// Wait returns nil when Next would not block, or the context's error. A subscriber
// at the live end waits here, so that it holds no buffer meanwhile.
func (s *Subscription) Wait(ctx context.Context) error {
	if s.ended() {
		return nil
	}
	return s.source.Tip.Wait(ctx, s.cursor.Position())
}

func (s *Subscription) ended() bool { return s.untilTip && s.cursor.Position() >= s.Until }

// Next appends padded records to dst, up to limit bytes (at least one message if
// there is one), as recovery.Cursor.Next; io.EOF once everything up to Until was
// considered. Errors of the history are segments.ErrExpired, ErrNotHere and
// ErrCorrupt; the others are the context's.
func (s *Subscription) Next(ctx context.Context, dst []byte, limit int) ([]byte, message.Progress, error) {
	if s.ended() {
		return dst, message.Progress{Scanned: s.Position()}, io.EOF
	}
	start, looked, begin := len(dst), s.cursor.BytesLooked(), time.Now()
	dst, p, err := s.cursor.Next(ctx, dst, limit)
	if s.cursor.InHistory() {
		s.pace.Files(s.cursor.BytesLooked()-looked, time.Since(begin))
	} else {
		s.pace.Memory(int64(len(dst)-start), time.Since(begin))
	}
	if s.untilTip && p.Scanned > s.Until {
		dst, p.Count = upTo(dst, start, s.Until)
		p.Scanned = s.Until
	}
	return dst, p, s.explain(err)
}

// Explain gives take, part by part, what the subscription would read to come from its
// start to Until, as far as that is on this node. Errors are those of Next, and take's.
func (s *Subscription) Explain(take func(recovery.Part) error) error {
	return s.source.Explain(s.parsed, s.After, s.Until, take)
}

// upTo cuts what follows message until off the records dst[start:] and counts the
// rest.
func upTo(dst []byte, start int, until uint64) ([]byte, int) {
	count := 0
	for rest := dst[start:]; len(rest) > 0; count++ {
		r, tail, err := message.Split(rest)
		if err != nil {
			panic(fmt.Sprintf("a cursor delivered bytes that are no records: %v", err))
		}
		if r.Seq() > until {
			return dst[:len(dst)-len(rest)], count
		}
		rest = tail
	}
	return dst, count
}

// Floors are those that explain what the reads since the last call left out, as far as they
// were not given before; see recovery.Cursor.News.
func (s *Subscription) Floors() []retention.Floor { return s.cursor.News() }

// Position is the last seq considered: the resume position.
func (s *Subscription) Position() uint64 {
	if s.untilTip {
		return min(s.cursor.Position(), s.Until)
	}
	return s.cursor.Position()
}

// Close releases the subscription.
func (s *Subscription) Close() { s.cursor.Close() }
