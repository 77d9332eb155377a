// Package compare holds the messages of two clusters against each other.
package compare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"chorale/api"
	"chorale/client"
	"chorale/cmd/settings"
	"chorale/cmd/show"
	"chorale/retention"
)

// Side is one of the two clusters.
type Side struct {
	Name   string // its address, for a person
	Client *client.Client
	status *api.GetStatusResponse
}

// Result is what was compared: messages First to Last of both, none if Last is less.
type Result struct {
	First, Last uint64
	Bytes       int64 // of payloads
	// Gone are those of them that the rules of subtrees have let go, on one side at least.
	Gone uint64
	// Clusters and Kept are of the sides, in order: ids, and the seqs that each has.
	Clusters [2]string
	Kept     [2][2]uint64
}

// Difference is the first message that is not the same.
type Difference struct {
	Seq  uint64
	What string
}

// Error says which, and what differs.
func (d *Difference) Error() string { return fmt.Sprintf("message %d: %s", d.Seq, d.What) }

// Messages reads the streams of two clusters and compares every message that both keep,
// up to a seq, 0 for the end of the shorter one: seq, seq of the topic's message before,
// time, topic, headers, payload. The error is a *Difference, one of usage where the sides
// are of the same cluster, or one of the client. It does not wait for ever: see patience.
func Messages(ctx context.Context, a, b Side, to uint64, watch *Watch) (Result, error) {
	r := Result{First: 1}
	for i, s := range []*Side{&a, &b} {
		var err error
		if s.status, err = s.Client.Status(ctx, ""); err != nil {
			return r, err
		}
		oldest, last := s.status.OldestSeq, s.status.LastSeq
		if to > last {
			return r, fmt.Errorf("%s has messages up to seq %s: --to %d is more", s.Name, show.Count(last), to)
		}
		r.Clusters[i], r.Kept[i] = s.status.ClusterId, [2]uint64{oldest, last}
		r.First = max(r.First, oldest)
		if i == 0 || last < r.Last {
			r.Last = last
		}
	}
	if err := distinct(a, b); err != nil {
		return r, err
	}
	if to > 0 {
		r.Last = to
	}
	if r.Last < r.First {
		return r, nil
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watch.stop = stop
	err := r.read(ctx, a, b, watch)
	if cause := context.Cause(ctx); errors.Is(err, context.Canceled) && errors.As(cause, new(*gaveUp)) {
		err = cause
	}
	return r, err
}

// distinct refuses to compare a cluster with itself: that it is the same proves nothing.
func distinct(a, b Side) error {
	id := a.status.ClusterId
	if id == "" || id != b.status.ClusterId {
		return nil
	}
	return settings.Usagef("%s and %s are of the same cluster, %s: name nodes of another one with --against; without it chorale verify compares the nodes of this one",
		a.Name, b.Name, id)
}

// stream is a subscription that is read message by message.
type stream struct {
	*client.Subscription
	side   Side
	next   *client.Delivery // read, and not asked for yet
	floors *retention.Floors
}

// open subscribes, and to the cluster of the status only: a node that did not answer
// before may be of any.
func (r *Result) open(ctx context.Context, s Side, w *Watch) (stream, error) {
	from := client.Position{Cluster: s.status.ClusterId, Seq: r.First - 1, Filters: []string{"**"}}
	sub, err := s.Client.Subscribe(ctx, client.SubscribeOptions{From: client.Resume(from), UntilTip: true, OnWait: w.of(s)})
	return stream{Subscription: sub, side: s}, err
}

func (r *Result) read(ctx context.Context, a, b Side, w *Watch) error {
	x, err := r.open(ctx, a, w)
	if err != nil {
		return err
	}
	defer x.Close()
	y, err := r.open(ctx, b, w)
	if err != nil {
		return err
	}
	defer y.Close()
	for seq := r.First; seq <= r.Last; seq++ {
		m, err := x.at(ctx, seq)
		if err != nil {
			return err
		}
		n, err := y.at(ctx, seq)
		if err != nil {
			return err
		}
		if m == nil || n == nil {
			if err := r.lacking(ctx, seq, &x, m, &y, n); err != nil {
				return err
			}
			continue
		}
		if what := differ(*m, *n); what != "" {
			return &Difference{seq, fmt.Sprintf("%s: at %s %s, at %s %s", what, x.side.Name, brief(*m), y.side.Name, brief(*n))}
		}
		r.Bytes += int64(len(m.Payload))
		if seq%1024 == 0 {
			w.Progress(int64(seq - r.First))
		}
	}
	return nil
}

// at is the message with that seq, nil if the stream goes on behind it.
func (s *stream) at(ctx context.Context, seq uint64) (*client.Delivery, error) {
	if s.next == nil {
		d, err := s.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		s.next = &d
	}
	if s.next.Seq != seq {
		return nil, nil
	}
	d := s.next
	s.next = nil
	return d, nil
}

// lacking judges a seq of which a side has no message: a Difference, unless a floor of that side
// explains it. That one is missing on both sides the client has proved to be explained.
func (r *Result) lacking(ctx context.Context, seq uint64, x *stream, m *client.Delivery, y *stream, n *client.Delivery) error {
	lacks, d := y, m
	if m == nil {
		lacks, d = x, n
	}
	if d != nil {
		gone, err := lacks.gone(ctx, d.Topic, seq)
		if err != nil {
			return err
		}
		if !gone {
			return &Difference{seq, "it is missing at " + lacks.side.Name}
		}
	}
	r.Gone++
	return nil
}

// gone reports whether a message of a topic has gone, as the side says now.
func (s *stream) gone(ctx context.Context, topic string, seq uint64) (bool, error) {
	if s.floors.Of(topic) > seq {
		return true, nil
	}
	kept, err := s.side.Client.Retention(ctx)
	if err != nil {
		return false, err
	}
	var floors []retention.Floor
	for _, f := range kept.Floors {
		floors = append(floors, retention.Floor{Filter: f.Filter, Seq: f.Seq})
	}
	s.floors = retention.NewFloors(floors)
	return s.floors.Of(topic) > seq, nil
}

// differ says what is not the same; "" if all is.
func differ(m, n client.Delivery) string {
	sameHeader := func(a, b client.Header) bool { return a.Key == b.Key && bytes.Equal(a.Value, b.Value) }
	switch {
	case m.Topic != n.Topic:
		return "the topics differ"
	case !m.Time.Equal(n.Time):
		return "the times differ"
	case m.Prev != n.Prev:
		return "the messages before it in the topic differ"
	case !slices.EqualFunc(m.Headers, n.Headers, sameHeader):
		return "the headers differ"
	case !bytes.Equal(m.Payload, n.Payload):
		return "the payloads differ"
	}
	return ""
}

func brief(d client.Delivery) string {
	return fmt.Sprintf("(%s, %s, after %d, %d bytes)", d.Topic, d.Time.UTC().Format("2006-01-02T15:04:05.999999999Z"), d.Prev, len(d.Payload))
}
