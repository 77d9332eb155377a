package node

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chorale/api"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestMain looks for leaks. memberlist does not wait for its last probe, which ends
// by itself.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}

// patience is for machines that have other things to do.
const patience = time.Minute

// single is the configuration of a cluster of one on free ports.
func single(t *testing.T, dir string) Config {
	c := DefaultConfig()
	c.ID, c.Dir, c.BootstrapExpect, c.LogLevel = "solo", dir, 1, "debug"
	free := Listener{Bind: "127.0.0.1:0"}
	c.API, c.HTTP, c.Raft, c.Gossip = free, free, free, free
	log := &testLog{t: t}
	c.LogOutput = log
	t.Cleanup(log.dumpIfFailed)
	return c
}

// boot runs a node until the test or stop ends it, and waits until it is ready.
func boot(t *testing.T, c Config) (a Addresses, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan Addresses, 1), make(chan error, 1)
	go func() { ended <- runNode(ctx, c, func(a Addresses) { ready <- a }) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	select {
	case a = <-ready:
	case err := <-ended:
		stopped = true
		cancel()
		t.Fatalf("the node ended: %v", err)
	case <-time.After(patience):
		t.Fatal("the node is not ready")
	}
	return a, stop
}

// refused runs a node that must end by itself, and returns why.
func refused(t *testing.T, c Config) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := Run(ctx, c)
	if err == nil {
		t.Fatal("the node ran")
	}
	return err.Error()
}

func wants(t *testing.T, got string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(got, p) {
			t.Errorf("%q does not say %q", got, p)
		}
	}
}

// TestRestart: a node that ends and starts again has everything, with the same
// flags and with none.
func TestRestart(t *testing.T) {
	t.Parallel()
	c := single(t, t.TempDir())
	a, stop := boot(t, c)
	publish(t, dial(t, a.API), "a", "x")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	a, stop = boot(t, c)
	publish(t, dial(t, a.API), "a", "y")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	// Gossip's list of peers is a help, no condition.
	if err := os.WriteFile(filepath.Join(c.Dir, peersFile), []byte("[\"127.0"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.BootstrapExpect = 0
	a, _ = boot(t, c)
	if got := recoverAll(t, dial(t, a.API)); len(got) != 2 || got[0] != "x" || got[1] != "y" {
		t.Errorf("got %q", got)
	}
}

// TestUnfinishedGoes: what a killed process had begun in its data folder is not there any
// more when the node has started again, wherever it was.
func TestUnfinishedGoes(t *testing.T) {
	t.Parallel()
	c := single(t, t.TempDir())
	_, stop := boot(t, c)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	left := []string{
		"identity.json.tmp", "scrub.json.tmp", "raft/snapshots/2-100-1700000000000.tmp/state.bin",
		"segments/00000000000000000001-00000000000000000009.seg.tmp", "segments/00000000000000000001-00000000000000000009.0.tmp",
	}
	for _, name := range left {
		path := filepath.Join(c.Dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	boot(t, c)
	for _, name := range left {
		if _, err := os.Stat(filepath.Join(c.Dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was left behind: %v", name, err)
		}
	}
}

// TestPortInUse: the message names the flag and the address.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := Listener{Bind: l.Addr().String()}
	for key, set := range map[string]func(*Config){
		"api-addr":    func(c *Config) { c.API = taken },
		"http-addr":   func(c *Config) { c.HTTP = taken },
		"raft-addr":   func(c *Config) { c.Raft = taken },
		"gossip-addr": func(c *Config) { c.Gossip = taken },
	} {
		c := single(t, t.TempDir())
		set(&c)
		wants(t, refused(t, c), key, taken.Bind, "address already in use")
	}
}

// TestFolderRefused: folders that are not this node's.
func TestFolderRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := single(t, dir)
	_, stop := boot(t, c)
	wants(t, refused(t, c), dir, "in use by another process")
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	other := c
	other.ID = "other"
	wants(t, refused(t, other), `id = "other"`, `belongs to node "solo"`)

	other = c
	other.BootstrapExpect = 3
	wants(t, refused(t, other), `bootstrap-expect = "3"`, "was founded with 1")

	edit(t, dir, func(i *identity) { i.Expect = 0 })
	wants(t, refused(t, c), `bootstrap-expect = "1"`, "was added to its cluster")

	edit(t, dir, func(i *identity) { i.Expect, i.Level, i.LevelBy = 1, 99, "v99" })
	wants(t, refused(t, c), dir, "log is at level 99", "upgrade this node (v99 or a later version)")

	edit(t, dir, func(i *identity) { i.Level, i.Cluster = 0, strings.Repeat("ab", 16) })
	wants(t, refused(t, c), dir, "belongs to cluster abab")

	if err := os.Remove(filepath.Join(dir, identityFile)); err != nil {
		t.Fatal(err)
	}
	wants(t, refused(t, c), dir, "no identity.json")
}

func edit(t *testing.T, dir string, how func(*identity)) {
	t.Helper()
	path := filepath.Join(dir, identityFile)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var i identity
	if err := json.Unmarshal(b, &i); err != nil {
		t.Fatal(err)
	}
	how(&i)
	if b, err = json.Marshal(i); err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestFolderUnusable: a file in the folder's place, and damage in the folder.
func TestFolderUnusable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wants(t, refused(t, single(t, file)), file, "not a directory")

	c := single(t, filepath.Join(dir, "data"))
	_, stop := boot(t, c)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(c.Dir, "segments", "holiday.jpg")
	if err := os.WriteFile(foreign, []byte("JFIF"), 0o600); err != nil {
		t.Fatal(err)
	}
	wants(t, refused(t, c), "holiday.jpg")
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.Dir, identityFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	wants(t, refused(t, c), identityFile, "damaged")
	if err := os.WriteFile(filepath.Join(c.Dir, identityFile), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	wants(t, refused(t, c), identityFile, "names no node")
}

// TestRefusedAtFirst: a first start that was refused leaves a folder that any node
// may have.
func TestRefusedAtFirst(t *testing.T) {
	t.Parallel()
	c := single(t, t.TempDir())
	c.ID, c.BootstrapExpect = "hostname", 0
	wants(t, refused(t, c), `join = ""`, "bootstrap-expect")
	c.ID, c.BootstrapExpect = "solo", 1
	_, stop := boot(t, c)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	c.ID = "hostname"
	wants(t, refused(t, c), `belongs to node "solo"`)
}

// TestLogLost: a node without its log founds no second cluster in its folder,
// however often it is started.
func TestLogLost(t *testing.T) {
	t.Parallel()
	c := single(t, t.TempDir())
	_, stop := boot(t, c)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(c.Dir, raftDir)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		wants(t, refused(t, c), c.Dir, "the log is lost")
	}
}

// TestWiped: a node that lost its folder is not taken back under its old id.
func TestWiped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runDev := func(f func([]Addresses), left func(string, error)) error {
		log := &testLog{t: t}
		defer log.dumpIfFailed()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return RunDev(ctx, Dev{Nodes: 3, Dir: dir, LogLevel: "debug", LogOutput: log, Left: left, Ready: func(a []Addresses) {
			f(a)
			cancel()
		}})
	}
	err := runDev(func(a []Addresses) {
		publish(t, dial(t, a[2].API), "a", "x")
		// The founding is over when everybody has seen data on everybody.
		deadline := time.After(patience)
		for _, n := range []string{"n1", "n2", "n3"} {
			for founding := true; founding; {
				b, err := os.ReadFile(filepath.Join(dir, n, identityFile))
				if err != nil {
					t.Error(err)
					return
				}
				founding = strings.Contains(string(b), `"founding"`)
				select {
				case <-deadline:
					t.Errorf("%s is founding still", n)
					return
				case <-time.After(10 * time.Millisecond):
				}
			}
		}
	}, func(id string, err error) { t.Errorf("%s has left: %v", id, err) })
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "n3")); err != nil {
		t.Fatal(err)
	}
	var refused error
	err = runDev(func(a []Addresses) {
		if len(a) != 2 || refused == nil {
			t.Errorf("the wiped node ran: %v, %v", a, refused)
		}
	}, func(id string, err error) {
		if refused = err; id != "n3" {
			t.Errorf("%s has left: %v", id, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	wants(t, refused.Error(), "this node will not start", "node n3 is a member with another data folder")
}

// TestGarbage: bytes that are no protocol of ours, on every port, leave the node
// as it was; a bad request gets its code.
func TestGarbage(t *testing.T) {
	t.Parallel()
	a, _ := boot(t, single(t, t.TempDir()))
	for _, address := range []string{a.API, a.HTTP, a.Raft, a.Gossip} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		conn.Write([]byte(strings.Repeat("\x00\xffgarbage\r\n", 1000)))
		conn.Close()
	}
	c := dial(t, a.API)
	publish(t, c, "a", "x")
	for _, bad := range []struct {
		q    *api.SubscribeRequest
		code codes.Code
		says string
	}{
		{&api.SubscribeRequest{}, codes.InvalidArgument, "filter"},
		{&api.SubscribeRequest{Filters: []string{"a//b"}}, codes.InvalidArgument, "a//b"},
		{&api.SubscribeRequest{Filters: []string{"a"}, ClusterId: "xyz"}, codes.InvalidArgument, "32 hexadecimal digits"},
		{&api.SubscribeRequest{Filters: []string{"a"}, ClusterId: strings.Repeat("00", 15) + "01"}, codes.FailedPrecondition, "another cluster"},
		{&api.SubscribeRequest{Filters: []string{"a"}, Start: &api.SubscribeRequest_AfterSeq{AfterSeq: 99}}, codes.OutOfRange, "the newest is 1, so at most 2 is possible"},
	} {
		stream, err := c.Subscribe(t.Context(), bad.q)
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != bad.code || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%v: %v, want %v and %q", bad.q, err, bad.code, bad.says)
		}
	}
	stream, err := c.Publish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range [][]byte{nil, []byte("x"), make([]byte, 1000)} {
		if err := stream.Send(&api.PublishRequest{Id: uint64(i), Batch: b}); err != nil {
			t.Fatal(err)
		}
		r, err := stream.Recv()
		if err != nil || r.Id != uint64(i) || r.Error.GetKind() != api.PublishError_INVALID {
			t.Errorf("batch %q: %v, %v", b, r, err)
		}
	}
	for _, id := range [][]byte{nil, []byte("short"), make([]byte, 17)} {
		if _, err := c.GetProducer(t.Context(), &api.GetProducerRequest{ProducerId: id}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("producer id %x: %v", id, err)
		}
	}
	publish(t, c, "a", "y")
}

// TestValidate: each bad value is named, with what is allowed.
func TestValidate(t *testing.T) {
	t.Parallel()
	for want, set := range map[string]func(*Config){
		`id = ""`:                func(c *Config) { c.ID = "" },
		`id = "a b"`:             func(c *Config) { c.ID = "a b" },
		`data = ""`:              func(c *Config) { c.Dir = "" },
		`api-addr = "7070"`:      func(c *Config) { c.API.Bind = "7070" },
		`http-addr = "x:y"`:      func(c *Config) { c.HTTP.Bind = "x:y" },
		`raft-addr = "x:65536"`:  func(c *Config) { c.Raft.Bind = "x:65536" },
		`advertise = ""`:         func(c *Config) { c.Gossip.Bind = ":7073" },
		`join = "b"`:             func(c *Config) { c.Join = []string{"a:1", "b"} },
		`bootstrap-expect = "10`: func(c *Config) { c.BootstrapExpect = 10 },
		`tip-size = "5"`:         func(c *Config) { c.TipBytes = 5 },
		`segment-size = "5"`:     func(c *Config) { c.SegmentBytes = 5 },
		`snapshot-size = "5"`:    func(c *Config) { c.SnapshotBytes = 5 },
		`compact-rate = "1"`:     func(c *Config) { c.CompactRate = 1 },
		`store-size = "1"`:       func(c *Config) { c.StoreBytes = 1 },
		`fetch-rate = "-1"`:      func(c *Config) { c.FetchRate = -1 },
		`scrub-every = "1ms"`:    func(c *Config) { c.ScrubEvery = time.Millisecond },
		`remove-dead-after = "1`: func(c *Config) { c.RemoveDead = time.Second },
		`payload-limit = "0"`:    func(c *Config) { c.PayloadLimit = 0 },
		`log-level = "loud"`:     func(c *Config) { c.LogLevel = "loud" },
		`gossip-key = "(secret)`: func(c *Config) { c.GossipKey = "c2hvcnQ=" },
	} {
		c := single(t, "somewhere")
		set(&c)
		var bad *ConfigError
		if err := c.Validate(); !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s ...", err, want)
		}
	}
	c := single(t, "somewhere")
	c.API = Listener{Bind: "0.0.0.0:7070", Advertise: "node.example.org"}
	c.GossipKey = "MDEyMzQ1Njc4OWFiY2RlZg=="
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if got := c.API.advertised(&net.TCPAddr{IP: net.IPv4zero, Port: 7070}); got != "node.example.org:7070" {
		t.Errorf("advertised %s", got)
	}
}
