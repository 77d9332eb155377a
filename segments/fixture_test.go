package segments

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"chorale/disk"
	"chorale/message"
	"chorale/segments/format"
	"chorale/segments/partial"
	"chorale/topic"
)

// stream makes messages and keeps the naive model beside them: a slice.
type stream struct {
	table *topic.Table
	log   *Log
	all   []message.Record // seq i+1 at i
	last  map[uint32]uint64
	time  int64
	fill  byte // of payloads
	warns []error
	// replayed is closed by who has brought a log that was opened again up to date.
	replayed chan struct{}
	// chapter is what buildLayer gives to stores; 0 for none.
	chapter uint32
	// floors are those of topics, by id: what lies below may be in a file or not.
	floors map[uint32]uint64
}

// left reports whether a message lies below no floor.
func (s *stream) left(r message.Record) bool { return r.Seq() >= s.floors[r.Topic()] }

// highest is the highest floor.
func (s *stream) highest() (seq uint64) {
	for _, f := range s.floors {
		seq = max(seq, f)
	}
	return seq
}

// drop lets floors rise over all that a store of the manifest has, and is the edit that takes
// it away.
func (s *stream) drop(m FileMeta, topics []format.TopicVolume) Edit {
	for _, t := range topics {
		s.floors[t.ID] = max(s.floors[t.ID], t.Last+1)
	}
	return Edit{Remove: []Hash{m.Hash}, Trims: true}
}

// hasLast reports whether a file with these topics has the last message of its range.
func hasLast(m FileMeta, topics []format.TopicVolume) bool {
	return slices.ContainsFunc(topics, func(t format.TopicVolume) bool { return t.Last == m.Last })
}

// importFile gives a log a copy of a file, as one that has come from a peer.
func importFile(l *Log, m FileMeta, b []byte) error {
	s, err := partial.Open(l.o.FS, "partial")
	if err != nil {
		return err
	}
	p, err := s.Resume(m)
	if err != nil {
		return err
	}
	if _, err := p.Write(b[min(p.Offset(), int64(len(b))):]); err != nil {
		return errors.Join(err, p.Drop())
	}
	return l.Import(p)
}

func newStream(t testing.TB, fsys disk.FS) *stream {
	s := &stream{table: topic.NewTable(), last: make(map[uint32]uint64), floors: make(map[uint32]uint64), time: 1000}
	s.reopen(t, fsys)
	return s
}

// reopen opens the log of a node with the same topics on a file system.
func (s *stream) reopen(t testing.TB, fsys disk.FS) {
	t.Helper()
	s.beginReplay(t, fsys)
	s.upToDate()
}

// beginReplay is reopen for who calls upToDate at the end of the Raft log.
func (s *stream) beginReplay(t testing.TB, fsys disk.FS) {
	t.Helper()
	l, err := s.open(fsys)
	check(t, err)
	s.log = l
}

func (s *stream) open(fsys disk.FS) (*Log, error) {
	s.replayed = make(chan struct{})
	return Open(Options{FS: fsys, Dir: "data", Topics: s.table, PendingStretches: 2, Replayed: s.replayed, Warn: func(err error) { s.warns = append(s.warns, err) }})
}

// upToDate says that the log is replayed, once or again.
func (s *stream) upToDate() {
	select {
	case <-s.replayed:
	default:
		close(s.replayed)
	}
}

// publish appends one message.
func (s *stream) publish(name string, payload int) {
	id, _ := s.table.Intern([]byte(name))
	seq := uint64(len(s.all) + 1)
	r := message.NewRecord(message.Draft{Payload: bytes.Repeat([]byte{s.fill}, payload)}, id, seq, s.last[id], s.time)
	s.last[id] = seq
	s.all = append(s.all, r)
	s.log.Append(s.table.Partition(id), r)
}

// entry publishes n messages with one time over topics drawn by pick.
func (s *stream) entry(n int, pick func() (name string, payload int)) {
	for range n {
		name, payload := pick()
		s.publish(name, payload)
	}
	s.log.Publish()
	s.time++
}

// build builds and installs all cut stretches, as a node alone in its cluster.
func (s *stream) build(t testing.TB) {
	t.Helper()
	for {
		more, err := s.log.BuildOne()
		check(t, err)
		if !more {
			break
		}
	}
	for _, m := range s.log.Proposals() {
		refused, mismatch := s.log.Install(Edit{Add: []FileMeta{m}})
		check(t, refused)
		check(t, mismatch)
	}
}

// want is the naive filter of the model.
func (s *stream) want(f *topic.Filters, after uint64) (out []uint64) {
	for _, r := range s.all {
		if r.Seq() > after && s.left(r) && f.Match(s.table.Name(r.Topic())) {
			out = append(out, r.Seq())
		}
	}
	return out
}

// read reads to the end, checks each record against the model, and returns the
// seqs.
func (s *stream) read(t testing.TB, f *topic.Filters, after uint64, limit int) (out []uint64, err error) {
	t.Helper()
	r := s.log.NewReader(topic.NewSelection(s.table, f), after)
	defer r.Close()
	for at := after; at < s.log.End(); {
		b, p, err := r.Read(nil, limit)
		if p.Scanned < at {
			t.Fatalf("scanned goes from %d back to %d", at, p.Scanned)
		}
		if p.Scanned == at && err == nil {
			t.Fatalf("no progress at %d of %d", at, s.log.End())
		}
		at = p.Scanned
		out = append(out, s.seqs(t, b, p.Count)...)
		if len(out) > 0 && out[len(out)-1] > at {
			t.Fatalf("delivered %d, scanned only %d", out[len(out)-1], at)
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// seqs splits records, which must be those of the model; so many, unless count is
// negative. What lies below floors is left out of the answer.
func (s *stream) seqs(t testing.TB, b []byte, count int) (out []uint64) {
	t.Helper()
	for len(b) > 0 {
		r, rest, err := message.Split(b)
		check(t, err)
		if want := s.all[r.Seq()-1]; !bytes.Equal(r, want) {
			t.Fatalf("seq %d is read with other bytes than were written", r.Seq())
		}
		out = append(out, r.Seq())
		b = rest
	}
	if count >= 0 && len(out) != count {
		t.Fatalf("%d records, count says %d", len(out), count)
	}
	return slices.DeleteFunc(out, func(seq uint64) bool { return !s.left(s.all[seq-1]) })
}

func filters(t testing.TB, list ...string) *topic.Filters {
	t.Helper()
	f, err := topic.ParseFilters(list...)
	check(t, err)
	return f
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// expect reads everything under the filters and compares with the model.
func (s *stream) expect(t testing.TB, after uint64, limit int, list ...string) {
	t.Helper()
	f := filters(t, list...)
	got, err := s.read(t, f, after, limit)
	check(t, err)
	if want := s.want(f, after); !slices.Equal(got, want) {
		t.Fatalf("%q behind %d: %d messages, want %d: %v, want %v", list, after, len(got), len(want), head(got), head(want))
	}
}

func head(s []uint64) []uint64 { return s[:min(len(s), 20)] }

// picker draws from topics of a small tree whose names test the tree order.
func picker(r *rand.Rand, payload int) func() (string, int) {
	return func() (string, int) {
		a, b := r.IntN(4), r.IntN(5)
		name := [...]string{
			"a", fmt.Sprintf("a-%d", b), fmt.Sprintf("a/%d", b), fmt.Sprintf("a/b%d/c%d", a, b), fmt.Sprintf("x%d/y/z%d", a, b),
		}[r.IntN(5)]
		return name, r.IntN(payload + 1)
	}
}

// meta describes a segment that is nowhere.
func meta(first, last uint64) FileMeta {
	return FileMeta{
		Kind: KindSegment, First: first, Last: last, FirstTime: int64(first), LastTime: int64(last),
		Messages: last - first + 1, Bytes: 1000, Hash: Hash{byte(first), byte(last)}, Sum: uint32(last),
	}
}
