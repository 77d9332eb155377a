package server

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"chorale/api"
	"chorale/message"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// explain reads an explanation to its end, and holds it to the rules of every one.
func (r *rig) explain(q *api.SubscribeRequest) (*api.Opened, []*api.ExplainPart, *api.ExplainTotal, error) {
	r.t.Helper()
	stream, err := r.client.Explain(r.t.Context(), q)
	if err != nil {
		return nil, nil, nil, err
	}
	var opened *api.Opened
	var parts []*api.ExplainPart
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil, nil, nil, err
		}
		if (opened == nil) != (m.Opened != nil) {
			r.t.Fatalf("opened is %v behind %d parts", m.Opened, len(parts))
		}
		if m.Opened != nil {
			opened = m.Opened
		}
		parts = append(parts, m.Parts...)
		if m.Total == nil {
			continue
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			r.t.Errorf("behind the total: %v", err)
		}
		return opened, parts, m.Total, nil
	}
}

// TestExplain: the parts of a subscription over files and the tip, and their total, say
// what it then delivers; once the node has read, its own rate counts.
func TestExplain(t *testing.T) {
	r := newRig(t, true)
	for range 60 { // 1.9 MiB, the ring holds one
		r.publish(strings.Repeat("x", 8000), "a/b/1", "a/b/2", "c/1", "c/2")
	}
	r.until("files are there", func() bool {
		s := r.engine.Status()
		return s.History.Files > 5 && s.History.DurableEnd+1 >= s.Tip.Floor
	})
	for _, q := range []*api.SubscribeRequest{
		{Filters: []string{"**"}}, {Filters: []string{"a/**", "a/b/1"}}, {Filters: []string{"c/2", "none"}, Start: &api.SubscribeRequest_AfterSeq{AfterSeq: 50}},
		{Filters: []string{"**"}, Start: &api.SubscribeRequest_FromTip{FromTip: true}},
	} {
		opened, parts, total, err := r.explain(q)
		if err != nil {
			t.Fatal(err)
		}
		at, nanos, sources := opened.AfterSeq, int64(0), ""
		for _, p := range parts {
			if p.FirstSeq != at+1 {
				t.Errorf("%q: a part from %d behind %d", q.Filters, p.FirstSeq, at)
			}
			if s := p.Source.String() + " "; !strings.HasSuffix(sources, s) {
				sources += s
			}
			at, nanos = p.LastSeq, nanos+p.Nanos
		}
		if at != 240 || nanos != total.Nanos || total.FileRate.Measured || total.FileRate.BytesPerSecond == 0 || total.MemoryRate.BytesPerSecond == 0 {
			t.Errorf("%q: parts to %d, %d ns, %v", q.Filters, at, nanos, total)
		}
		if want := "SEGMENT TIP "; sources != want && opened.AfterSeq < 240 {
			t.Errorf("%q comes from %s, want %s", q.Filters, sources, want)
		}
		q.UntilTip = true
		g, err := r.drain(q)
		n := uint64(len(g.lines))
		size := n * uint64(message.Stride(message.HeadBytes+1+8000))
		if err != nil || n < total.Messages.Low || n > total.Messages.High || size < total.Bytes.Low || size > total.Bytes.High ||
			q.Start == nil && n != total.Messages.Estimate {
			t.Errorf("%q: %d messages of %d bytes came, told was %v: %v", q.Filters, n, size, total, err)
		}
		if n := total.FileBytes.Estimate; n > 0 && total.DecodedAmplification != float64(total.DecodedBytes.Estimate)/float64(n) ||
			(n > 0) != (total.ReadAmplification > 0) {
			t.Errorf("%q: %v", q.Filters, total)
		}
	}
	for range 20 {
		if _, err := r.drain(&api.SubscribeRequest{Filters: []string{"**"}, UntilTip: true}); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, total, err := r.explain(&api.SubscribeRequest{Filters: []string{"**"}}); err != nil || !total.FileRate.Measured || !total.MemoryRate.Measured {
		t.Errorf("after 20 MiB from each side: %v, %v", total, err)
	}
}

// TestExplainRefused: the errors are those of a subscription.
func TestExplainRefused(t *testing.T) {
	r := newRig(t, true)
	r.publish("x", "a")
	for want, q := range map[codes.Code]*api.SubscribeRequest{
		codes.InvalidArgument:    {Filters: []string{"a//b"}},
		codes.OutOfRange:         {Filters: []string{"a"}, Start: &api.SubscribeRequest_AfterSeq{AfterSeq: 2}},
		codes.FailedPrecondition: {Filters: []string{"a"}, ClusterId: fmt.Sprintf("%032x", 1)},
	} {
		q.UntilTip = true
		_, _, _, err := r.explain(q)
		_, other := r.drain(q)
		if status.Code(err) != want || err.Error() != other.Error() {
			t.Errorf("%v: %v, a subscription: %v", q, err, other)
		}
	}
	if _, _, _, err := newRig(t, false).explain(&api.SubscribeRequest{Filters: []string{"a"}}); status.Code(err) != codes.Unavailable {
		t.Errorf("not ready: %v", err)
	}
}
