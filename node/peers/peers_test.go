package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"chorale/api"
	"chorale/node/engine"
	"chorale/node/server"
	"chorale/raftfsm"
	"chorale/segments"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeNode answers as its test wants.
type fakeNode struct {
	api.UnimplementedStreamServer
	api.UnimplementedPeerServer
	publish func(grpc.BidiStreamingServer[api.PublishRequest, api.PublishResponse]) error
	file    []byte
	breakAt int  // FetchFile fails there, if above 0
	damaged bool // since it cannot read on
	early   bool // it knows nothing of lengths
}

func (f *fakeNode) Publish(s grpc.BidiStreamingServer[api.PublishRequest, api.PublishResponse]) error {
	return f.publish(s)
}

func (f *fakeNode) GetStatus(context.Context, *api.GetStatusRequest) (*api.GetStatusResponse, error) {
	return &api.GetStatusResponse{LastSeq: 7}, nil
}

func (f *fakeNode) FetchFile(q *api.FetchFileRequest, s grpc.ServerStreamingServer[api.FetchFileResponse]) error {
	if f.file == nil {
		return status.Error(codes.NotFound, "not here")
	}
	end := len(f.file)
	if !f.early {
		end = min(end, int(q.Offset+q.Length))
	}
	for at := int(q.Offset); at < end; at += 10 {
		if f.breakAt > 0 && at >= f.breakAt && f.damaged {
			return status.Error(codes.DataLoss, "bad sector")
		}
		if f.breakAt > 0 && at >= f.breakAt {
			return status.Error(codes.Unavailable, "broken off")
		}
		if err := s.Send(&api.FetchFileResponse{Data: f.file[at:min(at+10, end)], Size: uint64(len(f.file))}); err != nil {
			return err
		}
	}
	return nil
}

// fakeDirectory maps ids to addresses.
type fakeDirectory struct {
	addresses map[raft.ServerID]string
	order     []raft.ServerID
}

func (d *fakeDirectory) API(id raft.ServerID) (string, bool) { a, ok := d.addresses[id]; return a, ok }
func (d *fakeDirectory) Others() []raft.ServerID             { return d.order }

// serve runs fake nodes and returns peers that reach them as a, b, c ...
func serve(t *testing.T, nodes ...*fakeNode) (*Peers, *fakeDirectory) {
	t.Helper()
	d := &fakeDirectory{addresses: map[raft.ServerID]string{}}
	for i, n := range nodes {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := grpc.NewServer(api.ServerOptions()...)
		api.RegisterStreamServer(s, n)
		api.RegisterPeerServer(s, n)
		served := make(chan struct{})
		go func() { defer close(served); s.Serve(l) }()
		t.Cleanup(func() { s.Stop(); <-served })
		id := raft.ServerID(rune('a' + i))
		d.addresses[id], d.order = l.Addr().String(), append(d.order, id)
	}
	p := New(d, hclog.NewNullLogger())
	t.Cleanup(p.Close)
	return p, d
}

type answer struct {
	outcomes []raftfsm.Outcome
	err      error
}

// submit passes on count batches and returns their answers in the order in which
// they came.
func submit(p *Peers, leader raft.ServerID, count int) []answer {
	answers := make(chan answer, count)
	for i := range count {
		p.Submit(context.Background(), leader, fmt.Appendf(nil, "batch %d", i), func(o []raftfsm.Outcome, err error) { answers <- answer{o, err} })
	}
	out := make([]answer, count)
	for i := range out {
		out[i] = <-answers
	}
	return out
}

// TestForward: batches arrive in order, marked, and their answers go back to them.
func TestForward(t *testing.T) {
	p, _ := serve(t, &fakeNode{publish: func(s grpc.BidiStreamingServer[api.PublishRequest, api.PublishResponse]) error {
		if md, _ := metadata.FromIncomingContext(s.Context()); len(md.Get(server.ForwardedKey)) == 0 {
			return status.Error(codes.Internal, "not marked")
		}
		for i := 0; ; i++ {
			q, err := s.Recv()
			if err != nil {
				return err
			}
			if want := fmt.Sprintf("batch %d", i); string(q.Batch) != want {
				return status.Errorf(codes.Internal, "got %q, want %q", q.Batch, want)
			}
			r := &api.PublishResponse{Id: q.Id, Outcomes: []*api.Outcome{{Kind: api.Outcome_STORED, Seq: uint64(i + 1), Units: 3}}}
			switch i {
			case 1:
				r = &api.PublishResponse{Id: q.Id, Error: &api.PublishError{Kind: api.PublishError_INVALID, Message: "bad"}}
			case 2:
				r = &api.PublishResponse{Id: q.Id, Error: &api.PublishError{Kind: api.PublishError_UNAVAILABLE, Message: "no"}}
			case 3:
				r = &api.PublishResponse{Id: q.Id, Error: &api.PublishError{Kind: api.PublishError_UNKNOWN, Message: "lost"}}
			}
			if err := s.Send(r); err != nil {
				return err
			}
		}
	}})
	for i, a := range submit(p, "a", 500) {
		want := map[int]error{1: engine.ErrInvalid, 2: engine.ErrUnavailable, 3: engine.ErrUnknown}[i]
		if !errors.Is(a.err, want) {
			t.Fatalf("batch %d: %v, want %v", i, a.err, want)
		}
		if stored := (raftfsm.Outcome{Kind: raftfsm.Stored, Seq: uint64(i + 1), Units: 3}); want == nil && (len(a.outcomes) != 1 || a.outcomes[0] != stored) {
			t.Fatalf("batch %d: %v", i, a.outcomes)
		}
	}
}

// TestForwardBreaks: what was sent and not answered is unknown; the next batch goes
// over a new stream; a node that cannot be reached stored nothing.
func TestForwardBreaks(t *testing.T) {
	streams := 0
	p, d := serve(t, &fakeNode{publish: func(s grpc.BidiStreamingServer[api.PublishRequest, api.PublishResponse]) error {
		streams++
		for i := 0; ; i++ {
			q, err := s.Recv()
			if err != nil {
				return err
			}
			if streams == 1 && i == 2 {
				return status.Error(codes.Unavailable, "gone")
			}
			if err := s.Send(&api.PublishResponse{Id: q.Id}); err != nil {
				return err
			}
		}
	}})
	got := submit(p, "a", 3)
	if got[0].err != nil || got[1].err != nil || !errors.Is(got[2].err, engine.ErrUnknown) {
		t.Errorf("%v", got)
	}
	if got := submit(p, "a", 2); got[0].err != nil || got[1].err != nil {
		t.Errorf("on a new stream: %v", got)
	}
	if got := submit(p, "z", 1); !errors.Is(got[0].err, engine.ErrUnavailable) {
		t.Errorf("a node that nobody knows: %v", got)
	}
	d.addresses["b"] = "127.0.0.1:1"
	if got := submit(p, "b", 1); !errors.Is(got[0].err, engine.ErrUnavailable) {
		t.Errorf("a node that is down: %v", got)
	}
}

// TestForwardWrongAnswer: an answer out of turn breaks the stream, and nobody gets
// the answer of another.
func TestForwardWrongAnswer(t *testing.T) {
	p, _ := serve(t, &fakeNode{publish: func(s grpc.BidiStreamingServer[api.PublishRequest, api.PublishResponse]) error {
		q, err := s.Recv()
		if err == nil {
			err = s.Send(&api.PublishResponse{Id: q.Id + 1})
		}
		if err == nil {
			_, err = s.Recv()
		}
		return err
	}})
	if got := submit(p, "a", 1); !errors.Is(got[0].err, engine.ErrUnknown) {
		t.Errorf("%v", got)
	}
}

// TestClose: what is open is answered before Close returns, and nothing is taken
// after it.
func TestClose(t *testing.T) {
	arrived := make(chan struct{}, 1)
	p, _ := serve(t, &fakeNode{publish: func(s grpc.BidiStreamingServer[api.PublishRequest, api.PublishResponse]) error {
		_, err := s.Recv()
		arrived <- struct{}{}
		<-s.Context().Done()
		return err
	}})
	var got error
	p.Submit(context.Background(), "a", []byte("x"), func(_ []raftfsm.Outcome, err error) { got = err })
	<-arrived
	p.Close()
	if !errors.Is(got, engine.ErrUnknown) {
		t.Errorf("open at Close: %v", got)
	}
	if got := submit(p, "a", 1); !errors.Is(got[0].err, engine.ErrUnavailable) {
		t.Errorf("after Close: %v", got)
	}
}

// TestFetch: a piece is a piece, of a node of an earlier version it is the rest, and what
// breaks off is told.
func TestFetch(t *testing.T) {
	file := bytes.Repeat([]byte("0123456789"), 10)
	without, broken, whole := &fakeNode{}, &fakeNode{file: file, breakAt: 30}, &fakeNode{file: file}
	p, _ := serve(t, without, broken, whole, &fakeNode{file: file, early: true})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, c := range []struct {
		from           raft.ServerID
		offset, length int64
		want           []byte
		err            error
	}{
		{"a", 5, 20, nil, segments.ErrNotHere},
		{"b", 5, 20, file[5:25], nil},
		{"b", 5, 40, file[5:35], status.Error(codes.Unavailable, "broken off")},
		{"c", 5, 40, file[5:45], nil},
		{"c", 90, 20, file[90:], io.ErrUnexpectedEOF},
		{"d", 5, 40, file[5:], nil},
		{"z", 5, 40, nil, engine.ErrUnavailable},
	} {
		var got bytes.Buffer
		err := p.Fetch(ctx, c.from, segments.Hash{1}, c.offset, c.length, &got)
		if !bytes.Equal(got.Bytes(), c.want) || !errors.Is(err, c.err) && status.Code(err) != status.Code(c.err) {
			t.Errorf("%s from %d, %d bytes: %q, %v", c.from, c.offset, c.length, got.Bytes(), err)
		}
	}
	if got := p.Others(); !slices.Equal(got, []raft.ServerID{"a", "b", "c", "d"}) {
		t.Errorf("others: %v", got)
	}
}

// TestSalvage: a damaged copy is given as far as it goes; where it is cut, or cannot be read
// on, is told as damage by Fetch.
func TestSalvage(t *testing.T) {
	file := bytes.Repeat([]byte("0123456789"), 10)
	p, _ := serve(t, &fakeNode{}, &fakeNode{file: file}, &fakeNode{file: file, breakAt: 30, damaged: true})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, c := range []struct {
		from                 raft.ServerID
		offset, length       int64
		want                 []byte
		salvageErr, fetchErr error
	}{
		{"a", 5, 20, nil, segments.ErrNotHere, segments.ErrNotHere},
		{"b", 5, 20, file[5:25], nil, nil},
		{"b", 90, 20, file[90:], nil, segments.ErrCorrupt},
		{"b", 200, 20, nil, nil, segments.ErrCorrupt},
		{"c", 20, 20, file[20:30], segments.ErrCorrupt, segments.ErrCorrupt},
	} {
		var salvaged, fetched bytes.Buffer
		err := p.Salvage(ctx, c.from, segments.Hash{1}, c.offset, c.length, &salvaged)
		if !bytes.Equal(salvaged.Bytes(), c.want) || !errors.Is(err, c.salvageErr) {
			t.Errorf("salvage from %s at %d: %q, %v", c.from, c.offset, salvaged.Bytes(), err)
		}
		err = p.Fetch(ctx, c.from, segments.Hash{1}, c.offset, c.length, &fetched)
		if !bytes.Equal(fetched.Bytes(), c.want) || !errors.Is(err, c.fetchErr) {
			t.Errorf("fetch from %s at %d: %q, %v", c.from, c.offset, fetched.Bytes(), err)
		}
	}
}

// TestStatus: a new address of a node is used at once.
func TestStatus(t *testing.T) {
	p, d := serve(t, &fakeNode{})
	address := d.addresses["a"]
	for _, at := range []string{"127.0.0.1:1", address} {
		d.addresses["a"] = at
		st, err := p.Status(t.Context(), "a")
		if at == address && (err != nil || st.LastSeq != 7) || at != address && err == nil {
			t.Errorf("%s: %v, %v", at, st, err)
		}
	}
	if _, err := p.Producer(t.Context(), "z", &api.GetProducerRequest{}); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}
