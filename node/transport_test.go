package node

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"chorale/raftfsm"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

func newLayer(t *testing.T, cluster byte) *raftLayer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	layer := &raftLayer{
		Listener: l, advertise: "node.example.org:7072", log: hclog.NewNullLogger(),
		cluster: func() raftfsm.ClusterID { return raftfsm.ClusterID{cluster} },
	}
	t.Cleanup(func() { layer.Close() })
	return layer
}

// TestGreeting: connections between two clusters are refused before Raft sees a
// byte; a node that knows no cluster yet may talk to any.
func TestGreeting(t *testing.T) {
	for _, c := range []struct {
		from, to byte
		refused  string
	}{{1, 1, ""}, {0, 1, ""}, {1, 0, ""}, {0, 0, ""}, {1, 2, "it is of cluster 01"}} {
		from, to := newLayer(t, c.from), newLayer(t, c.to)
		out, err := from.Dial(raft.ServerAddress(to.Listener.Addr().String()), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write([]byte("append")); err != nil {
			t.Fatal(err)
		}
		in, err := to.Accept()
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 6)
		_, err = io.ReadFull(in, b)
		if c.refused == "" && (err != nil || string(b) != "append") {
			t.Errorf("%d to %d: %q, %v", c.from, c.to, b, err)
		}
		if c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%d to %d: %q, %v", c.from, c.to, b, err)
		}
	}
}

// TestLayerCloses: a layer that closes ends its connections of both directions.
func TestLayerCloses(t *testing.T) {
	one, two := newLayer(t, 1), newLayer(t, 1)
	out, err := one.Dial(raft.ServerAddress(two.Listener.Addr().String()), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	in, err := two.Accept()
	if err != nil {
		t.Fatal(err)
	}
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
