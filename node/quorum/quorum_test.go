package quorum

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"chorale/disk"
	"chorale/message"
	"chorale/raftfsm"
	"chorale/raftfsm/members"
	"chorale/segments"
	"chorale/tip"
	"chorale/topic"

	"github.com/hashicorp/raft"
)

var old, anew = raftfsm.ClusterID{1}, raftfsm.ClusterID{2}

// folder is what a node left.
type folder struct {
	t     *testing.T
	logs  *raft.InmemStore
	files *disk.Mem
	snaps *raft.InmemSnapshotStore
	next  uint64
}

func newFolder(t *testing.T) *folder {
	return &folder{t: t, logs: raft.NewInmemStore(), files: disk.NewMem(1), snaps: raft.NewInmemSnapshotStore(), next: 1}
}

func (f *folder) log(kind raft.LogType, data []byte) {
	f.t.Helper()
	if err := f.logs.StoreLog(&raft.Log{Index: f.next, Term: 3, Type: kind, Data: data}); err != nil {
		f.t.Fatal(err)
	}
	f.next++
}

func (f *folder) configure(voters ...string) {
	var c raft.Configuration
	for _, id := range voters {
		c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id + ":1")})
	}
	f.log(raft.LogConfiguration, raft.EncodeConfiguration(c))
}

func (f *folder) found() {
	f.log(raft.LogCommand, raftfsm.EncodeGenesis(raftfsm.Genesis{Cluster: old, SegmentBytes: 4096}))
}

func (f *folder) member(c members.Change) { f.log(raft.LogCommand, raftfsm.EncodeMember(c)) }

// publish stores n messages of some size.
func (f *folder) publish(n int) {
	for i := range n {
		var b message.Builder
		b.Add(1, message.Entry{Topic: "a/b", Draft: message.Draft{Payload: bytes.Repeat([]byte{byte(i)}, 1000)}})
		f.log(raft.LogCommand, raftfsm.EncodePublish(int64(1000+i), [][]byte{b.Encode(nil, message.ProducerID{1, byte(f.next)})}))
	}
}

func (f *folder) open(id string, incarnation members.Incarnation) (*Survivor, error) {
	return Open(Options{ID: raft.ServerID(id), Incarnation: incarnation, Files: f.files, Dir: "segments", Logs: f.logs, Snapshots: f.snaps})
}

// TestAlone: a node of three is left with a log that is in part in files of its own. Its
// report says so, reading changes nothing, and what is written has all of it.
func TestAlone(t *testing.T) {
	f := newFolder(t)
	f.configure("a", "b", "c")
	f.found()
	f.member(members.Change{Op: members.Join, ID: "a", Incarnation: 7, Voter: true, HasData: true})
	f.member(members.Change{Op: members.Join, ID: "b", Incarnation: 8, Voter: true, HasData: true})
	f.publish(20)
	f.log(raft.LogCommand, raftfsm.EncodeEdit(segments.Edit{Add: f.build(8)}))
	f.publish(1)

	before := f.list()
	s, err := f.open("a", 7)
	if err != nil {
		t.Fatal(err)
	}
	if s.LastIndex != f.next-1 || s.LastTerm != 3 || s.SnapshotIndex != 0 || s.LastSeq != 21 || s.OldestSeq != 1 || s.SureSeq != 8 ||
		s.Problem != "" || len(s.Missing) != 0 || s.Voters() != 2 || s.Cluster != fmt.Sprintf("%x", old) {
		t.Errorf("the report is %+v", s.Report)
	}
	if after := f.list(); after != before {
		t.Errorf("reading changed the folder from %s to %s", before, after)
	}
	if err := s.Alone(anew); err != nil {
		t.Fatal(err)
	}
	if after := f.list(); after != before {
		t.Errorf("the recovery changed the data files from %s to %s", before, after)
	}
	if last, _ := f.logs.LastIndex(); last != 0 {
		t.Errorf("the log goes up to %d", last)
	}

	// It is read again, as after a break, with the same result.
	again, err := f.open("a", 7)
	if err != nil {
		t.Fatal(err)
	}
	list, _ := again.fsm.Members()
	if got := fmt.Sprint(list); !strings.Contains(got, "{a 7 true false false") || !strings.Contains(got, "{b 8 false true false") || !strings.Contains(got, "{c 0 false true false") {
		t.Errorf("the members are %s", got)
	}
	if again.Voters() != 0 || len(again.Servers) != 1 || again.LastSeq != 21 || again.SureSeq != 21 || again.LastIndex != s.LastIndex || again.LastTerm != 3 ||
		again.Cluster != fmt.Sprintf("%x", anew) || again.Problem != "" {
		t.Errorf("afterwards the report is %+v", again.Report)
	}
	if err := again.Alone(anew); err != nil {
		t.Error(err)
	}
}

// build makes the first file of the stream, up to that message, as a running node would.
func (f *folder) build(upTo uint64) []segments.FileMeta {
	f.t.Helper()
	topics := topic.NewTable()
	history, err := segments.Open(segments.Options{FS: f.files, Dir: "segments", Topics: topics})
	if err != nil {
		f.t.Fatal(err)
	}
	fsm := raftfsm.New(raftfsm.Options{Topics: topics, Tip: tip.New(tip.MinBytes), History: history})
	for i := uint64(1); i < f.next; i++ {
		var l raft.Log
		if err := f.logs.GetLog(i, &l); err != nil {
			f.t.Fatal(err)
		}
		if l.Type == raft.LogCommand {
			fsm.Apply(&l)
		}
	}
	files := history.Proposals()
	n := slices.IndexFunc(files, func(m segments.FileMeta) bool { return m.Last == upTo })
	if n < 0 {
		f.t.Fatalf("no file ends with %d: %v", upTo, files)
	}
	return files[:n+1]
}

func (f *folder) list() string {
	entries, err := f.files.List("segments")
	if err != nil {
		f.t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, fmt.Sprintf("%s:%d", e.Name(), e.Size()))
	}
	return strings.Join(out, " ")
}

// TestMissing: files that the manifest names and that are not here are named.
func TestMissing(t *testing.T) {
	f := newFolder(t)
	f.configure("a", "b", "c")
	f.found()
	f.publish(20)
	f.log(raft.LogCommand, raftfsm.EncodeEdit(segments.Edit{Add: f.build(8)}))
	first, err := f.open("a", 7)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Alone(anew); err != nil { // the messages are in the file alone now
		t.Fatal(err)
	}
	name := first.history.Manifest().Files[0].Name()
	if err := f.files.Remove("segments/" + name); err != nil {
		t.Fatal(err)
	}
	s, err := f.open("a", 7)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Missing) != 1 || s.Missing[0].Name != name || s.Missing[0].Bytes == 0 {
		t.Errorf("missing are %v, want %s", s.Missing, name)
	}
}

// TestProblems: nodes that are not what is left of a cluster.
func TestProblems(t *testing.T) {
	for want, make := range map[string]func(*folder){
		"nothing of a cluster": func(f *folder) { f.configure("a", "b") },
		"was removed from its cluster": func(f *folder) {
			f.configure("a", "b")
			f.found()
			f.member(members.Change{Op: members.Join, ID: "a", Incarnation: 7, Voter: true, HasData: true})
			f.member(members.Change{Op: members.Remove, ID: "a"})
		},
		"has passed to another data folder": func(f *folder) {
			f.configure("a", "b")
			f.found()
			f.member(members.Change{Op: members.Join, ID: "a", Incarnation: 9, Voter: true})
		},
		"was not in the configuration": func(f *folder) { f.configure("b", "c"); f.found() },
	} {
		f := newFolder(t)
		make(f)
		s, err := f.open("a", 7)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(s.Problem, want) {
			t.Errorf("%q, want %q", s.Problem, want)
		}
		if err := s.Alone(anew); err == nil {
			t.Errorf("%s: recovered", want)
		}
		if last, _ := f.logs.LastIndex(); last != f.next-1 {
			t.Errorf("%s: the log was cut", want)
		}
	}
}

// TestUnreadable: an entry that cannot be applied, and a snapshot that cannot be read.
func TestUnreadable(t *testing.T) {
	f := newFolder(t)
	f.configure("a", "b")
	f.found()
	f.log(raft.LogCommand, []byte("no entry"))
	if _, err := f.open("a", 7); err == nil || !strings.Contains(err.Error(), "the log cannot be applied: entry 3") {
		t.Errorf("a damaged entry: %v", err)
	}
	f = newFolder(t)
	_, addresses := raft.NewInmemTransport("")
	sink, err := f.snaps.Create(1, 5, 3, raft.Configuration{}, 1, addresses)
	if err == nil {
		_, err = io.WriteString(sink, "no snapshot")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.open("a", 7); err == nil || !strings.Contains(err.Error(), "snapshot ") {
		t.Errorf("a damaged snapshot: %v", err)
	}
}

// TestCompare: the term of the last entry goes before its index, and that before anything.
func TestCompare(t *testing.T) {
	reports := []Report{
		{Node: "long", LastTerm: 4, LastIndex: 900, Term: 9, LastSeq: 99},
		{Node: "lacks", LastTerm: 5, LastIndex: 700, Missing: []File{{}}},
		{Node: "new", LastTerm: 5, LastIndex: 700},
		{Node: "short", LastTerm: 5, LastIndex: 699},
	}
	slices.SortStableFunc(reports, Compare)
	var got []string
	for _, r := range reports {
		got = append(got, r.Node)
	}
	if want := "new lacks short long"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}
