package raftfsm

import (
	"bytes"
	"io"

	"chorale/disk"
	"chorale/raftfsm/level"
	"chorale/segments"
	"chorale/tip"
	"chorale/topic"

	"github.com/hashicorp/raft"
)

// tester is what testing.TB and rapid.T have in common, as far as needed.
type tester interface {
	Helper()
	Fatal(args ...any)
	Errorf(format string, args ...any)
}

// fixture is one replica without Raft.
type fixture struct {
	tb      tester
	disk    *disk.Mem
	topics  *topic.Table
	tip     *tip.Tip
	history *segments.Log
	fsm     *FSM
	halted  []error
	index   uint64
	reads   level.Range // zero: what this build does
}

var testCluster = ClusterID{1, 2, 3}

// newFixture has applied a genesis with that segment size; 0 means none.
func newFixture(tb tester, segmentBytes int64) *fixture {
	f := &fixture{tb: tb}
	f.restart(segmentBytes)
	return f
}

// restart begins again with nothing.
func (f *fixture) restart(segmentBytes int64) {
	f.disk = disk.NewMem(1)
	f.open()
	if segmentBytes > 0 {
		f.must(EncodeGenesis(Genesis{Cluster: testCluster, SegmentBytes: segmentBytes, ProducerRetention: 1000}))
	}
}

// open makes an empty state machine over the files that are there.
func (f *fixture) open() {
	f.topics, f.tip, f.halted, f.index = topic.NewTable(), tip.New(1<<20), nil, 0
	var err error
	f.history, err = segments.Open(segments.Options{FS: f.disk, Dir: "data", Topics: f.topics, PendingStretches: 2})
	if err != nil {
		f.tb.Fatal(err)
	}
	f.fsm = New(Options{
		Topics: f.topics, Tip: f.tip, History: f.history, Reads: f.reads,
		Halt:     func(err error) { f.halted = append(f.halted, err) },
		Mismatch: func(err error) { f.tb.Errorf("mismatch: %v", err) },
	})
}

// apply applies the next entry.
func (f *fixture) apply(data []byte) Result {
	f.index++
	return f.fsm.Apply(&raft.Log{Index: f.index, Data: data}).(Result)
}

// must is apply of what is not refused.
func (f *fixture) must(data []byte) Result {
	f.tb.Helper()
	r := f.apply(data)
	if r.Err != nil {
		f.tb.Fatal(r.Err)
	}
	return r
}

// build makes all files that can be made and commits their edits.
func (f *fixture) build() {
	f.tb.Helper()
	for {
		more, err := f.history.BuildOne()
		if err != nil {
			f.tb.Fatal(err)
		}
		if !more {
			break
		}
	}
	for _, m := range f.history.Proposals() {
		f.must(EncodeEdit(segments.Edit{Add: []segments.FileMeta{m}}))
	}
}

// sink is a raft.SnapshotSink in memory.
type sink struct {
	bytes.Buffer
	closed, cancelled bool
}

func (s *sink) ID() string    { return "sink" }
func (s *sink) Close() error  { s.closed = true; return nil }
func (s *sink) Cancel() error { s.cancelled = true; return nil }

func (f *fixture) snapshot() []byte {
	f.tb.Helper()
	s, err := f.fsm.Snapshot()
	if err != nil {
		f.tb.Fatal(err)
	}
	defer s.Release()
	var to sink
	if err := s.Persist(&to); err != nil || !to.closed {
		f.tb.Fatal(err, to.closed)
	}
	return to.Bytes()
}

func (f *fixture) restore(b []byte) error {
	err := f.fsm.Restore(io.NopCloser(bytes.NewReader(b)))
	if err == nil {
		f.index = f.fsm.View().Index
	}
	return err
}
