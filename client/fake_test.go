package client

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"chorale/api"
	"chorale/message"
	"chorale/topic"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
)

// seeds is how many random histories each property test goes through; -run with
// one's name and number repeats it.
var seeds = flag.Uint64("seeds", 30, "histories of the property tests")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeCluster is the naive model of a cluster: a slice of records and a table of
// producers, the same for all its nodes.
type fakeCluster struct {
	id           string
	nodes        []*fakeNode
	payloadLimit int

	script sync.Mutex // orders the hooks; taken before mu

	mu        sync.Mutex
	records   []message.Record // records[i] has seq i+1
	names     []string
	ids       map[string]uint32
	last      map[uint32]uint64 // topic id -> last seq
	producers map[ProducerID][]*decided
	grown     chan struct{} // closed and made anew with every append
	late      [][]byte      // copies that some node still holds
}

type decided struct {
	outcome  *api.Outcome
	messages int
}

func newCluster(t testing.TB, nodes int) *fakeCluster {
	c := &fakeCluster{
		id: "c1", ids: map[string]uint32{}, last: map[uint32]uint64{}, payloadLimit: message.DefaultPayloadLimit,
		producers: map[ProducerID][]*decided{}, grown: make(chan struct{}),
	}
	for i := range nodes {
		n := &fakeNode{cluster: c, name: fmt.Sprintf("node%d", i)}
		n.start()
		t.Cleanup(n.stop)
		c.nodes = append(c.nodes, n)
	}
	return c
}

// dial connects a client to the nodes, and to others that do not answer.
func (c *fakeCluster) dial(t testing.TB, o Options, others ...string) *Client {
	t.Helper()
	var addresses []string
	for _, n := range c.nodes {
		addresses = append(addresses, "passthrough:///"+n.name)
	}
	for _, a := range others {
		addresses = append(addresses, "passthrough:///"+a)
	}
	o.DialOptions = append(o.DialOptions, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		for _, n := range c.nodes {
			if n.name == address && !n.down.Load() {
				return n.listener.DialContext(ctx)
			}
		}
		return nil, errors.New("connection refused")
	}))
	cl, err := Dial(addresses, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cl.Close(); err != nil {
			t.Error(err)
		}
	})
	return cl
}

// store appends a message without a producer.
func (c *fakeCluster) store(name string, payload string) {
	var b message.Builder
	b.Add(0, message.Entry{Topic: name, Draft: message.Draft{Payload: []byte(payload)}})
	if _, err := c.apply(b.Encode(nil, ProducerID{})); err != nil {
		panic(err)
	}
}

// apply is what the state machine does with a batch.
func (c *fakeCluster) apply(encoded []byte) (out []*api.Outcome, refused *api.PublishError) {
	b, err := message.ParseBatch(encoded)
	if err != nil {
		return nil, &api.PublishError{Kind: api.PublishError_INVALID, Message: err.Error()}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for rest := b.Records; len(rest) > 0; {
		var unit []message.Record
		for left := 1; left > len(unit); {
			var r message.Record
			r, rest, _ = message.Split(rest)
			unit = append(unit, r)
			if len(unit) == 1 {
				left = r.UnitLeft()
			}
			if len(r.Payload()) > c.payloadLimit {
				return nil, &api.PublishError{Kind: api.PublishError_INVALID, Message: "payload too large", PayloadLimit: uint64(c.payloadLimit)}
			}
		}
		out = append(out, c.unit(b, unit))
	}
	close(c.grown)
	c.grown = make(chan struct{})
	return out, nil
}

func (c *fakeCluster) unit(b message.Batch, unit []message.Record) *api.Outcome {
	number := unit[0].Number()
	history := c.producers[b.Producer]
	switch next := uint64(len(history)) + 1; {
	case b.Producer == ProducerID{}:
	case next == 1 && number != 1:
		return &api.Outcome{Kind: api.Outcome_PRODUCER_UNKNOWN, Units: 1}
	case number > next:
		return &api.Outcome{Kind: api.Outcome_NUMBER_GAP, Seq: next, Units: 1}
	case number < next:
		o := history[number-1].outcome
		if o.Kind == api.Outcome_STORED {
			return &api.Outcome{Kind: api.Outcome_DUPLICATE, Seq: o.Seq, Units: 1}
		}
		return o
	}
	out := &api.Outcome{Kind: api.Outcome_STORED, Seq: uint64(len(c.records)) + 1, Units: 1}
	for i, r := range unit {
		if want, ok := r.Expected(); ok {
			if got := c.last[c.topic(string(b.Topics[r.Topic()]))]; got != want {
				out = &api.Outcome{Kind: api.Outcome_CONDITION_FAILED, Seq: got, Index: uint32(i), Units: 1}
				break
			}
		}
	}
	if out.Kind == api.Outcome_STORED {
		for _, r := range unit {
			id, seq := c.topic(string(b.Topics[r.Topic()])), uint64(len(c.records))+1
			stored := slices.Clone(r)
			stored.Stamp(id, seq, c.last[id], int64(seq)*1000)
			c.records, c.last[id] = append(c.records, stored), seq
		}
	}
	if b.Producer != (ProducerID{}) {
		c.producers[b.Producer] = append(history, &decided{out, len(unit)})
	}
	return out
}

func (c *fakeCluster) topic(name string) uint32 {
	id, ok := c.ids[name]
	if !ok {
		id = uint32(len(c.names))
		c.ids[name], c.names = id, append(c.names, name)
	}
	return id
}

// applyLate applies the oldest copy that was held back.
func (c *fakeCluster) applyLate() {
	c.mu.Lock()
	var batch []byte
	if len(c.late) > 0 {
		batch, c.late = c.late[0], c.late[1:]
	}
	c.mu.Unlock()
	if batch != nil {
		c.apply(batch)
	}
}

// forget drops all producers.
func (c *fakeCluster) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.producers)
}

// payloads lists the stored payloads in order.
func (c *fakeCluster) payloads() (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.records {
		out = append(out, string(r.Payload()))
	}
	return out
}

// errMute makes a node send nothing more, without ending the stream.
var errMute = errors.New("mute")

// fakeNode is one node; its hooks misbehave.
type fakeNode struct {
	api.UnimplementedStreamServer
	cluster  *fakeCluster
	name     string
	listener *bufconn.Listener
	server   *grpc.Server
	served   chan error
	down     atomic.Bool
	options  []grpc.ServerOption // beside the usual ones

	// onBatch is asked what to do with a batch; nil means take.
	onBatch func() verdict
	// onFrame may change a response, or return an error to end the stream (io.EOF: in
	// peace).
	onFrame func(m *api.SubscribeResponse) error
	// onSubscribe may refuse a subscription.
	onSubscribe func(r *api.SubscribeRequest) error
	// lag is how many of the newest messages the node does not know.
	lag atomic.Int64
	// frameMessages bounds the messages of a response; 0 means 100.
	frameMessages int
}

// verdict is what becomes of a batch and its answer.
type verdict int

const (
	take      verdict = iota // stored and answered
	cutBefore                // the stream breaks; not stored
	cutAfter                 // stored, but the stream breaks before the answer
	cutLate                  // the stream breaks; a copy is stored at some later time
	busy                     // UNAVAILABLE
	unknown                  // stored, answered UNKNOWN
	mute                     // stored, never answered
	confused                 // stored, answered under another id
	short                    // stored, answered with an outcome too few
	overtaken                // stored, answered behind the next batch's answer
	verdicts
)

func (n *fakeNode) start() { n.startAs(n) }

// startAs serves the node's connections with another implementation.
func (n *fakeNode) startAs(impl api.StreamServer) {
	n.listener = bufconn.Listen(1 << 20)
	n.server = grpc.NewServer(append(api.ServerOptions(), n.options...)...)
	n.served = make(chan error, 1)
	n.down.Store(false)
	api.RegisterStreamServer(n.server, impl)
	go func(s *grpc.Server, l net.Listener, served chan error) { served <- s.Serve(l) }(n.server, n.listener, n.served)
}

// stop breaks all connections.
func (n *fakeNode) stop() {
	if !n.down.Load() {
		n.down.Store(true)
		n.server.Stop()
		<-n.served
	}
}

func (n *fakeNode) Publish(s grpc.BidiStreamingServer[api.PublishRequest, api.PublishResponse]) error {
	var held []*api.PublishResponse
	for {
		var f api.BatchFrame
		if err := s.RecvMsg(&f); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		batch := slices.Clone(f.BatchBytes())
		f.Release()
		do := n.judge()
		r := &api.PublishResponse{Id: f.ID}
		switch do {
		case cutBefore:
			return status.Error(codes.Unavailable, "cut")
		case cutLate:
			n.cluster.mu.Lock()
			n.cluster.late = append(n.cluster.late, batch)
			n.cluster.mu.Unlock()
			return status.Error(codes.Unavailable, "cut")
		case busy:
			r.Error = &api.PublishError{Kind: api.PublishError_UNAVAILABLE, Message: "busy"}
		default:
			r.Outcomes, r.Error = n.cluster.apply(batch)
		}
		switch do {
		case cutAfter:
			return status.Error(codes.Unavailable, "cut")
		case unknown:
			r.Outcomes, r.Error = nil, &api.PublishError{Kind: api.PublishError_UNKNOWN, Message: "unknown"}
		case mute:
			<-s.Context().Done()
			return s.Context().Err()
		case confused:
			r.Id++
		case short:
			r.Outcomes = r.Outcomes[:max(len(r.Outcomes)-1, 0)]
		}
		if do == overtaken {
			held = append(held, r)
			continue
		}
		for _, r := range append([]*api.PublishResponse{r}, held...) {
			if err := s.Send(r); err != nil {
				return err
			}
		}
		held = nil
	}
}

// judge asks the hook, one batch of the cluster at a time.
func (n *fakeNode) judge() verdict {
	n.cluster.script.Lock()
	defer n.cluster.script.Unlock()
	if n.onBatch == nil {
		return take
	}
	return n.onBatch()
}

// misbehave sets the hook of a node that may be running.
func (n *fakeNode) misbehave(f func() verdict) {
	n.cluster.script.Lock()
	defer n.cluster.script.Unlock()
	n.onBatch = f
}

// known is how far this node knows the stream, and a channel that tells of more.
func (n *fakeNode) known() (records []message.Record, names []string, grown chan struct{}) {
	c := n.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	end := max(0, len(c.records)-int(n.lag.Load()))
	return c.records[:end], slices.Clone(c.names), c.grown
}

func (n *fakeNode) Subscribe(r *api.SubscribeRequest, s grpc.ServerStreamingServer[api.SubscribeResponse]) error {
	if n.onSubscribe != nil {
		if err := n.onSubscribe(r); err != nil {
			return err
		}
	}
	filters, err := topic.ParseFilters(r.Filters...)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	records, _, _ := n.known()
	after, tip := uint64(0), uint64(len(records))
	switch start := r.Start.(type) {
	case *api.SubscribeRequest_AfterSeq:
		after = start.AfterSeq
	case *api.SubscribeRequest_FromTip:
		after = tip
	case *api.SubscribeRequest_FromTime:
		for after < tip && records[after].Time() < start.FromTime {
			after++
		}
	}
	if after > tip {
		return status.Errorf(codes.OutOfRange, "the stream ends with seq %d", tip)
	}
	if r.ClusterId != "" && r.ClusterId != n.cluster.id {
		st, err := status.Newf(codes.FailedPrecondition, "this is cluster %s", n.cluster.id).WithDetails(&errdetails.ErrorInfo{Reason: "OTHER_CLUSTER"})
		return cmp.Or(err, st.Err())
	}
	first := &api.SubscribeResponse{TipSeq: tip, Opened: &api.Opened{
		ClusterId: n.cluster.id, NodeId: n.name, Filters: filters.Canonical(), AfterSeq: after, UntilSeq: tip, OldestSeq: 1}}
	return n.deliver(r, s, first, filters)
}

func (n *fakeNode) deliver(r *api.SubscribeRequest, s grpc.ServerStreamingServer[api.SubscribeResponse], m *api.SubscribeResponse, f *topic.Filters) error {
	after, until, told := m.Opened.AfterSeq, m.Opened.UntilSeq, map[uint32]bool{}
	for {
		if n.onFrame != nil {
			switch err := n.onFrame(m); err {
			case nil:
			case errMute:
				<-s.Context().Done()
				return s.Context().Err()
			case io.EOF:
				return nil
			default:
				return err
			}
		}
		if err := s.Send(m); err != nil {
			return err
		}
		if r.UntilTip && after >= until {
			return nil
		}
		records, names, grown := n.known()
		for after == uint64(len(records)) {
			select {
			case <-grown:
			case <-s.Context().Done():
				return s.Context().Err()
			}
			records, names, grown = n.known()
		}
		m = &api.SubscribeResponse{TipSeq: uint64(len(records))}
		limit := n.frameMessages
		if limit == 0 {
			limit = 100
		}
		end := uint64(len(records))
		if r.UntilTip {
			end = until
		}
		for ; after < end && limit > 0; after++ {
			rec := records[after]
			name := names[rec.Topic()]
			if !f.Match(name) {
				continue
			}
			if !told[rec.Topic()] {
				told[rec.Topic()] = true
				m.Topics = append(m.Topics, &api.TopicName{Id: rec.Topic(), Name: name})
			}
			m.Records = message.AppendPadded(m.Records, rec)
			limit--
		}
		m.ScannedSeq = after
	}
}

func (n *fakeNode) ListTopics(r *api.ListTopicsRequest, s grpc.ServerStreamingServer[api.ListTopicsResponse]) error {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	names := slices.Sorted(slices.Values(n.cluster.names))
	for _, name := range names {
		t := &api.TopicStats{Name: name, LastSeq: n.cluster.last[n.cluster.ids[name]]}
		if err := s.Send(&api.ListTopicsResponse{Topics: []*api.TopicStats{t}}); err != nil {
			return err
		}
	}
	return nil
}

func (n *fakeNode) GetStatus(context.Context, *api.GetStatusRequest) (*api.GetStatusResponse, error) {
	return &api.GetStatusResponse{NodeId: n.name, ClusterId: n.cluster.id}, nil
}

func (n *fakeNode) GetProducer(_ context.Context, r *api.GetProducerRequest) (*api.GetProducerResponse, error) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	if len(r.ProducerId) != 16 {
		return nil, status.Errorf(codes.InvalidArgument, "producer id %s", hex.EncodeToString(r.ProducerId))
	}
	return &api.GetProducerResponse{LastNumber: uint64(len(n.cluster.producers[ProducerID(r.ProducerId)]))}, nil
}
