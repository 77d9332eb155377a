package raftfsm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"chorale/message"
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

// Restore implements raft.FSM. A damaged snapshot changes nothing; a disk error
// stops the state machine. The names known here must be the first ones of the
// snapshot: ids are given in log order, so a table is only ever continued, and
// readers may keep theirs.
func (f *FSM) Restore(r io.ReadCloser) error {
	if f.halted != nil {
		return f.halted
	}
	s, err := f.readSnapshot(r)
	if err != nil {
		return err
	}
	if err := f.install(s); err != nil {
		return f.stop(fmt.Errorf("restoring a snapshot: %w", err)).Err
	}
	return nil
}

func (f *FSM) readSnapshot(r io.Reader) (*restored, error) {
	fr := newFrameReader(r)
	s := &restored{state: state{producers: newProducers()}, present: f.topics.Len()}
	s.readState(fr)
	s.readTopics(fr, f.topics)
	s.readProducers(fr)
	s.readManifest(fr)
	s.readStretches(fr)
	return s, fr.end()
}

func (s *restored) readState(r *frameReader) {
	r.begin(sectionState)
	var b [genesisBytes]byte
	r.full(b[:])
	s.state.genesis = readGenesis(b[:])
	s.state.index = r.uvarint()
	s.state.seq = r.uvarint()
	s.state.time = int64(r.upTo(math.MaxInt64))
	if g := s.state.genesis; g != (Genesis{}) {
		if err := g.validate(); err != nil {
			r.fail("%w", err)
		}
	} else if s.state.seq != 0 {
		r.fail("%d messages without a genesis", s.state.seq)
	}
	if r.version >= 2 {
		s.state.plan = s.readPlan(r)
	}
}

func (s *restored) readPlan(r *frameReader) (p ActivePlan) {
	if p.Index = r.upTo(s.state.index); p.Index == 0 {
		r.fail("a plan without an entry")
	}
	p.Stores = uint32(r.upTo(maxPlanStores))
	for count := r.upTo(maxPlanInputs); count > 0 && r.err == nil; count-- {
		var h segments.Hash
		r.full(h[:])
		p.Inputs = append(p.Inputs, h)
	}
	if err := p.check(); err != nil && r.err == nil {
		r.fail("%w", err)
	}
	return p
}

func (s *restored) readTopics(r *frameReader, known *topic.Table) {
	r.begin(sectionTopics)
	count := uint32(r.upTo(math.MaxUint32 - 1))
	if r.err == nil && count < s.present {
		r.fail("%d topics where this node knows %d", count, s.present)
	}
	var name [topic.MaxBytes]byte
	for id := uint32(0); id < count && r.err == nil; id++ {
		n := name[:r.upTo(topic.MaxBytes)]
		r.full(n)
		t := TopicStats{Messages: r.uvarint(), Bytes: r.uvarint(), LastSeq: r.upTo(s.state.seq)}
		if r.err != nil {
			return
		}
		if t.LastSeq == 0 || t.Messages == 0 || t.Messages > t.LastSeq {
			r.fail("topic %d has %d messages up to seq %d", id, t.Messages, t.LastSeq)
		}
		if id < s.present {
			if want := known.Name(id); string(n) != want {
				r.fail("topic %d is %q where this node knows it as %q", id, n, want)
			}
		} else if err := topic.Validate(string(n)); err != nil {
			r.fail("topic %d: %w", id, err)
		} else {
			s.names = append(s.names, n...)
			s.ends = append(s.ends, len(s.names))
		}
		s.state.stats.grow(1)
		*s.state.stats.edit(id) = t
	}
}

func (s *restored) readProducers(r *frameReader) {
	r.begin(sectionProducers)
	table := s.state.producers
	seen := int64(0)
	for count := r.upTo(MaxProducers); count > 0 && r.err == nil; count-- {
		var p producer
		r.full(p.id[:])
		p.last = r.uvarint()
		p.seen = int64(r.upTo(uint64(s.state.time)))
		older := r.upTo(OutcomeWindow + 1)
		for range older {
			if p.runs = append(p.runs, s.readRun(r)); r.err != nil {
				return
			}
		}
		if p.newest = s.readRun(r); r.err != nil {
			return
		}
		if _, twice := table.index[p.id]; twice || p.id == (message.ProducerID{}) || p.seen < seen {
			r.fail("producer %x is there twice or out of order", p.id)
			return
		}
		seen = p.seen
		if err := p.number(); err != nil {
			r.fail("producer %x: %w", p.id, err)
			return
		}
		table.put(p)
	}
	if table.runs > MaxRuns {
		r.fail("%d runs of outcomes: at most %d are possible", table.runs, MaxRuns)
	}
}

func (s *restored) readRun(r *frameReader) run {
	v := run{
		kind:   OutcomeKind(r.upTo(uint64(ConditionFailed))),
		units:  uint32(r.upTo(maxRunUnits)),
		seq:    r.upTo(s.state.seq),
		detail: uint32(r.upTo(message.MaxBatchMessages)),
	}
	stored := v.kind == Stored && v.detail > 0 && v.seq > 0
	if r.err == nil && (v.units == 0 || !stored && v.kind != ConditionFailed) {
		r.fail("run of %d units of outcome %v", v.units, v.kind)
	}
	return v
}

func (s *restored) readManifest(r *frameReader) {
	r.begin(sectionManifest)
	// The length is not trusted: the buffer grows with what is there.
	var b bytes.Buffer
	io.CopyN(&b, sectionBytes{r}, int64(r.upTo(math.MaxInt32)))
	if r.err != nil {
		return
	}
	m, err := segments.DecodeManifest(b.Bytes())
	switch {
	case errors.Is(err, segments.ErrNewer):
		r.err = fmt.Errorf("%w: snapshot: %w", ErrNewer, err)
	case err != nil:
		r.fail("%w", err)
	case m.End() > s.state.seq:
		r.fail("files up to seq %d, the stream has %d messages", m.End(), s.state.seq)
	case s.state.plan.Index != 0 && !s.state.plan.fits(m):
		r.fail("%w", ErrPlanInputs)
	}
	s.manifest = m
}

// sectionBytes is a frameReader as an io.Reader.
type sectionBytes struct{ r *frameReader }

func (s sectionBytes) Read(b []byte) (int, error) {
	s.r.full(b)
	return len(b), s.r.err
}

func (s *restored) readStretches(r *frameReader) {
	r.begin(sectionStretches)
	next := s.manifest.End() + 1
	for i, count := uint64(0), r.uvarint(); i < count && r.err == nil; i++ {
		t := segments.Stretch{First: r.uvarint(), Last: r.upTo(s.state.seq), Closed: r.upTo(1) == 1}
		if r.err == nil && (t.First > t.Last || t.First != next && (i > 0 || t.First > next || t.First == 0)) {
			r.fail("stretch from %d to %d where one from %d belongs", t.First, t.Last, next)
		}
		next = t.Last + 1
		s.readRecords(r, &t)
		s.stretches = append(s.stretches, t)
	}
	if r.err == nil && next != s.state.seq+1 {
		r.fail("the stretches end before seq %d, the stream has %d messages", next, s.state.seq)
	}
}

// readRecords reads and checks the records of a stretch.
func (s *restored) readRecords(r *frameReader, t *segments.Stretch) {
	var chunk []byte
	last := int64(0)
	for seq := t.First; seq <= t.Last && r.err == nil; seq++ {
		var head [message.HeadBytes]byte
		r.full(head[:])
		size := message.Record(head[:]).Size()
		if size <= message.HeadBytes || size > message.MaxRecordBytes {
			r.fail("record %d of %d bytes", seq, size)
			return
		}
		stride := message.Stride(size)
		if cap(chunk)-len(chunk) < stride {
			if len(chunk) > 0 {
				t.Chunks = append(t.Chunks, chunk)
			}
			chunk = make([]byte, 0, max(stride, maxFrameBytes))
		}
		start := len(chunk)
		chunk = append(chunk, head[:]...)
		chunk = chunk[:start+stride]
		r.full(chunk[start+message.HeadBytes:])
		if r.err != nil {
			return
		}
		if err := s.checkRecord(chunk[start:], size, seq, last); err != nil {
			r.fail("record %d: %w", seq, err)
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
	if rec.Seq() != seq || rec.Prev() >= seq || rec.Topic() >= s.state.stats.count || rec.Time() < last || rec.Time() > s.state.time {
		return fmt.Errorf("seq %d, prev %d, topic %d, time %d cannot stand here", rec.Seq(), rec.Prev(), rec.Topic(), rec.Time())
	}
	return nil
}

// install puts a checked snapshot in the place of the present state.
func (f *FSM) install(s *restored) error {
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
