package raftfsm

import (
	"fmt"
	"slices"
	"unsafe"

	"chorale/message"
	"chorale/raftfsm/outcome"
	"chorale/topic"
)

// scratch is memory that Apply uses again for every entry.
type scratch struct {
	entry   Entry
	batches []message.Batch
	topics  []place // of all batches' tables, one behind the other
	ids     []uint32
	record  []byte // the one that is being stamped
}

// place is where the messages of one entry of a batch's topic table go.
type place struct {
	id, partition uint32 // id is topic.Unknown as long as the topic does not exist
}

// applyPublish decides and stores the units of all batches. An error is damage
// found before anything was changed, or the disk's.
func (f *FSM) applyPublish(e *Entry) (Result, error) {
	if f.state.genesis == (Genesis{}) {
		return Result{Err: ErrNoGenesis}, nil
	}
	if err := f.readBatches(e.Batches); err != nil {
		return Result{}, err
	}
	r := Result{Outcomes: make([][]Outcome, 0, len(e.Batches))}
	f.mu.Lock()
	f.advance(e.Time)
	out := outcome.NewList(len(e.Batches))
	topics := f.scratch.topics
	for i := range f.scratch.batches {
		b := &f.scratch.batches[i]
		out.Begin()
		f.applyBatch(b, topics[:len(b.Topics)], &out)
		r.Outcomes = append(r.Outcomes, out.Batch())
		topics = topics[len(b.Topics):]
	}
	f.mu.Unlock()
	f.history.Publish()
	f.tip.Publish()
	return r, f.history.CutIfFull()
}

// readBatches parses all batches and finds their topics, so that damage is found
// before anything changes.
func (f *FSM) readBatches(batches [][]byte) error {
	s := &f.scratch
	clear(s.batches)
	s.batches, s.topics = s.batches[:0], s.topics[:0]
	for i, raw := range batches {
		b, err := message.ReadBatch(raw)
		if err != nil {
			return fmt.Errorf("%w: batch %d: %w", ErrCorrupt, i, err)
		}
		s.ids = slices.Grow(s.ids[:0], len(b.Topics))[:len(b.Topics)]
		f.topics.LookupAll(b.Topics, s.ids)
		for k, name := range b.Topics {
			p := place{id: s.ids[k]}
			if p.id != topic.Unknown {
				p.partition = f.topics.Partition(p.id)
				// This also brings the stats of many topics near at a time; store comes to one
				// after the other.
				if last := f.state.stats.At(p.id).LastSeq; last > f.state.seq {
					panic(fmt.Sprintf("raftfsm: topic %d has seq %d, the stream ends at %d", p.id, last, f.state.seq))
				}
			} else if err := topic.Validate(string(name)); err != nil {
				return fmt.Errorf("%w: batch %d: %w", ErrCorrupt, i, err)
			}
			s.topics = append(s.topics, p)
		}
		s.batches = append(s.batches, b)
	}
	return nil
}

// find looks a topic up; the table keeps no reference to the name.
func (f *FSM) find(name []byte) place {
	id, ok := f.topics.Lookup(unsafe.String(unsafe.SliceData(name), len(name)))
	if !ok {
		return place{id: topic.Unknown}
	}
	return place{id: id, partition: f.topics.Partition(id)}
}

// advance moves the stream's time, which never falls, and forgets who was idle
// for too long by it.
func (f *FSM) advance(now int64) {
	s := &f.state
	s.time = max(s.time, now)
	if keep := s.genesis.ProducerRetention; keep > 0 {
		s.producers.expire(s.time - keep)
	}
}

// applyBatch decides the units of one batch in order.
func (f *FSM) applyBatch(b *message.Batch, topics []place, out *outcome.List) {
	slot := none
	if b.Producer != (message.ProducerID{}) {
		var refusal Outcome
		if slot, refusal = f.admit(b); slot == none {
			for rest := b.Records; len(rest) > 0; {
				n := first(rest).UnitLeft()
				out.Add(refusal, n)
				rest = skip(rest, n)
			}
			return
		}
	}
	for rest := b.Records; len(rest) > 0; {
		r := first(rest)
		n := r.UnitLeft()
		if slot != none {
			if p := f.state.producers.slots.At(slot); r.Number() <= p.last {
				out.Add(p.recall(r.Number()), n)
				rest = skip(rest, n)
				continue
			}
		}
		v := f.check(rest, n, b.Topics, topics)
		if v.Kind == Stored {
			rest = f.store(rest, n, b.Topics, topics)
		} else {
			rest = skip(rest, n)
		}
		if slot != none {
			f.state.producers.record(slot, v, n)
		}
		out.Add(v, n)
	}
}

// admit finds the batch's producer or says why the whole batch is refused: its
// numbers rise by one, so the first one decides.
func (f *FSM) admit(b *message.Batch) (slot uint32, refusal Outcome) {
	number := first(b.Records).Number()
	slot, known := f.state.producers.touch(b.Producer, f.state.time)
	switch {
	case known && number > f.state.producers.slots.At(slot).last+1:
		return none, Outcome{Kind: NumberGap, Seq: f.state.producers.slots.At(slot).last + 1}
	case !known && number != 1:
		return none, Outcome{Kind: ProducerUnknown}
	case !known:
		slot = f.state.producers.add(b.Producer, f.state.time)
	}
	return slot, Outcome{}
}

// check holds the conditions of a unit of n messages against the state before the
// unit: Stored with its seq to be, or ConditionFailed.
func (f *FSM) check(unit []byte, n int, names [][]byte, topics []place) Outcome {
	for i := range n {
		r := first(unit)
		if want, ok := r.Expected(); ok {
			var last uint64
			if p := f.place(r.Topic(), names, topics); p.id != topic.Unknown {
				last = f.state.stats.At(p.id).LastSeq
			}
			if last != want {
				return Outcome{Kind: ConditionFailed, Seq: last, Index: uint32(i)}
			}
		}
		unit = skip(unit, 1)
	}
	return Outcome{Kind: Stored, Seq: f.state.seq + 1}
}

// place finds where the messages of a topic go. One that did not exist when the
// entry was read may have been made by the entry since.
func (f *FSM) place(i uint32, names [][]byte, topics []place) place {
	if topics[i].id == topic.Unknown {
		topics[i] = f.find(names[i])
	}
	return topics[i]
}

// store gives the n messages at the start of records their places in the stream
// and returns what is behind them. The entry's bytes are shared with replication,
// so a record is stamped in a copy.
func (f *FSM) store(records []byte, n int, names [][]byte, topics []place) []byte {
	s := &f.state
	for range n {
		r := first(records)
		p := &topics[r.Topic()]
		if p.id == topic.Unknown {
			*p = f.intern(names[r.Topic()])
		}
		s.seq++
		stats := s.stats.Edit(p.id)
		stamped := append(f.scratch.record[:0], r...)
		f.scratch.record = stamped
		message.Record(stamped).Stamp(p.id, s.seq, stats.LastSeq, s.time)
		f.history.Append(p.partition, stamped)
		f.tip.Append(p.partition, stamped)
		stats.LastSeq = s.seq
		stats.Messages++
		stats.Bytes += uint64(message.Stride(len(r)))
		records = records[message.Stride(len(r)):]
	}
	return records
}

// intern makes a topic at its first stored message: a refused one leaves no trace.
func (f *FSM) intern(name []byte) place {
	id, fresh := f.topics.Intern(name)
	if fresh {
		f.state.stats.Grow(1)
	}
	return place{id: id, partition: f.topics.Partition(id)}
}

// first is the first of concatenated records that were checked before.
func first(records []byte) message.Record {
	return message.Record(records[:message.Record(records).Size()])
}

// skip drops the first n of concatenated records that were checked before.
func skip(records []byte, n int) []byte {
	for range n {
		records = records[message.Stride(message.Record(records).Size()):]
	}
	return records
}
