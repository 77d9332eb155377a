package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"chorale/disk"
	"chorale/message"
	"chorale/raftfsm"
	"chorale/segments"
	"chorale/tip"
	"chorale/topic"

	"github.com/hashicorp/raft"
)

// cluster is a state machine and its history, without Raft: a Source.
type cluster struct {
	t       *testing.T
	disk    *disk.Mem
	history *segments.Log
	fsm     *raftfsm.FSM
	index   uint64
	number  uint64 // of the producer

	// afterState runs when a state was read, before any file of it.
	afterState func()
	files      int   // that were asked for
	broken     error // what State and File fail with
	spoilt     bool  // files are given with a wrong byte
}

func newCluster(t *testing.T, id byte) *cluster {
	c := &cluster{t: t, disk: disk.NewMem(1)}
	topics := topic.NewTable()
	var err error
	c.history, err = segments.Open(segments.Options{FS: c.disk, Dir: "data", Topics: topics, PendingStretches: 2})
	if err != nil {
		t.Fatal(err)
	}
	c.fsm = raftfsm.New(raftfsm.Options{Topics: topics, Tip: tip.New(1 << 20), History: c.history})
	c.apply(raftfsm.EncodeGenesis(raftfsm.Genesis{Cluster: raftfsm.ClusterID{id}, SegmentBytes: 1_000}))
	return c
}

func (c *cluster) apply(entry []byte) {
	c.t.Helper()
	c.index++
	if r := c.fsm.Apply(&raft.Log{Index: c.index, Data: entry}).(raftfsm.Result); r.Err != nil {
		c.t.Fatal(r.Err)
	}
}

// publish stores n messages of one producer, in entries of one message.
func (c *cluster) publish(n int) {
	for range n {
		c.number++
		var b message.Builder
		b.Add(c.number, message.Entry{
			Topic: fmt.Sprintf("a/%d", c.number%3),
			Draft: message.Draft{Payload: bytes.Repeat([]byte{byte(c.number)}, 100)},
		})
		c.apply(raftfsm.EncodePublish(int64(c.number), [][]byte{b.Encode(nil, message.ProducerID{7})}))
	}
	for {
		more, err := c.history.BuildOne()
		if err != nil {
			c.t.Fatal(err)
		}
		if !more {
			break
		}
	}
	for _, m := range c.history.Proposals() {
		c.apply(raftfsm.EncodeEdit(segments.Edit{Add: []segments.FileMeta{m}}))
	}
}

// expire lets the oldest file go, wholly.
func (c *cluster) expire() {
	c.t.Helper()
	c.apply(raftfsm.EncodeEdit(segments.Edit{Remove: []segments.Hash{c.history.Manifest().Files[0].Hash}}))
	if _, err := c.history.BuildOne(); err != nil { // sweeps
		c.t.Fatal(err)
	}
}

// sink is a writer as a raft.SnapshotSink.
type sink struct{ io.Writer }

func (sink) ID() string    { return "" }
func (sink) Close() error  { return nil }
func (sink) Cancel() error { return nil }

func (c *cluster) State(_ context.Context, w io.Writer) (string, error) {
	if c.broken != nil {
		return "", c.broken
	}
	s, err := c.fsm.Snapshot()
	if err != nil {
		return "", err
	}
	defer s.Release()
	if err := s.Persist(sink{w}); err != nil {
		return "", err
	}
	if c.afterState != nil {
		c.afterState()
	}
	return "n1", nil
}

func (c *cluster) File(_ context.Context, h segments.Hash, w io.Writer) error {
	c.files++
	f, meta, err := c.history.OpenFile(h)
	if errors.Is(err, segments.ErrNotHere) {
		return ErrGone
	}
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, meta.Bytes)
	if _, err := f.ReadAt(b, 0); err != nil {
		return err
	}
	if c.spoilt {
		b[len(b)/2] ^= 1
	}
	_, err = w.Write(b)
	return err
}

// take backs the cluster up.
func (c *cluster) take(to disk.FS) (Taken, error) {
	return Take{To: to, Source: c, Version: "test", Pause: 1}.Run(context.Background())
}

func (c *cluster) mustTake(to disk.FS) Taken {
	c.t.Helper()
	took, err := c.take(to)
	if err != nil {
		c.t.Fatal(err)
	}
	return took
}

// sound verifies a backup that must be whole, and is its seq.
func sound(t *testing.T, fsys disk.FS) uint64 {
	t.Helper()
	d, bad, err := verify(fsys)
	if err != nil || len(bad) > 0 {
		t.Fatal(err, bad)
	}
	return d.Seq
}

func verify(fsys disk.FS) (Description, []BadFile, error) {
	return Verify(context.Background(), fsys, func(int64, int64) {})
}

// target is a Target in memory: founded says what a node would start with.
type target struct {
	fs      disk.FS
	founded *raftfsm.Saved
}

func (x *target) Files() disk.FS { return x.fs }
func (x *target) Dir() string    { return "segments" }
func (x *target) Close() error   { return nil }
func (x *target) Found(s *raftfsm.Saved) (raftfsm.ClusterID, error) {
	x.founded = s
	return raftfsm.ClusterID{1}, nil
}

func restore(from disk.FS, to *target) error {
	_, _, err := Restore{From: from, Open: func(string) (Target, error) { return to, nil }}.Run(context.Background())
	return err
}
