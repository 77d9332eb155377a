package imports

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"chorale/api"
	"chorale/client"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// electing is a node that knows no leader for so many questions.
type electing struct {
	api.UnimplementedStreamServer
	questions int
}

func (e *electing) GetProducer(context.Context, *api.GetProducerRequest) (*api.GetProducerResponse, error) {
	if e.questions--; e.questions >= 0 {
		return nil, status.Error(codes.Unavailable, "no leader")
	}
	return &api.GetProducerResponse{LastNumber: 7}, nil
}

// TestImportWaitsForALeader: an import that starts during an election is not lost,
// and one without hope ends after its timeout.
func TestImportWaitsForALeader(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	node := &electing{questions: 5}
	server := grpc.NewServer()
	api.RegisterStreamServer(server, node)
	go server.Serve(l)
	defer server.Stop()
	c, err := client.Dial([]string{l.Addr().String()}, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	p := &command{timeout: time.Minute}
	var told []string
	hear := func(w client.Wait) { told = append(told, w.String()) }
	var last uint64
	ask := func() (err error) {
		last, err = c.LastNumber(t.Context(), client.ProducerID{1})
		return err
	}
	if err := p.await(t.Context(), hear, ask); last != 7 || err != nil {
		t.Errorf("after an election: %d, %v", last, err)
	}
	if want := []string{"waiting: no node available: node " + l.Addr().String() + ": no leader; trying again", "going on"}; !slices.EqualFunc(told, want, strings.HasPrefix) {
		t.Errorf("told %q, want %q", told, want)
	}
	node.questions = 1 << 30
	p.timeout = time.Millisecond
	if err := p.await(t.Context(), nil, ask); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("without hope: %v", err)
	}
}
