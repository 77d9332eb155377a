package client

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chorale/api"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func topics(t *testing.T, c *Client) (names []string, last error) {
	for s, err := range c.Topics(ctx) {
		if err != nil {
			return names, err
		}
		names = append(names, s.Name)
	}
	return names, nil
}

func TestCallsFindALivingNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := filled(t, 1, 20)
		cl := c.dial(t, Options{}, "dead1", "dead2")
		if n := len(cl.Addresses()); n != 3 {
			t.Fatal(n)
		}
		for range 5 {
			if s, err := cl.Status(ctx, ""); err != nil || s.ClusterId != "c1" {
				t.Fatal(s, err)
			}
			if names, err := topics(t, cl); err != nil || !slices.Equal(names, []string{"t/0", "t/1", "t/2", "t/3", "t/4", "u"}) {
				t.Fatal(names, err)
			}
			if n, err := cl.LastNumber(ctx, ProducerID{1}); n != 0 || err != nil {
				t.Fatal(n, err)
			}
		}
		if s, err := cl.Status(ctx, "passthrough:///node0"); err != nil || s.NodeId != "node0" {
			t.Fatal(s, err)
		}
		if _, err := cl.Status(ctx, "passthrough:///dead1"); !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		if _, err := cl.Status(ctx, "other"); !errors.Is(err, ErrInvalid) {
			t.Fatal(err)
		}
	})
}

func TestNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, 0).dial(t, Options{}, "dead1", "dead2")
		begin := time.Now()
		if _, err := cl.Status(ctx, ""); !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		if _, err := topics(t, cl); !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		if time.Since(begin) > time.Second {
			t.Fatal(time.Since(begin))
		}
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if _, err := cl.Subscribe(short, SubscribeOptions{Filters: []string{"**"}}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "connection refused") {
			t.Fatal(err)
		}
	})
}

// hangingTopics answers the first page of topics and no more.
type hangingTopics struct{ *fakeNode }

func (hangingTopics) ListTopics(_ *api.ListTopicsRequest, s grpc.ServerStreamingServer[api.ListTopicsResponse]) error {
	if err := s.Send(&api.ListTopicsResponse{Topics: []*api.TopicStats{{Name: "a"}}}); err != nil {
		return err
	}
	<-s.Context().Done()
	return s.Context().Err()
}

func TestTopicsDoNotHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.nodes[0].stop()
		c.nodes[0].startAs(hangingTopics{c.nodes[0]})
		names, err := topics(t, c.dial(t, Options{StallAfter: time.Second}))
		if !slices.Equal(names, []string{"a"}) || !errors.Is(err, ErrUnavailable) {
			t.Fatal(names, err)
		}
	})
}

func TestDeniedIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		deny := grpc.WithChainStreamInterceptor(func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, grpc.Streamer, ...grpc.CallOption) (grpc.ClientStream, error) {
			return nil, status.Error(codes.PermissionDenied, "no")
		})
		cl := c.dial(t, Options{DialOptions: []grpc.DialOption{deny}})
		if _, err := cl.Subscribe(ctx, SubscribeOptions{Filters: []string{"**"}}); !errors.Is(err, ErrDenied) {
			t.Fatal(err)
		}
		p := publisher(t, cl, PublisherOptions{})
		if _, err := p.Publish(ctx, Message{Topic: "a"}).Wait(ctx); !errors.Is(err, ErrUnpublished) || !errors.Is(err, ErrDenied) {
			t.Fatal(err)
		}
	})
}

func TestAClosedClientTakesNothing(t *testing.T) {
	c := newCluster(t, 1)
	c.nodes[0].onBatch = func() verdict { return mute }
	cl := c.dial(t, Options{})
	p := publisher(t, cl, PublisherOptions{})
	s := subscribe(t, cl, SubscribeOptions{Filters: []string{"**"}})
	open := p.Publish(ctx, Message{Topic: "a"})
	if err := cl.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-open.Done():
	default:
		t.Fatal("a result is open although nobody is left to resolve it")
	}
	if err := p.Flush(ctx); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if _, err := p.Publish(ctx, Message{Topic: "a"}).Wait(ctx); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	_, err := s.Next(ctx)
	if err == nil { // the message had come before
		_, err = s.Next(ctx)
	}
	if !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := cl.Publisher(PublisherOptions{}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := cl.Subscribe(ctx, SubscribeOptions{Filters: []string{"**"}}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestBadDials(t *testing.T) {
	for name, addresses := range map[string][]string{"none": nil, "bad": {"dns:///%zz"}} {
		if _, err := Dial(addresses, Options{}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// sayingStatus answers the question for its status with an error, and counts.
type sayingStatus struct {
	*fakeNode
	err   error
	asked *atomic.Int32
}

func (s sayingStatus) GetStatus(context.Context, *api.GetStatusRequest) (*api.GetStatusResponse, error) {
	s.asked.Add(1)
	return nil, s.err
}

// TestTheTellingError: where nobody can, what a node has said goes before what kept others
// from being asked, whoever is asked last; and what may have been done is not done twice.
func TestTheTellingError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told, err := status.New(codes.Unavailable, "there is no majority").WithDetails(&errdetails.ErrorInfo{Reason: "UNAVAILABLE"})
		if err != nil {
			t.Fatal(err)
		}
		c := newCluster(t, 2)
		says := func(err error) *atomic.Int32 {
			asked := new(atomic.Int32)
			for _, n := range c.nodes {
				n.stop()
				n.startAs(sayingStatus{n, err, asked})
			}
			return asked
		}
		says(told.Err())
		c.nodes[1].stop()
		for range 10 {
			cl := c.dial(t, Options{}, "dead1", "dead2")
			if _, err := cl.Status(ctx, ""); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "there is no majority") {
				t.Fatal(err)
			}
		}
		asked := says(api.Unknown("it has lost its majority"))
		if _, err := c.dial(t, Options{}).Status(ctx, ""); !errors.Is(err, ErrUncertain) || !strings.HasSuffix(err.Error(), ": it has lost its majority") {
			t.Fatal(err)
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("%d nodes were asked for what may have been done", n)
		}
	})
}
