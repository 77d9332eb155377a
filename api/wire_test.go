package api

import (
	"bytes"
	"context"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wireNode answers a subscription with `frames` frames of `size` bytes, and a
// publish with the length of each batch.
type wireNode struct {
	UnimplementedStreamServer
	frames, size int
	plain        bool
}

func (n *wireNode) Subscribe(_ *SubscribeRequest, s grpc.ServerStreamingServer[SubscribeResponse]) error {
	if !n.plain {
		if err := s.SendMsg(&Frame{Opened: &Opened{ClusterId: "c"}}); err != nil {
			return err
		}
	}
	source := bytes.Repeat([]byte("records!"), n.size/8)
	for i := range n.frames {
		b := Buffers.Get(n.size)
		copy(*b, source) // what a cursor does: the copy out of the tip
		var err error
		if n.plain {
			err = s.Send(&SubscribeResponse{Records: *b, ScannedSeq: uint64(i + 1), TipSeq: 9})
			Buffers.Put(b)
		} else {
			f := Frame{Records: mem.NewBuffer(b, Buffers), ScannedSeq: uint64(i + 1), TipSeq: 9}
			err = s.SendMsg(&f)
			f.Release()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (n *wireNode) Publish(s grpc.BidiStreamingServer[PublishRequest, PublishResponse]) error {
	for {
		var f BatchFrame
		if err := s.RecvMsg(&f); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		n := len(f.BatchBytes())
		f.Release()
		if err := s.Send(&PublishResponse{Id: f.ID, Outcomes: []*Outcome{{Seq: uint64(n)}}}); err != nil {
			return err
		}
	}
}

// connect serves the node on loopback and dials it.
func connect(t testing.TB, n *wireNode, serve []grpc.ServerOption, dial []grpc.DialOption) StreamClient {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(serve...)
	RegisterStreamServer(server, n)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), append(dial, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return NewStreamClient(conn)
}

// plainOptions are ours without the codec: what a generated client has.
func plainOptions() ([]grpc.ServerOption, []grpc.DialOption) {
	return ServerOptions()[1:], append(DialOptions()[1:], grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessageBytes)))
}

func TestGeneratedClientReadsFrames(t *testing.T) {
	_, dial := plainOptions()
	c := connect(t, &wireNode{frames: 3, size: 100 << 10}, ServerOptions(), dial)
	s, err := c.Subscribe(context.Background(), &SubscribeRequest{})
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.Recv()
	if err != nil || first.GetOpened().GetClusterId() != "c" {
		t.Fatalf("%v, %v", first, err)
	}
	for i := range 3 {
		m, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		want := &SubscribeResponse{Records: bytes.Repeat([]byte("records!"), 100<<10/8), ScannedSeq: uint64(i + 1), TipSeq: 9}
		if !proto.Equal(m, want) {
			t.Fatalf("frame %d differs", i)
		}
	}
	if _, err := s.Recv(); err != io.EOF {
		t.Fatal(err)
	}
}

func TestBatchesCrossInBothForms(t *testing.T) {
	c := connect(t, &wireNode{}, ServerOptions(), DialOptions())
	s, err := c.Publish(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range []int{1, 1000, 70_000, 20 << 20} {
		f := BatchFrame{ID: uint64(i), Batch: wrap(make([]byte, n))}
		if i%2 == 0 {
			err = s.SendMsg(&f)
		} else {
			err = s.Send(&PublishRequest{Id: f.ID, Batch: f.BatchBytes()})
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Release()
		r, err := s.Recv()
		if err != nil || r.Id != uint64(i) || r.Outcomes[0].Seq != uint64(n) {
			t.Fatalf("batch %d: %v, %v", i, r, err)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); err != io.EOF {
		t.Fatal(err)
	}
}

// BenchmarkWire moves frames of 256 KiB over loopback gRPC, with the codec and
// with generated code on both sides. Server and client share the process, so
// cpu-s/GB is of both together.
func BenchmarkWire(b *testing.B) {
	const size = 256 << 10
	for _, plain := range []bool{true, false} {
		name := map[bool]string{true: "plain", false: "codec"}[plain]
		b.Run(name, func(b *testing.B) {
			serve, dial := ServerOptions(), DialOptions()
			if plain {
				serve, dial = plainOptions()
			}
			n := &wireNode{size: size, plain: plain}
			c := connect(b, n, serve, dial)
			n.frames = b.N
			b.SetBytes(size)
			b.ReportAllocs()
			before := cpu(b)
			s, err := c.Subscribe(context.Background(), &SubscribeRequest{})
			if err != nil {
				b.Fatal(err)
			}
			var f Frame
			for err == nil {
				if plain {
					_, err = s.Recv()
				} else {
					err = s.RecvMsg(&f)
				}
			}
			if err != io.EOF {
				b.Fatal(err)
			}
			f.Release()
			b.ReportMetric((cpu(b)-before).Seconds()/(float64(b.N)*size/1e9), "cpu-s/GB")
		})
	}
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
