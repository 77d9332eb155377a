package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"chorale/api"
	"chorale/disk"
	"chorale/message"
	"chorale/node/engine"
	"chorale/node/engine/roster"
	"chorale/raftfsm"
	"chorale/segments"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

// rig is a server before an engine in memory.
type rig struct {
	files   *disk.Mem
	t       *testing.T
	server  *Server
	engine  *engine.Engine
	client  api.StreamClient
	peer    api.PeerClient
	health  grpc_health_v1.HealthClient
	mu      sync.Mutex
	members func() []*api.MemberStatus
	cutOff  string // what the node says of its readiness, beside the engine
}

// alone is the Peers and Leader of a node without others.
type alone struct{}

func (alone) Submit(_ context.Context, _ raft.ServerID, _ []byte, done func([]raftfsm.Outcome, error)) {
	done(nil, engine.ErrUnavailable)
}
func (alone) Others() []raft.ServerID { return nil }

func (alone) Fetch(context.Context, raft.ServerID, segments.Hash, int64, int64, io.Writer) error {
	return errors.New("nobody is there")
}

func (alone) Salvage(context.Context, raft.ServerID, segments.Hash, int64, int64, io.Writer) error {
	return errors.New("nobody is there")
}

func (alone) Status(context.Context, raft.ServerID) (*api.GetStatusResponse, error) {
	return nil, errors.New("nobody is there")
}
func (alone) Producer(context.Context, raft.ServerID, *api.GetProducerRequest) (*api.GetProducerResponse, error) {
	return nil, errors.New("nobody is there")
}

func (alone) Retention(context.Context, raft.ServerID, *api.GetRetentionRequest) (*api.GetRetentionResponse, error) {
	return nil, errors.New("nobody is there")
}

func (alone) SetRetention(context.Context, raft.ServerID, *api.SetRetentionRequest) (*api.SetRetentionResponse, error) {
	return nil, errors.New("nobody is there")
}

func (alone) SetRules(context.Context, raft.ServerID, *api.SetRulesRequest) (*api.SetRulesResponse, error) {
	return nil, errors.New("nobody is there")
}

func (alone) Members(context.Context, raft.ServerID, *api.ListMembersRequest) (*api.ListMembersResponse, error) {
	return nil, errors.New("nobody is there")
}

func (alone) ChangeMember(context.Context, raft.ServerID, *api.ChangeMemberRequest) (*api.ChangeMemberResponse, error) {
	return nil, errors.New("nobody is there")
}

func (alone) Transfer(context.Context, raft.ServerID, *api.TransferLeadershipRequest) (*api.TransferLeadershipResponse, error) {
	return nil, errors.New("nobody is there")
}

func (alone) Join(context.Context, raft.ServerID, *api.JoinRequest) (*api.JoinResponse, error) {
	return nil, errors.New("nobody is there")
}

func (alone) Health(context.Context, raft.ServerID) (roster.Health, error) {
	return roster.Health{}, errors.New("nobody is there")
}

func (alone) Opens(context.Context, raft.ServerID, *api.SubscribeRequest) error {
	return errors.New("nobody is there")
}

// newRig boots a cluster of one, or a node that is in no cluster.
func newRig(t *testing.T, founded bool) *rig {
	t.Helper()
	config := engine.RaftConfig()
	config.HeartbeatTimeout, config.ElectionTimeout, config.LeaderLeaseTimeout = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	_, transport := raft.NewInmemTransport("solo")
	store := raft.NewInmemStore()
	r := &rig{t: t, files: disk.NewMem(1)}
	var err error
	r.engine, err = engine.Open(engine.Settings{ID: "solo", TipBytes: 1 << 20, SegmentBytes: 64 << 10, Raft: config}, engine.Seams{
		Files: r.files, Logs: store, Stable: store, Snapshots: raft.NewInmemSnapshotStore(),
		Transport: transport, Peers: alone{}, Log: hclog.NewNullLogger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if founded {
		if err := r.engine.Bootstrap(raft.Configuration{Servers: []raft.Server{{ID: "solo", Address: "solo"}}}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.engine.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	r.members = func() []*api.MemberStatus {
		return []*api.MemberStatus{
			{NodeId: "solo", Gossip: "alive", ApiAddress: "me:1"}, {NodeId: "b", Gossip: "alive", ApiAddress: "b:1"},
			{NodeId: "c", Gossip: "dead", ApiAddress: "c:1"},
		}
	}
	r.server = New(Options{
		Engine: r.engine, Leader: alone{}, Log: hclog.NewNullLogger(), Version: "test", NotReady: r.notReady, Pprof: true,
		Members: func() []*api.MemberStatus { r.mu.Lock(); defer r.mu.Unlock(); return r.members() },
	})
	r.listen()
	if founded {
		r.until("it is ready", func() bool { return r.engine.NotReady() == "" })
	}
	return r
}

func (r *rig) notReady() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cutOff != "" {
		return r.cutOff
	}
	return r.engine.NotReady()
}

func (r *rig) listen() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); r.server.GRPC().Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), append(api.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close(); r.server.GRPC().Stop(); <-served })
	r.client, r.peer, r.health = api.NewStreamClient(conn), api.NewPeerClient(conn), grpc_health_v1.NewHealthClient(conn)
}

func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("not in time: %s", what)
		}
	}
}

// batch is messages with the payload, one to each topic.
func batch(payload string, topics ...string) []byte {
	var b message.Builder
	for _, t := range topics {
		b.Add(0, message.Entry{Topic: t, Draft: message.Draft{Payload: []byte(payload)}})
	}
	return b.Encode(nil, message.ProducerID{})
}

func (r *rig) publish(payload string, topics ...string) {
	r.t.Helper()
	done := make(chan error, 1)
	r.engine.Submit(r.t.Context(), batch(payload, topics...), func(_ []raftfsm.Outcome, err error) { done <- err })
	if err := <-done; err != nil {
		r.t.Fatal(err)
	}
}

// received is what a subscription delivered.
type received struct {
	opened *api.Opened
	lines  []string // seq and name of each message
	marks  int      // responses without records
	frames int      // with records
	last   uint64   // scanned_seq
}

// take reads one response and holds it to the rules of every subscription.
func (g *received) take(t *testing.T, r *api.SubscribeResponse, names map[uint32]string) {
	t.Helper()
	if (g.opened == nil) != (r.Opened != nil) {
		t.Fatalf("opened is %v in response %d", r.Opened, g.marks+g.frames)
	}
	if r.Opened != nil {
		g.opened = r.Opened
		return
	}
	if r.ScannedSeq < g.last || r.TipSeq < r.ScannedSeq {
		t.Errorf("scanned %d after %d, tip %d", r.ScannedSeq, g.last, r.TipSeq)
	}
	g.last = r.ScannedSeq
	for _, n := range r.Topics {
		if names[n.Id] != "" {
			t.Errorf("topic %q is named twice", n.Name)
		}
		names[n.Id] = n.Name
	}
	if len(r.Records) == 0 {
		g.marks++
		return
	}
	g.frames++
	for rest := r.Records; len(rest) > 0; {
		rec, tail, err := message.Split(rest)
		if err != nil || rec.Check() != nil || names[rec.Topic()] == "" || rec.Seq() > r.ScannedSeq {
			t.Fatalf("record %d of topic %q in a response up to %d: %v, %v", rec.Seq(), names[rec.Topic()], r.ScannedSeq, err, rec.Check())
		}
		g.lines, rest = append(g.lines, fmt.Sprint(rec.Seq(), " ", names[rec.Topic()])), tail
	}
}

// drain reads a subscription to its end.
func (r *rig) drain(q *api.SubscribeRequest) (*received, error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	stream, err := r.client.Subscribe(ctx, q)
	if err != nil {
		return nil, err
	}
	g, names := &received{}, map[uint32]string{}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return g, nil
		}
		if err != nil {
			return g, err
		}
		g.take(r.t, m, names)
	}
}

// TestSubscribe: opened first, exactly what the filters want, every name once, a
// position at the end.
func TestSubscribe(t *testing.T) {
	r := newRig(t, true)
	for range 3 {
		r.publish(strings.Repeat("x", 3000), "a/1", "a/2", "b/1")
	}
	g, err := r.drain(&api.SubscribeRequest{Filters: []string{"a/1", "a/**"}, UntilTip: true, MaxBatchBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	o := g.opened
	if o.NodeId != "solo" || o.AfterSeq != 0 || o.UntilSeq != 9 || o.OldestSeq != 1 || len(o.ClusterId) != 32 || !slices.Equal(o.Filters, []string{"a/**"}) {
		t.Errorf("opened with %v", o)
	}
	if got, want := strings.Join(g.lines, ", "), "1 a/1, 2 a/2, 4 a/1, 5 a/2, 7 a/1, 8 a/2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if g.last != 9 || g.frames < 3 {
		t.Errorf("ended at %d after %d responses with records", g.last, g.frames)
	}
	if g, err = r.drain(&api.SubscribeRequest{Filters: []string{"c"}, UntilTip: true}); err != nil || len(g.lines) != 0 || g.marks != 1 || g.last != 9 {
		t.Errorf("nothing wanted: %+v, %v", g, err)
	}
	if g, err = r.drain(&api.SubscribeRequest{Filters: []string{"**"}, UntilTip: true, ClusterId: o.ClusterId, Start: &api.SubscribeRequest_AfterSeq{AfterSeq: 8}}); err != nil || len(g.lines) != 1 {
		t.Errorf("behind 8: %+v, %v", g, err)
	}
	if g, err = r.drain(&api.SubscribeRequest{Filters: []string{"**"}, UntilTip: true, Start: &api.SubscribeRequest_FromTip{FromTip: true}}); err != nil || len(g.lines) != 0 || g.opened.AfterSeq != 9 {
		t.Errorf("from the tip: %+v, %v", g, err)
	}
}

// TestLive: a subscription that waits is told positions, then messages, and ends
// with the node.
func TestLive(t *testing.T) {
	r := newRig(t, true)
	stream, err := r.client.Subscribe(t.Context(), &api.SubscribeRequest{Filters: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	g, names := &received{}, map[uint32]string{}
	next := func() {
		t.Helper()
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		g.take(t, m, names)
	}
	next()
	r.publish("x", "b", "b")
	for g.last != 2 {
		next()
	}
	if g.frames != 0 {
		t.Errorf("%+v", g)
	}
	r.publish("x", "a")
	for g.frames == 0 {
		next()
	}
	if len(g.lines) != 1 || g.lines[0] != "3 a" {
		t.Errorf("%+v", g)
	}
	for marks := g.marks; g.marks < marks+2; { // also when nothing happens at all
		next()
	}
	r.server.End()
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "shutting down") || !strings.Contains(err.Error(), "b=b:1") || strings.Contains(err.Error(), "c:1") {
		t.Errorf("ended with %v", err)
	}
}

// TestCutOff: a node that has lost its cluster sends who waits there elsewhere.
func TestCutOff(t *testing.T) {
	r := newRig(t, true)
	r.publish("x", "a")
	stream, err := r.client.Subscribe(t.Context(), &api.SubscribeRequest{Filters: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	g, names := &received{}, map[uint32]string{}
	for err == nil {
		var m *api.SubscribeResponse
		if m, err = stream.Recv(); err == nil {
			g.take(t, m, names)
		}
		r.mu.Lock()
		if len(g.lines) == 1 {
			r.cutOff = "no word from a leader"
		}
		r.mu.Unlock()
	}
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "no word from a leader; other nodes: b=b:1") {
		t.Errorf("ended with %v", err)
	}
}

// TestPublish: many in flight, answered in order, each refusal its own; the stream
// ends with the node, after what it owes.
func TestPublish(t *testing.T) {
	r := newRig(t, true)
	stream, err := r.client.Publish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const count = 300
	go func() {
		for i := range count {
			q := &api.PublishRequest{Id: uint64(i + 1000), Batch: batch("x", "a")}
			if i%10 == 3 {
				q.Batch = batch("x", "a//b")
			}
			if stream.Send(q) != nil {
				return
			}
		}
	}()
	seq := uint64(0)
	for i := range count {
		m, err := stream.Recv()
		if err != nil || m.Id != uint64(i+1000) {
			t.Fatalf("answer %d: %v, %v", i, m, err)
		}
		if i%10 == 3 {
			if m.Error.GetKind() != api.PublishError_INVALID || !strings.Contains(m.Error.Message, "a//b") {
				t.Errorf("answer %d: %v", i, m)
			}
			continue
		}
		seq++
		if m.Error != nil || len(m.Outcomes) != 1 || m.Outcomes[0].Kind != api.Outcome_STORED || m.Outcomes[0].Seq != seq {
			t.Fatalf("answer %d: %v, want seq %d", i, m, seq)
		}
	}
	r.server.End()
	if _, err = stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("ended with %v", err)
	}
}

// TestWithoutCluster: a node that is in no cluster says so, to everybody.
func TestWithoutCluster(t *testing.T) {
	r := newRig(t, false)
	for name, c := range map[string]struct {
		ctx  context.Context
		says string
	}{
		"plain":     {t.Context(), "no leader is known"},
		"passed on": {metadata.AppendToOutgoingContext(t.Context(), ForwardedKey, "1"), "does not lead"},
	} {
		stream, err := r.client.Publish(c.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&api.PublishRequest{Id: 1, Batch: batch("x", "a")}); err != nil {
			t.Fatal(err)
		}
		if m, err := stream.Recv(); err != nil || m.Error.GetKind() != api.PublishError_UNAVAILABLE || !strings.Contains(m.Error.Message, c.says) {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	if _, err := r.drain(&api.SubscribeRequest{Filters: []string{"**"}}); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "cluster") {
		t.Errorf("subscribed: %v", err)
	}
	if st, err := r.client.GetStatus(t.Context(), &api.GetStatusRequest{}); err != nil || st.NotReady == "" || st.ClusterId != "" {
		t.Errorf("status: %v, %v", st, err)
	}
	if _, err := r.client.GetProducer(t.Context(), &api.GetProducerRequest{ProducerId: make([]byte, 16)}); status.Code(err) != codes.Unavailable {
		t.Errorf("producer: %v", err)
	}
	h, err := r.health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || h.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health: %v, %v", h, err)
	}
	if code, body := r.get("/readyz"); code != 503 || !strings.Contains(body, "cluster") {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if code, _ := r.get("/healthz"); code != 200 {
		t.Errorf("/healthz: %d", code)
	}
}

func (r *rig) get(path string) (code int, body string) {
	w := httptest.NewRecorder()
	r.server.HTTP().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}

// TestNotLeading: whoever asks a node that led a moment ago is sent to another one.
func TestNotLeading(t *testing.T) {
	r := newRig(t, true)
	for _, err := range []error{raft.ErrNotLeader, engine.ErrNotLeader} {
		if got := r.server.failed(fmt.Errorf("a transfer: %w", err)); status.Code(got) != codes.Unavailable {
			t.Errorf("%v is told as %v", err, got)
		}
	}
}

// TestInfo: status, topics in pages and by name, health, metrics.
func TestInfo(t *testing.T) {
	r := newRig(t, true)
	var topics []string
	for i := range topicsPerPage + 1 {
		topics = append(topics, fmt.Sprintf("t/%04d", (i*2)%(topicsPerPage+1)))
	}
	r.publish("12345", topics...)
	r.publish("x", "u")
	stream, err := r.client.ListTopics(t.Context(), &api.ListTopicsRequest{Filters: []string{"t/**"}})
	if err != nil {
		t.Fatal(err)
	}
	pages, got := 0, []*api.TopicStats(nil)
	for ; ; pages++ {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m.Topics...)
	}
	sorted := slices.IsSortedFunc(got, func(a, b *api.TopicStats) int { return strings.Compare(a.Name, b.Name) })
	if pages != 2 || len(got) != len(topics) || !sorted || got[0].Name != "t/0000" || got[0].Messages != 1 || got[0].LastSeq != 1 || got[0].Bytes == 0 {
		t.Errorf("%d topics in %d pages, sorted %v, first %v", len(got), pages, sorted, got[0])
	}
	st, err := r.client.GetStatus(t.Context(), &api.GetStatusRequest{})
	if err != nil || st.State != "leader" || st.LeaderId != "solo" || st.NotReady != "" || st.LastSeq != uint64(len(topics)+1) ||
		st.Topics != uint64(len(topics)+1) || st.Tip.HeadSeq != st.LastSeq || st.Version != "test" || len(st.Members) != 3 || st.RaftTerm == 0 {
		t.Errorf("status: %v, %v", st, err)
	}
	r.server.SetReady(true)
	h, err := r.health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "chorale.v1.Stream"})
	if err != nil || h.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", h, err)
	}
	r.server.metrics.waited(0)
	_, metrics := r.get("/metrics")
	for _, line := range []string{"chorale_recovery_turn_wait_seconds_count 1", "chorale_recovery_turns_waiting 0", "chorale_recovery_pause_turns 0", "chorale_ready 1", fmt.Sprintf("chorale_last_seq %d", st.LastSeq), "chorale_raft_leader 1", "chorale_publish_ack_seconds_count 0", "go_goroutines"} {
		if !strings.Contains(metrics, line) {
			t.Errorf("/metrics lacks %q", line)
		}
	}
	if code, _ := r.get("/debug/pprof/goroutine?debug=1"); code != 200 {
		t.Errorf("pprof: %d", code)
	}
}

// TestFetchFile: a data file, whole, from an offset, and a part of it; unknown ones are not found.
func TestFetchFile(t *testing.T) {
	r := newRig(t, true)
	for r.engine.Status().History.Files == 0 {
		r.publish(strings.Repeat("y", 10000), "a")
	}
	hash := r.engine.Files()[0].Hash
	whole, err := r.fetch(hash[:], 0)
	if err != nil || sha256.Sum256(whole) != hash {
		t.Fatalf("%d bytes, %v", len(whole), err)
	}
	for _, offset := range []int{1, len(whole) - 1, len(whole)} {
		if part, err := r.fetch(hash[:], uint64(offset)); err != nil || string(part) != string(whole[offset:]) {
			t.Errorf("from %d: %d bytes, %v", offset, len(part), err)
		}
	}
	for _, c := range []struct{ offset, length int }{{0, 1}, {1, 5}, {0, len(whole)}, {len(whole) - 1, 1}, {len(whole) - 1, 2}, {len(whole), 1}, {5, math.MaxInt}} {
		want := whole[c.offset:][:min(c.length, len(whole)-c.offset)]
		if part, err := r.fetch(hash[:], uint64(c.offset), uint64(c.length)); err != nil || string(part) != string(want) {
			t.Errorf("%d from %d: %d bytes, %v", c.length, c.offset, len(part), err)
		}
	}
	for _, bad := range []struct {
		hash   []byte
		offset uint64
		code   codes.Code
	}{{hash[:], uint64(len(whole) + 1), codes.InvalidArgument}, {hash[:5], 0, codes.InvalidArgument}, {make([]byte, 32), 0, codes.NotFound}} {
		if _, err := r.fetch(bad.hash, bad.offset); status.Code(err) != bad.code {
			t.Errorf("%x from %d: %v, want %v", bad.hash, bad.offset, err, bad.code)
		}
	}
}

// TestSalvage: what there is of a damaged file is given, up to where it is cut.
func TestSalvage(t *testing.T) {
	r := newRig(t, true)
	for r.engine.Status().History.Files == 0 {
		r.publish(strings.Repeat("y", 10000), "a")
	}
	m := r.engine.Files()[0]
	whole, err := r.fetch(m.Hash[:], 0)
	if err != nil || r.files.Truncate(engine.Dir+"/"+m.Name(), 20_000) != nil {
		t.Fatalf("%d bytes, %v", len(whole), err)
	}
	for _, c := range []struct{ offset, length, want int }{{0, 5, 5}, {0, 1 << 20, 20_000}, {19_999, 2, 1}, {20_000, 1, 0}, {25_000, 10, 0}} {
		got, err := r.ask(&api.FetchFileRequest{Hash: m.Hash[:], Offset: uint64(c.offset), Length: uint64(c.length), Salvage: true})
		if err != nil || string(got) != string(whole[c.offset:][:c.want]) {
			t.Errorf("%d from %d: %d bytes, %v", c.length, c.offset, len(got), err)
		}
	}
	if _, err := r.ask(&api.FetchFileRequest{Hash: make([]byte, 32), Salvage: true}); status.Code(err) != codes.NotFound {
		t.Errorf("of an unknown file: %v", err)
	}
}

func (r *rig) fetch(hash []byte, offset uint64, length ...uint64) (out []byte, err error) {
	q := &api.FetchFileRequest{Hash: hash, Offset: offset}
	for _, n := range length {
		q.Length = n
	}
	return r.ask(q)
}

func (r *rig) ask(q *api.FetchFileRequest) (out []byte, err error) {
	stream, err := r.peer.FetchFile(r.t.Context(), q)
	for err == nil {
		var m *api.FetchFileResponse
		if m, err = stream.Recv(); err == nil {
			out = append(out, m.Data...)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return out, err
}

// TestPanic: a bug that a request finds ends that request.
func TestPanic(t *testing.T) {
	r := newRig(t, true)
	good := r.members
	r.mu.Lock()
	r.members = func() []*api.MemberStatus { panic("a bug") }
	r.mu.Unlock()
	if _, err := r.client.GetStatus(t.Context(), &api.GetStatusRequest{}); status.Code(err) != codes.Internal {
		t.Errorf("%v", err)
	}
	r.mu.Lock()
	r.members = good
	r.mu.Unlock()
	if _, err := r.client.GetStatus(t.Context(), &api.GetStatusRequest{}); err != nil {
		t.Errorf("the next request: %v", err)
	}
	if _, metrics := r.get("/metrics"); !strings.Contains(metrics, "chorale_handler_panics_total 1") {
		t.Error("the panic was not counted")
	}
}

// TestIDSet compares the set of topic ids with a map.
func TestIDSet(t *testing.T) {
	var s idSet
	seen := map[uint32]bool{}
	for i := uint32(0); i < 5_000_000; i += 1 + i%97*1000 {
		for _, id := range []uint32{i, i, i / 2} {
			if got := s.add(id); got == seen[id] {
				t.Fatalf("id %d is new: %v", id, got)
			}
			seen[id] = true
		}
	}
}
