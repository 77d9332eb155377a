package raftfsm

import (
	"fmt"
	"slices"
	"testing"

	"chorale/disk"
	"chorale/message"

	"pgregory.net/rapid"
)

// model is the state machine in maps and slices. It knows nothing of batches'
// encoding, runs, pages or files, and forgets producers as slowly as it likes.
type model struct {
	time      int64
	messages  []modelMessage
	topics    []string // in order of id
	last      map[string]uint64
	producers []*modelProducer // by last activity
	retention int64
	limit     int
}

type modelMessage struct {
	topic, payload string
	prev           uint64
	time           int64
}

type modelProducer struct {
	id       string
	seen     int64
	outcomes []Outcome // of each number; Stored as a retry sees it: Duplicate
}

type modelUnit []modelEntry

type modelEntry struct {
	topic, payload string
	expected       *uint64
}

type modelBatch struct {
	producer string
	number   uint64
	units    []modelUnit
}

func (b modelBatch) encode() []byte {
	var builder message.Builder
	var id message.ProducerID
	copy(id[:], b.producer)
	for i, u := range b.units {
		var unit []message.Entry
		for _, e := range u {
			unit = append(unit, message.Entry{Topic: e.topic, Draft: message.Draft{Payload: []byte(e.payload)}, Expected: e.expected})
		}
		number := uint64(0)
		if b.producer != "" {
			number = b.number + uint64(i)
		}
		builder.Add(number, unit...)
	}
	return builder.Encode(nil, id)
}

// publish returns one outcome a unit of each batch.
func (m *model) publish(now int64, batches []modelBatch) [][]Outcome {
	m.time = max(m.time, now)
	m.producers = slices.DeleteFunc(m.producers, func(p *modelProducer) bool { return p.seen < m.time-m.retention })
	var out [][]Outcome
	for _, b := range batches {
		out = append(out, m.batch(b))
	}
	return out
}

func (m *model) batch(b modelBatch) []Outcome {
	if b.producer == "" {
		var out []Outcome
		for _, u := range b.units {
			out = append(out, m.unit(u))
		}
		return out
	}
	i := slices.IndexFunc(m.producers, func(p *modelProducer) bool { return p.id == b.producer })
	var p *modelProducer
	switch {
	case i >= 0:
		p = m.producers[i]
		m.producers = slices.Delete(m.producers, i, i+1)
	case b.number != 1:
		return slices.Repeat([]Outcome{{Kind: ProducerUnknown}}, len(b.units))
	default:
		p = &modelProducer{id: b.producer}
		if len(m.producers) == m.limit {
			m.producers = m.producers[1:]
		}
	}
	p.seen = m.time
	m.producers = append(m.producers, p)
	var out []Outcome
	for j, u := range b.units {
		number := b.number + uint64(j)
		switch last := uint64(len(p.outcomes)); {
		case number > last+1:
			out = append(out, Outcome{Kind: NumberGap, Seq: last + 1})
		case number <= last:
			out = append(out, p.outcomes[number-1])
		default:
			v := m.unit(u)
			out = append(out, v)
			if v.Kind == Stored {
				v.Kind = Duplicate
			}
			p.outcomes = append(p.outcomes, v)
		}
	}
	return out
}

func (m *model) unit(u modelUnit) Outcome {
	for i, e := range u {
		if e.expected != nil && m.last[e.topic] != *e.expected {
			return Outcome{Kind: ConditionFailed, Seq: m.last[e.topic], Index: uint32(i)}
		}
	}
	v := Outcome{Kind: Stored, Seq: uint64(len(m.messages) + 1)}
	for _, e := range u {
		if m.last[e.topic] == 0 {
			m.topics = append(m.topics, e.topic)
		}
		m.messages = append(m.messages, modelMessage{e.topic, e.payload, m.last[e.topic], m.time})
		m.last[e.topic] = uint64(len(m.messages))
	}
	return v
}

// expand turns the outcomes of a batch back into one a unit, as a client does.
func expand(list []Outcome, units []modelUnit) ([]Outcome, error) {
	var out []Outcome
	for _, o := range list {
		seq := o.Seq
		for range o.Units {
			if len(units) == 0 {
				return nil, fmt.Errorf("outcomes for more units than there are: %v", list)
			}
			v := Outcome{Kind: o.Kind, Seq: seq, Index: o.Index}
			if o.Kind == Stored || o.Kind == Duplicate {
				seq += uint64(len(units[0]))
			}
			out, units = append(out, v), units[1:]
		}
	}
	if len(units) > 0 {
		return nil, fmt.Errorf("%d units without an outcome", len(units))
	}
	return out, nil
}

// TestModel compares the state machine with the model through random entries,
// retries, conditions, cuts, builds and restarts from snapshots.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &fixture{tb: t, disk: disk.NewMem(1)}
		f.open()
		f.must(EncodeGenesis(Genesis{Cluster: testCluster, SegmentBytes: 600, ProducerRetention: 40}))
		m := &model{last: make(map[string]uint64), retention: 40, limit: 3}
		f.fsm.state.producers.maxProducers = m.limit
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				f.build()
			case 1:
				snapshot := f.snapshot()
				f.open()
				if err := f.restore(snapshot); err != nil {
					t.Fatal(err)
				}
				f.fsm.state.producers.maxProducers = m.limit
			default:
				comparePublish(t, f, m)
			}
		}
		compareState(t, f, m)
	})
}

func comparePublish(t *rapid.T, f *fixture, m *model) {
	now := m.time + int64(rapid.IntRange(-5, 20).Draw(t, "time"))
	var batches []modelBatch
	var encoded [][]byte
	for range rapid.IntRange(1, 3).Draw(t, "batches") {
		b := drawBatch(t, m)
		batches = append(batches, b)
		encoded = append(encoded, b.encode())
	}
	entry := EncodePublish(now, encoded)
	before := slices.Clone(entry)
	r := f.must(entry)
	if !slices.Equal(entry, before) {
		t.Fatal("the entry's bytes were changed")
	}
	for i, want := range m.publish(now, batches) {
		got, err := expand(r.Outcomes[i], batches[i].units)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("batch %v: got %v, want %v", batches[i], got, want)
		}
	}
}

func drawBatch(t *rapid.T, m *model) modelBatch {
	b := modelBatch{producer: rapid.SampledFrom([]string{"", "p", "q", "r", "s"}).Draw(t, "producer")}
	if b.producer != "" {
		next := uint64(1)
		for _, p := range m.producers {
			if p.id == b.producer {
				next = uint64(len(p.outcomes)) + 1
			}
		}
		back := rapid.IntRange(-1, 4).Draw(t, "back")
		b.number = uint64(max(1, int(next)-back))
	}
	for range rapid.IntRange(1, 4).Draw(t, "units") {
		b.units = append(b.units, drawUnit(t, m))
	}
	return b
}

func drawUnit(t *rapid.T, m *model) (u modelUnit) {
	for range rapid.IntRange(1, 3).Draw(t, "messages") {
		e := modelEntry{
			topic:   rapid.SampledFrom([]string{"a", "b/c", "b/d", "b/c/e", "f/g/h", "f/g/i"}).Draw(t, "topic"),
			payload: rapid.SampledFrom([]string{"", "x", "some longer payload"}).Draw(t, "payload"),
		}
		switch rapid.IntRange(0, 7).Draw(t, "condition") {
		case 0, 1:
			last := m.last[e.topic]
			e.expected = &last
		case 2:
			e.expected = new(uint64)
			*e.expected = uint64(rapid.IntRange(0, 9).Draw(t, "expected"))
		}
		u = append(u, e)
	}
	return u
}

func compareState(t *rapid.T, f *fixture, m *model) {
	var got []modelMessage
	volumes := make(map[string]TopicStats)
	for i, r := range f.stream() {
		if err := r.Check(); err != nil || r.Seq() != uint64(i+1) {
			t.Fatalf("message %d has seq %d: %v", i, r.Seq(), err)
		}
		name := f.topics.Name(r.Topic())
		got = append(got, modelMessage{name, string(r.Payload()), r.Prev(), r.Time()})
		v := volumes[name]
		volumes[name] = TopicStats{Messages: v.Messages + 1, Bytes: v.Bytes + uint64(message.Stride(len(r))), LastSeq: r.Seq()}
	}
	if !slices.Equal(got, m.messages) {
		t.Fatalf("stream is %v, want %v", got, m.messages)
	}
	var names []string
	f.fsm.EachTopic(0, 1<<20, func(id uint32, s TopicStats) {
		name := f.topics.Name(id)
		names = append(names, name)
		if s != volumes[name] {
			t.Fatalf("topic %s has %+v, want %+v", name, s, volumes[name])
		}
	})
	if !slices.Equal(names, m.topics) || int(f.topics.Len()) != len(names) {
		t.Fatalf("topics are %v, want %v", names, m.topics)
	}
	v := f.fsm.View()
	if v.LastSeq != uint64(len(m.messages)) || v.LastTime != m.time || v.Producers != len(m.producers) || f.tip.Head() != v.LastSeq {
		t.Fatalf("view is %+v, tip ends at %d", v, f.tip.Head())
	}
	for _, p := range m.producers {
		var id message.ProducerID
		copy(id[:], p.id)
		if last, ok := f.fsm.Producer(id); !ok || last != uint64(len(p.outcomes)) {
			t.Fatalf("producer %s has come to %d, want %d", p.id, last, len(p.outcomes))
		}
	}
}
