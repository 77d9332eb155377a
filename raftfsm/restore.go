package raftfsm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"unsafe"

	"chorale/message"
	"chorale/raftfsm/frames"
	"chorale/raftfsm/level"
	"chorale/raftfsm/plans"
	"chorale/segments"
	"chorale/topic"
)

// restored is a snapshot that was read and checked completely, before anything of
// the state machine is touched.
type restored struct {
	state     state
	present   uint32 // names that the table has already
	names     []byte // of the further topics, one behind the other
	ends      []int  // of each of them within names
	manifest  segments.Manifest
	stretches []segments.Stretch
}

// Restore implements raft.FSM. A damaged snapshot changes nothing; a disk error, and
// one that this build does not read, stop the state machine. The names known here must be the first ones of the
// snapshot: ids are given in log order, so a table is only ever continued, and
// readers may keep theirs.
func (f *FSM) Restore(r io.ReadCloser) error {
	if f.halted != nil {
		return f.halted
	}
	s, err := f.readSnapshot(r)
	switch {
	case errors.Is(err, ErrNewer), errors.As(err, new(*level.Error)):
		return f.stop(err).Err
	case err != nil:
		return err
	}
	if err := f.install(s); err != nil {
		return f.stop(fmt.Errorf("restoring a snapshot: %w", err)).Err
	}
	return nil
}

func (f *FSM) readSnapshot(r io.Reader) (*restored, error) {
	fr := frames.NewReader(r, f.reads.Highest.Snapshot())
	s := &restored{state: state{producers: newProducers()}, present: f.topics.Len()}
	s.readState(fr, f.reads)
	s.readTopics(fr, f.topics)
	s.readProducers(fr)
	s.readManifest(fr)
	s.readStretches(fr)
	return s, fr.End()
}

func (s *restored) readState(r *frames.Reader, own level.Range) {
	r.Begin(frames.State)
	var b [genesisBytes]byte
	r.Full(b[:])
	s.state.genesis = readGenesis(b[:])
	s.state.index = r.Uvarint()
	s.state.seq = r.Uvarint()
	s.state.time = int64(r.UpTo(math.MaxInt64))
	if g := s.state.genesis; g != (Genesis{}) {
		if err := g.validate(); err != nil {
			r.Fail("%w", err)
		}
	} else if s.state.seq != 0 {
		r.Fail("%d messages without a genesis", s.state.seq)
	}
	if r.Version >= 2 {
		s.state.plan = plans.Read(r, s.state.index, s.state.seq)
	}
	if r.Version >= 3 {
		s.state.retention = Retention{Age: int64(r.UpTo(math.MaxInt64)), Bytes: int64(r.UpTo(math.MaxInt64))}
		if r.Version == 3 && s.state.retention == (Retention{}) {
			r.Fail("a retention without a limit")
		}
	}
	if r.Version >= 4 {
		s.readMembers(r)
	}
	if r.Version >= 5 {
		s.readLevel(r, own)
	}
	if r.Version >= 6 {
		s.readKept(r)
	}
}

func (s *restored) readTopics(r *frames.Reader, known *topic.Table) {
	r.Begin(frames.Topics)
	count := uint32(r.UpTo(math.MaxUint32 - 1))
	if r.Err == nil && count < s.present {
		r.Fail("%d topics where this node knows %d", count, s.present)
	}
	var name [topic.MaxBytes]byte
	for id := uint32(0); id < count && r.Err == nil; id++ {
		n := name[:r.UpTo(topic.MaxBytes)]
		r.Full(n)
		t := TopicStats{Messages: r.Uvarint(), Bytes: r.Uvarint(), LastSeq: r.UpTo(s.state.seq)}
		if r.Err != nil {
			return
		}
		if t.LastSeq == 0 || t.Messages == 0 || t.Messages > t.LastSeq {
			r.Fail("topic %d has %d messages up to seq %d", id, t.Messages, t.LastSeq)
		}
		if id < s.present {
			if want := known.Name(id); string(n) != want {
				r.Fail("topic %d is %q where this node knows it as %q", id, n, want)
			}
		} else if err := topic.Validate(unsafe.String(unsafe.SliceData(n), len(n))); err != nil {
			r.Fail("topic %d: %w", id, err)
		} else {
			s.names = append(s.names, n...)
			s.ends = append(s.ends, len(s.names))
		}
		s.state.stats.Grow(1)
		*s.state.stats.Edit(id) = t
	}
}

func (s *restored) readProducers(r *frames.Reader) {
	r.Begin(frames.Producers)
	table := s.state.producers
	seen := int64(0)
	for count := r.UpTo(MaxProducers); count > 0 && r.Err == nil; count-- {
		var p producer
		r.Full(p.id[:])
		p.last = r.Uvarint()
		p.seen = int64(r.UpTo(uint64(s.state.time)))
		older := r.UpTo(OutcomeWindow + 1)
		for range older {
			if p.runs = append(p.runs, s.readRun(r)); r.Err != nil {
				return
			}
		}
		if p.newest = s.readRun(r); r.Err != nil {
			return
		}
		if _, twice := table.index[p.id]; twice || p.id == (message.ProducerID{}) || p.seen < seen {
			r.Fail("producer %x is there twice or out of order", p.id)
			return
		}
		seen = p.seen
		if err := p.number(); err != nil {
			r.Fail("producer %x: %w", p.id, err)
			return
		}
		table.put(p)
	}
	if table.runs > MaxRuns {
		r.Fail("%d runs of outcomes: at most %d are possible", table.runs, MaxRuns)
	}
}

func (s *restored) readRun(r *frames.Reader) run {
	v := run{
		kind:   OutcomeKind(r.UpTo(uint64(ConditionFailed))),
		units:  uint32(r.UpTo(maxRunUnits)),
		seq:    r.UpTo(s.state.seq),
		detail: uint32(r.UpTo(message.MaxBatchMessages)),
	}
	stored := v.kind == Stored && v.detail > 0 && v.seq > 0
	if r.Err == nil && (v.units == 0 || !stored && v.kind != ConditionFailed) {
		r.Fail("run of %d units of outcome %v", v.units, v.kind)
	}
	return v
}

func (s *restored) readManifest(r *frames.Reader) {
	r.Begin(frames.Manifest)
	// The length is not trusted: the buffer grows with what is there.
	var b bytes.Buffer
	io.CopyN(&b, sectionBytes{r}, int64(r.UpTo(math.MaxInt32)))
	if r.Err != nil {
		return
	}
	m, err := segments.DecodeManifest(b.Bytes())
	switch {
	case errors.Is(err, segments.ErrNewer):
		r.Err = fmt.Errorf("%w: snapshot: %w", ErrNewer, err)
	case err != nil:
		r.Fail("%w", err)
	case m.End() > s.state.seq:
		r.Fail("files up to seq %d, the stream has %d messages", m.End(), s.state.seq)
	case s.state.plan.Index != 0 && !s.state.plan.Fits(m):
		r.Fail("%w", ErrPlanInputs)
	}
	s.manifest = m
}

// sectionBytes is a frames.Reader as an io.Reader.
type sectionBytes struct{ r *frames.Reader }

func (s sectionBytes) Read(b []byte) (int, error) {
	s.r.Full(b)
	return len(b), s.r.Err
}

func (s *restored) readStretches(r *frames.Reader) {
	r.Begin(frames.Stretches)
	next := s.manifest.End() + 1
	for i, count := uint64(0), r.Uvarint(); i < count && r.Err == nil; i++ {
		t := segments.Stretch{First: r.Uvarint(), Last: r.UpTo(s.state.seq), Closed: r.UpTo(1) == 1}
		if r.Err == nil && (t.First > t.Last || t.First != next && (i > 0 || t.First > next || t.First == 0)) {
			r.Fail("stretch from %d to %d where one from %d belongs", t.First, t.Last, next)
		}
		next = t.Last + 1
		s.readRecords(r, &t)
		s.stretches = append(s.stretches, t)
	}
	if r.Err == nil && next != s.state.seq+1 {
		r.Fail("the stretches end before seq %d, the stream has %d messages", next, s.state.seq)
	}
}

// readRecords reads and checks the records of a stretch.
func (s *restored) readRecords(r *frames.Reader, t *segments.Stretch) {
	var chunk []byte
	last := int64(0)
	for seq := t.First; seq <= t.Last && r.Err == nil; seq++ {
		var head [message.HeadBytes]byte
		r.Full(head[:])
		size := message.Record(head[:]).Size()
		if size <= message.HeadBytes || size > message.MaxRecordBytes {
			r.Fail("record %d of %d bytes", seq, size)
			return
		}
		stride := message.Stride(size)
		if cap(chunk)-len(chunk) < stride {
			if len(chunk) > 0 {
				t.Chunks = append(t.Chunks, chunk)
			}
			chunk = make([]byte, 0, max(stride, frames.MaxBytes))
		}
		start := len(chunk)
		chunk = append(chunk, head[:]...)
		chunk = chunk[:start+stride]
		r.Full(chunk[start+message.HeadBytes:])
		if r.Err != nil {
			return
		}
		if err := s.checkRecord(chunk[start:], size, seq, last); err != nil {
			r.Fail("record %d: %w", seq, err)
		}
		last = message.Record(chunk[start:]).Time()
	}
	if len(chunk) > 0 {
		t.Chunks = append(t.Chunks, chunk)
	}
}

func (s *restored) checkRecord(padded []byte, size int, seq uint64, last int64) error {
	rec := message.Record(padded[:size])
	if err := rec.Check(); err != nil {
		return err
	}
	for _, b := range padded[size:] {
		if b != 0 {
			return fmt.Errorf("padding is not zero")
		}
	}
	if rec.Seq() != seq || rec.Prev() >= seq || rec.Topic() >= s.state.stats.Len() || rec.Time() < last || rec.Time() > s.state.time {
		return fmt.Errorf("seq %d, prev %d, topic %d, time %d cannot stand here", rec.Seq(), rec.Prev(), rec.Topic(), rec.Time())
	}
	return nil
}

// install puts a checked snapshot in the place of the present state.
func (f *FSM) install(s *restored) error {
	f.topics.Reserve(uint32(len(s.ends)))
	start := 0
	for i, end := range s.ends {
		want := s.present + uint32(i)
		if id, fresh := f.topics.Intern(s.names[start:end]); !fresh || id != want {
			return fmt.Errorf("%w: topic %d of the snapshot has the name of topic %d", ErrCorrupt, want, id)
		}
		start = end
	}
	next := s.state.seq + 1
	if len(s.stretches) > 0 {
		next = s.stretches[0].First
	}
	// Before the files: who does not find a message there is to find its floor.
	f.floors.Store(s.state.kept.Floors)
	if err := f.history.Restore(s.manifest, next); err != nil {
		return err
	}
	if s.state.genesis != (Genesis{}) {
		f.history.SetTarget(s.state.genesis.SegmentBytes)
	}
	f.tip.Reset(next)
	for _, t := range s.stretches {
		f.appendStretch(t)
		if t.Closed {
			if err := f.history.Cut(); err != nil {
				return err
			}
		}
	}
	f.history.Publish()
	f.tip.Publish()
	f.mu.Lock()
	f.state = s.state
	f.mu.Unlock()
	f.setPlan(s.state.plan)
	f.setMembers(s.state.members)
	return nil
}

func (f *FSM) appendStretch(t segments.Stretch) {
	for _, records := range t.Chunks {
		for len(records) > 0 {
			r := first(records)
			p := f.topics.Partition(r.Topic())
			f.history.Append(p, r)
			f.tip.Append(p, r)
			records = skip(records, 1)
		}
	}
}
