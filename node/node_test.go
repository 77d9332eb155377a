package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"chorale/api"
	"chorale/message"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
)

// testLog passes the nodes' log to the test's.
type testLog struct {
	t  *testing.T
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *testLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *testLog) dumpIfFailed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.t.Failed() {
		l.t.Log(l.b.String())
	}
}

func dial(t *testing.T, address string) api.StreamClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, append(api.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return api.NewStreamClient(conn)
}

// TestCluster: three nodes found a cluster, a batch published to each of them is
// delivered by each of them.
func TestCluster(t *testing.T) {
	log := &testLog{t: t}
	defer log.dumpIfFailed()
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan []Addresses, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- RunDev(ctx, Dev{Nodes: 3, Dir: t.TempDir(), LogLevel: "debug", LogOutput: log, Ready: func(a []Addresses) { ready <- a }})
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	var nodes []Addresses
	select {
	case nodes = <-ready:
	case err := <-ended:
		t.Fatal(err)
	case <-time.After(30 * time.Second):
		t.Fatal("not ready in 30 s")
	}
	for i, n := range nodes {
		publish(t, dial(t, n.API), fmt.Sprintf("app/n%d", i), "hello from "+n.ID)
	}
	for _, n := range nodes {
		got := recoverAll(t, dial(t, n.API))
		if len(got) != 3 {
			t.Errorf("node %s delivers %q", n.ID, got)
		}
	}
}

func publish(t *testing.T, c api.StreamClient, topic, payload string) uint64 {
	t.Helper()
	stream, err := c.Publish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var b message.Builder
	b.Add(0, message.Entry{Topic: topic, Draft: message.Draft{Payload: []byte(payload)}})
	if err := stream.SendMsg(&api.BatchFrame{ID: 7, Batch: mem.SliceBuffer(b.Encode(nil, message.ProducerID{}))}); err != nil {
		t.Fatal(err)
	}
	r, err := stream.Recv()
	if err != nil || r.Error != nil || r.Id != 7 {
		t.Fatalf("published to %s: %v, %v", topic, r, err)
	}
	stream.CloseSend()
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Fatalf("after the last answer: %v", err)
	}
	return r.Outcomes[0].Seq
}

func recoverAll(t *testing.T, c api.StreamClient) (payloads []string) {
	t.Helper()
	stream, err := c.Subscribe(t.Context(), &api.SubscribeRequest{Filters: []string{"**"}, UntilTip: true})
	if err != nil {
		t.Fatal(err)
	}
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return payloads
		}
		if err != nil {
			t.Fatal(err)
		}
		for rest := r.Records; len(rest) > 0; {
			var rec message.Record
			if rec, rest, err = message.Split(rest); err != nil {
				t.Fatal(err)
			}
			payloads = append(payloads, string(rec.Payload()))
		}
	}
}
