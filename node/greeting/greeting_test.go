package greeting

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"chorale/raftfsm"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testLog keeps what is logged.
type testLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *testLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *testLog) says(what string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.b.String(), what)
}

func newLayer(t *testing.T, cluster byte) *Layer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	layer := &Layer{
		Listener: l, Advertise: "node.example.org:7072", Log: hclog.NewNullLogger(),
		Cluster: func() raftfsm.ClusterID { return raftfsm.ClusterID{cluster} },
	}
	t.Cleanup(func() { layer.Close() })
	return layer
}

// dialled is both ends of a new connection.
func dialled(t *testing.T, from, to *Layer) (out, in net.Conn) {
	t.Helper()
	out, err := from.Dial(raft.ServerAddress(to.Listener.Addr().String()), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if in, err = to.Accept(); err != nil {
		t.Fatal(err)
	}
	return out, in
}

// TestGreeting: connections between two clusters are refused before Raft sees a
// byte, and seem to end; a node that knows no cluster yet may talk to any.
func TestGreeting(t *testing.T) {
	for _, c := range []struct {
		from, to byte
		refused  string
	}{{1, 1, ""}, {0, 1, ""}, {1, 0, ""}, {0, 0, ""}, {1, 2, "of another cluster: it is of 01"}} {
		from, to := newLayer(t, c.from), newLayer(t, c.to)
		log := &testLog{}
		to.Log = hclog.New(&hclog.LoggerOptions{Output: log})
		out, in := dialled(t, from, to)
		if _, err := out.Write([]byte("append")); err != nil {
			t.Fatal(err)
		}
		b, err := make([]byte, 6), error(nil)
		_, err = io.ReadFull(in, b)
		if c.refused == "" && (err != nil || string(b) != "append" || log.says("refused")) {
			t.Errorf("%d to %d: %q, %v", c.from, c.to, b, err)
		}
		if c.refused != "" && (err != io.EOF || !log.says(c.refused)) {
			t.Errorf("%d to %d: %q, %v", c.from, c.to, b, err)
		}
	}
}

// TestARefusalIsLoggedOnce: whoever is refused, by a layer under Raft's transport, is
// one line in the log of this node, however often he tries; each kind of refusal has
// its own.
func TestARefusalIsLoggedOnce(t *testing.T) {
	layer, log := newLayer(t, 2), &testLog{}
	layer.Log = hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Trace})
	transport := NewTransport(layer, nil)
	refuse := func(greeting []byte) {
		conn, err := net.Dial("tcp", layer.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write(greeting); err != nil {
			t.Fatal(err)
		}
		// The other side may have closed already, with or without a reset.
		conn.(*net.TCPConn).CloseWrite()
		io.ReadAll(conn)
	}
	id := func(cluster byte) []byte {
		return append([]byte(greetingMagic), append([]byte{cluster}, make([]byte, 15)...)...)
	}
	for range 20 {
		refuse(append(id(1), "append"...))
		refuse(append(id(3), "append"...))
		refuse([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
		refuse(nil) // a probe of the port
	}
	if err := transport.Close(); err != nil {
		t.Fatal(err)
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(log.b.String()), "\n")
	for _, l := range lines {
		if strings.Contains(l, "ERROR") || strings.Contains(l, "decode") {
			t.Errorf("Raft logs it too: %s", l)
		}
	}
	if got := strings.Count(log.b.String(), "a raft connection was refused"); got != 3 {
		t.Errorf("%d lines, want 3:\n%s", got, log.b.String())
	}
	layer.mu.Lock()
	defer layer.mu.Unlock()
	others := 0
	for _, k := range layer.refusals {
		others += k.others
	}
	if others != 4*20-3 {
		t.Errorf("%d refusals are counted beside the logged ones, want %d", others, 4*20-3)
	}
}

// TestAClosedEndIsNoError: where this node closes a connection, Raft sees its end.
func TestAClosedEndIsNoError(t *testing.T) {
	one := newLayer(t, 1)
	out, in := dialled(t, newLayer(t, 1), one)
	if _, err := out.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("got %v", err)
	}
}

// TestLayerCloses: a layer that closes ends its connections of both directions.
func TestLayerCloses(t *testing.T) {
	one, two := newLayer(t, 1), newLayer(t, 1)
	out, in := dialled(t, one, two)
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err == nil {
		t.Error("an outgoing connection outlived its layer")
	}
	if _, err := io.ReadAll(in); err != nil {
		t.Errorf("the other end: %v", err)
	}
	if _, err := one.Dial(raft.ServerAddress(two.Listener.Addr().String()), time.Minute); err == nil {
		t.Error("a closed layer dials")
	}
	if got := one.Addr().String(); got != "node.example.org:7072" {
		t.Errorf("others are told %s", got)
	}
}
