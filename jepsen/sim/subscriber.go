package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"chorale/jepsen/history"
	"chorale/jepsen/sim/limits"
	"chorale/message"
	"chorale/node/engine"
	"chorale/segments"
)

// subscriber reads in sessions, each on a drawn node, each from where the last one
// ended. For one goroutine.
type subscriber struct {
	c       *cluster
	id      int
	rng     *rand.Rand
	filters []string
	start   engine.SubscribeRequest // of the first session
	started bool
	at      uint64 // the resume position
	slow    time.Duration
}

func (c *cluster) subscriber(id int, filters []string) *subscriber {
	s := &subscriber{c: c, id: id, rng: c.rng("subscriber", id), filters: filters}
	switch s.rng.IntN(6) {
	case 0:
		s.start.FromTip = true
	case 1:
		s.start.FromTime = c.begin.Add(time.Duration(s.rng.IntN(20)) * time.Second).UnixNano()
	case 2:
		s.slow = 300 * time.Millisecond
	}
	return s
}

// run reads until ctx ends.
func (s *subscriber) run(ctx context.Context) {
	for ctx.Err() == nil {
		s.session(ctx, s.c.machines[s.rng.IntN(nodes)], time.Duration(s.rng.Int64N(int64(4*time.Second))), 0)
		time.Sleep(time.Duration(s.rng.Int64N(int64(500 * time.Millisecond))))
	}
}

// probes is the first of the readers that probe makes.
const probes = 1_000_000

// probe reads many short stretches, each of which begins at a place where one part
// of the product hands over to another, or anywhere, until ctx ends.
func (c *cluster) probe(ctx context.Context, number int) {
	rng := c.rng("probe", number)
	for i := 0; ctx.Err() == nil; i++ {
		m := c.machines[rng.IntN(nodes)]
		if p := m.process(); p != nil {
			end := p.engine.End()
			start := uint64(rng.Int64N(int64(end) + 1))
			if near := int64(p.engine.Floor()) - 10 + rng.Int64N(50); near >= 0 && rng.IntN(4) > 0 {
				start = min(uint64(near), end)
			}
			s := &subscriber{
				c: c, id: probes*(number+1) + i, rng: rng, filters: pick(rng, filterSets...),
				start: engine.SubscribeRequest{After: start},
			}
			s.session(ctx, m, 50*time.Millisecond, 0)
		}
		time.Sleep(time.Duration(rng.Int64N(int64(100 * time.Millisecond))))
	}
}

// reach reads from one machine until the resume position is to; false if it does
// not come that far in time.
func (s *subscriber) reach(m *machine, to uint64, within time.Duration) bool {
	for deadline := time.Now().Add(within); s.at < to; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
		s.session(context.Background(), m, time.Until(deadline), to)
	}
	return true
}

// session reads from one machine for a while, or up to a position if that is set.
func (s *subscriber) session(ctx context.Context, m *machine, length time.Duration, to uint64) {
	p := m.process()
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	go func() {
		select {
		case <-p.down:
			cancel()
		case <-ctx.Done():
		}
	}()
	q := s.start
	if s.started {
		q = engine.SubscribeRequest{After: s.at}
	}
	q.Filters, q.UntilTip = s.filters, to == 0 && s.rng.IntN(4) == 0
	gone := limits.Floors(p.engine.Subtrees().Floors.List())
	sub, err := p.engine.Subscribe(ctx, q)
	if err != nil {
		s.refused(ctx, m, q, err)
		return
	}
	defer sub.Close()
	r := history.Read{Reader: s.id, Node: m.name, Filters: s.filters, Oldest: sub.Oldest, After: sub.After, To: sub.After, Gone: gone}
	if !s.started {
		r.FromTime = q.FromTime
	}
	s.started = true
	err = s.read(ctx, p, sub, &r, to)
	s.c.rec.Read(r)
	s.at = r.To
	if errors.Is(err, segments.ErrExpired) {
		s.overtaken(m, err)
	}
}

// again is what a reader's number grows by when it begins anew.
const again = 1_000_000_000

// overtaken is for a reader whose next message has expired: it begins anew with what is
// left, as another reader.
func (s *subscriber) overtaken(m *machine, err error) {
	if !s.c.plan.retained && !s.c.plan.ruled {
		s.c.found("bad-read", "reader %d on %s behind %d: %v, although everything is kept", s.id, m.name, s.at, err)
	}
	s.c.saw("a reader was overtaken by the retention")
	s.id += again
	s.started, s.at, s.start = false, 0, engine.SubscribeRequest{FromOldest: true}
}

// read fills r with what the subscription delivers, until there is no more, or an error
// that the caller may judge.
func (s *subscriber) read(ctx context.Context, p *process, sub *engine.Subscription, r *history.Read, to uint64) error {
	limit := 1 << (6 + s.rng.IntN(9))
	for ctx.Err() == nil && (to == 0 || r.To < to) {
		b, progress, err := sub.Next(ctx, nil, limit)
		if !p.reachable() {
			return nil
		}
		ms, bad := s.decode(p, b, progress)
		if bad != nil {
			s.c.found("bad-read", "reader %d on %s behind %d: %v", s.id, r.Node, r.To, bad)
			return nil
		}
		r.Floors = append(r.Floors, limits.Floors(sub.Floors())...)
		r.Messages, r.To = append(r.Messages, ms...), max(r.To, progress.Scanned)
		switch {
		case errors.Is(err, io.EOF):
			if r.To != sub.Until {
				s.c.found("bad-read", "reader %d on %s ends at %d, until %d was promised", s.id, r.Node, r.To, sub.Until)
			}
			return nil
		case errors.Is(err, segments.ErrExpired):
			return err
		case errors.Is(err, segments.ErrNotHere), ctx.Err() != nil, err != nil && p.m.isExcused():
			return nil
		case err != nil:
			s.c.found("bad-read", "reader %d on %s behind %d: %v", s.id, r.Node, r.To, err)
			return nil
		}
		s.c.lagging(p.engine, r.To)
		if s.slow > 0 {
			time.Sleep(time.Duration(s.rng.Int64N(int64(s.slow))))
		}
	}
	return nil
}

// reachable reports whether clients are still connected to the process.
func (p *process) reachable() bool {
	select {
	case <-p.down:
		return false
	default:
		return true
	}
}

// decode checks delivered records and makes messages of them.
func (s *subscriber) decode(p *process, b []byte, progress message.Progress) (out []history.Message, err error) {
	for rest := b; len(rest) > 0; {
		var r message.Record
		if r, rest, err = message.Split(rest); err != nil {
			return nil, err
		}
		if err := r.Check(); err != nil {
			return nil, err
		}
		out = append(out, history.Message{
			Seq: r.Seq(), Prev: r.Prev(), Time: r.Time(), Topic: p.engine.TopicName(r.Topic()), Body: slices.Clone(r.Body()),
		})
	}
	if len(out) != progress.Count || len(out) > 0 && out[len(out)-1].Seq > progress.Scanned {
		return nil, fmt.Errorf("%d messages up to %v with progress %+v", len(out), out[len(out)-1], progress)
	}
	return out, nil
}

// refused judges a subscription that did not start.
func (s *subscriber) refused(ctx context.Context, m *machine, q engine.SubscribeRequest, err error) {
	var beyond *engine.BeyondEndError
	var expired *engine.ExpiredError
	switch {
	case errors.As(err, &expired):
		s.overtaken(m, err)
	case ctx.Err() != nil, errors.Is(err, engine.ErrUnavailable), errors.Is(err, segments.ErrNotHere), m.isExcused():
	case errors.As(err, &beyond) && !beyond.Final: // a follower that lags
	default:
		s.c.found("bad-subscribe", "reader %d on %s behind %d: %v", s.id, m.name, q.After, err)
	}
}
