package source

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"chorale/api"
	"chorale/client"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a server that gives what it is told to.
type node struct {
	api.UnimplementedPeerServer
	api.UnimplementedClusterServer
	id      string
	state   []string // its pieces; "!" breaks off
	refuses error
	file    string
	breaks  int // a file breaks off before this byte, if it is above 0
	asked   int
}

func (n *node) ReadState(_ *api.ReadStateRequest, s grpc.ServerStreamingServer[api.ReadStateResponse]) error {
	n.asked++
	if n.refuses != nil {
		return n.refuses
	}
	if err := s.Send(&api.ReadStateResponse{NodeId: n.id}); err != nil {
		return err
	}
	for _, piece := range n.state {
		if piece == "!" {
			return status.Error(codes.Unavailable, "the node ends")
		}
		if err := s.Send(&api.ReadStateResponse{Data: []byte(piece)}); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) FetchFile(q *api.FetchFileRequest, s grpc.ServerStreamingServer[api.FetchFileResponse]) error {
	n.asked++
	if n.file == "" {
		return status.Error(codes.NotFound, "no such file")
	}
	for i := int(q.Offset); i < len(n.file); i++ {
		if n.breaks > 0 && i >= n.breaks {
			return status.Error(codes.Unavailable, "the node ends")
		}
		if err := s.Send(&api.FetchFileResponse{Data: []byte(n.file[i : i+1]), Size: uint64(len(n.file))}); err != nil {
			return err
		}
	}
	return nil
}

// serve runs the nodes, and is a source of them.
func serve(t *testing.T, all ...*node) *Source {
	t.Helper()
	var addresses []string
	for _, n := range all {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := grpc.NewServer(api.ServerOptions()...)
		api.RegisterClusterServer(s, n)
		api.RegisterPeerServer(s, n)
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(l) }()
		t.Cleanup(func() { s.Stop(); <-ended })
		addresses = append(addresses, l.Addr().String())
	}
	from, err := Dial(addresses, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { from.Close() })
	return from
}

// TestState: one node's state, whole; another is asked only where the first gave nothing.
func TestState(t *testing.T) {
	refuses := &node{refuses: status.Error(codes.Unavailable, "not ready")}
	from := serve(t, refuses, &node{id: "b", state: []string{"st", "ate"}})
	for range 4 { // whoever is asked first
		var w bytes.Buffer
		if id, err := from.State(t.Context(), &w); err != nil || id != "b" || w.String() != "state" {
			t.Fatalf("%q of %q: %v", w.String(), id, err)
		}
	}
	var w bytes.Buffer
	from = serve(t, &node{id: "a", state: []string{"st", "!"}}, &node{id: "b", state: []string{"st", "!"}})
	if _, err := from.State(t.Context(), &w); !errors.Is(err, client.ErrUnavailable) || !strings.Contains(err.Error(), "broke off: the node ends") || w.String() != "st" {
		t.Errorf("a state that breaks off: %q, %v", w.String(), err)
	}
	from = serve(t, refuses)
	if _, err := from.State(t.Context(), &w); !errors.Is(err, client.ErrUnavailable) || !strings.Contains(err.Error(), "not ready") {
		t.Errorf("nobody serves: %v", err)
	}
	old := serve(t, &node{refuses: status.Error(codes.Unimplemented, "unknown method ReadState")})
	if _, err := old.State(t.Context(), &w); err == nil || !strings.Contains(err.Error(), "an earlier version runs there") {
		t.Errorf("an earlier version: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := from.State(ended, &w); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %v", err)
	}
}

// TestFile: where one node breaks off another goes on at the same byte; what all say that
// they have not is gone, and what one cannot tell is not.
func TestFile(t *testing.T) {
	const file = "a data file"
	without, breaks, whole := &node{}, &node{file: file, breaks: 4}, &node{file: file}
	from := serve(t, without, breaks, whole)
	for range 6 {
		var w bytes.Buffer
		if err := from.File(t.Context(), []byte{1}, &w); err != nil || w.String() != file {
			t.Fatalf("%q: %v", w.String(), err)
		}
	}
	if without.asked == 0 || breaks.asked == 0 {
		t.Error("always the same node was asked")
	}
	var w bytes.Buffer
	if err := serve(t, without, &node{}).File(t.Context(), []byte{1}, &w); !errors.Is(err, ErrGone) {
		t.Errorf("gone: %v", err)
	}
	if err := serve(t, without, breaks).File(t.Context(), []byte{1}, &w); errors.Is(err, ErrGone) || !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("one breaks off: %v", err)
	}
	full := errors.New("disk full")
	if err := serve(t, whole, whole).File(t.Context(), []byte{1}, failing{full}); !errors.Is(err, full) {
		t.Errorf("a writer that fails: %v", err)
	}
}

type failing struct{ error }

func (f failing) Write([]byte) (int, error) { return 0, f.error }
