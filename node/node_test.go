package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"chorale/api"
	"chorale/message"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
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
	return api.NewStreamClient(conn(t, address))
}

func conn(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, append(api.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestCluster: three nodes found a cluster, what is published to each of them is
// delivered by each of them, and each can be asked about the whole.
func TestCluster(t *testing.T) {
	t.Parallel()
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
	case <-time.After(patience):
		t.Fatal("not ready in time")
	}
	var producer message.ProducerID
	for i, n := range nodes {
		producer = publish(t, dial(t, n.API), fmt.Sprintf("app/n%d", i), "hello from "+n.ID)
	}
	for _, n := range nodes {
		got := recoverAll(t, dial(t, n.API))
		if len(got) != 3 {
			t.Errorf("node %s delivers %q", n.ID, got)
		}
		c := dial(t, n.API)
		// Every node knows the end of the stream and the numbers of producers: the
		// leader does, the others ask it.
		err := settled(func() error {
			stream, err := c.Subscribe(t.Context(), &api.SubscribeRequest{Filters: []string{"**"}, Start: &api.SubscribeRequest_AfterSeq{AfterSeq: 4}})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		})
		if status.Code(err) != codes.OutOfRange || !strings.Contains(err.Error(), "the end of the stream: the newest is 3, so at most 4 is possible") {
			t.Errorf("node %s, beyond the end: %v", n.ID, err)
		}
		var r *api.GetProducerResponse
		err = settled(func() (err error) {
			r, err = c.GetProducer(t.Context(), &api.GetProducerRequest{ProducerId: producer[:]})
			return err
		})
		if err != nil || r.LastNumber != 1 {
			t.Errorf("node %s knows the producer as %v, %v", n.ID, r, err)
		}
		var st *api.GetStatusResponse
		for st.GetLeaderId() == "" {
			if st, err = c.GetStatus(t.Context(), &api.GetStatusRequest{}); err != nil || len(st.Members) != 3 {
				t.Fatalf("node %s: %v, %v", n.ID, st, err)
			}
		}
		for i, m := range st.Members {
			if m.NodeId != nodes[i].ID || !m.Voter || m.Gossip != "alive" || m.ApiAddress != nodes[i].API || m.HttpAddress != nodes[i].HTTP || m.Leader != (m.NodeId == st.LeaderId) {
				t.Errorf("node %s says of %s: %v", n.ID, nodes[i].ID, m)
			}
		}
	}
}

// settled asks until the answer is another than that nobody leads at the moment.
func settled(ask func() error) error {
	for deadline := time.Now().Add(patience); ; <-time.After(50 * time.Millisecond) {
		if err := ask(); status.Code(err) != codes.Unavailable || time.Now().After(deadline) {
			return err
		}
	}
}

// publish stores one message for sure and once: a busy machine may lose its leader
// at any time.
func publish(t *testing.T, c api.StreamClient, topic, payload string) message.ProducerID {
	t.Helper()
	producer := message.ProducerID(uuid.New())
	var b message.Builder
	b.Add(1, message.Entry{Topic: topic, Draft: message.Draft{Payload: []byte(payload)}})
	batch := b.Encode(nil, producer)
	deadline := time.Now().Add(patience)
	for {
		r, err := try(t, c, batch)
		if err == nil && r.Error == nil {
			if k := r.Outcomes[0].Kind; k != api.Outcome_STORED && k != api.Outcome_DUPLICATE {
				t.Fatalf("published to %s: %v", topic, r)
			}
			return producer
		}
		if time.Now().After(deadline) || r.GetError().GetKind() == api.PublishError_INVALID {
			t.Fatalf("published to %s: %v, %v", topic, r, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// try sends one batch over a stream of its own.
func try(t *testing.T, c api.StreamClient, batch []byte) (*api.PublishResponse, error) {
	t.Helper()
	stream, err := c.Publish(t.Context())
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(&api.BatchFrame{ID: 7, Batch: mem.SliceBuffer(batch)}); err != nil {
		return nil, err
	}
	r, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	if r.Id != 7 {
		t.Errorf("batch 7 was answered as %d", r.Id)
	}
	stream.CloseSend()
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last answer: %v", err)
	}
	return r, nil
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
