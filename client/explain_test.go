package client

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"chorale/api"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// explainer answers Explain by a function.
type explainer struct {
	*fakeNode
	answer func(*api.SubscribeRequest, grpc.ServerStreamingServer[api.ExplainResponse]) error
}

func (e explainer) Explain(q *api.SubscribeRequest, s grpc.ServerStreamingServer[api.ExplainResponse]) error {
	return e.answer(q, s)
}

// TestExplain: the first node that answers at all explains; what was asked is what a
// subscription asks.
func TestExplain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		hang := func(_ *api.SubscribeRequest, s grpc.ServerStreamingServer[api.ExplainResponse]) error {
			<-s.Context().Done()
			return s.Context().Err()
		}
		answer := func(q *api.SubscribeRequest, s grpc.ServerStreamingServer[api.ExplainResponse]) error {
			if start, ok := q.Start.(*api.SubscribeRequest_AfterSeq); !ok || start.AfterSeq != 7 || len(q.Filters) != 1 || q.Filters[0] != "a/**" {
				return status.Error(codes.InvalidArgument, q.String())
			}
			if err := s.Send(&api.ExplainResponse{Opened: &api.Opened{AfterSeq: 7}}); err != nil {
				return err
			}
			return s.Send(&api.ExplainResponse{Total: &api.ExplainTotal{Nanos: 3}})
		}
		for i, f := range []func(*api.SubscribeRequest, grpc.ServerStreamingServer[api.ExplainResponse]) error{hang, answer, answer} {
			c.nodes[i].stop()
			c.nodes[i].startAs(explainer{c.nodes[i], f})
		}
		cl := c.dial(t, Options{StallAfter: time.Second})
		for range 3 { // each node has its turn
			var all []*api.ExplainResponse
			for r, err := range cl.Explain(ctx, SubscribeOptions{Filters: []string{"a/**", "a/b"}, From: AfterSeq(7)}) {
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, r)
			}
			if len(all) != 2 || all[0].Opened.GetAfterSeq() != 7 || all[1].Total.GetNanos() != 3 {
				t.Fatal(all)
			}
		}
		for _, o := range []SubscribeOptions{{}, {Filters: []string{"a"}}} {
			for r, err := range cl.Explain(ctx, o) {
				if r != nil || !errors.Is(err, ErrInvalid) {
					t.Errorf("%v: %v, %v", o.Filters, r, err)
				}
			}
		}
	})
}
