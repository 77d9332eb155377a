package client

import (
	"errors"
	"fmt"
	"time"

	"chorale/api"
	"chorale/message"

	"google.golang.org/grpc/mem"
)

// unit is what one call of Publish or PublishAtomic made: how large it is and who
// wants to know what became of it.
type unit struct {
	to       resolver
	messages int
	bytes    int
}

// batch is a run of units with consecutive numbers. It is built by publishers
// under the publisher's lock until it is closed; from then on only the publisher's
// own goroutine touches it.
type batch struct {
	first   uint64 // number of the first unit
	units   []unit
	since   time.Time // of its first unit
	builder message.Builder
	// frame is empty until the batch is encoded, when it is sent first.
	frame api.BatchFrame
	// uncertain says that the batch was sent and the answer never came, so that it
	// may be stored.
	uncertain bool
}

// add appends a unit; its number follows from its place.
func (b *batch) add(u unit, entries []message.Entry) {
	if len(b.units) == 0 {
		b.since = time.Now()
	}
	b.builder.Add(b.first+uint64(len(b.units)), entries...)
	b.units = append(b.units, u)
}

// encode makes the bytes of the batch, once.
func (b *batch) encode(producer ProducerID) {
	if b.frame.Batch != nil {
		return
	}
	buffer := api.Buffers.Get(b.builder.Bytes())
	*buffer = b.builder.Encode((*buffer)[:0], producer)
	b.frame.Batch = mem.NewBuffer(buffer, api.Buffers)
	b.builder.Reset()
}

// part makes a new batch of the units from..to-1 of an encoded batch, under the
// numbers from first on, with their producer to be set when it is encoded.
func (b *batch) part(from, to int, first uint64) *batch {
	view, err := message.ReadBatch(b.frame.BatchBytes())
	if err != nil {
		panic(fmt.Sprintf("client: a batch of %d units that was just built does not read back: %v", len(b.units), err))
	}
	out := &batch{first: first, since: b.since, uncertain: b.uncertain}
	rest, at := view.Records, 0
	for at < to {
		var entries []message.Entry
		for left := 1; left > 0; left-- {
			var r message.Record
			if r, rest, err = message.Split(rest); err != nil {
				panic(fmt.Sprintf("client: unit %d of %d that was just built does not read back: %v", at, len(b.units), err))
			}
			if len(entries) == 0 {
				left = r.UnitLeft()
			}
			entries = append(entries, entryOf(r, view.Topics))
		}
		if at >= from {
			out.builder.Add(first+uint64(at-from), entries...)
			out.units = append(out.units, b.units[at])
		}
		at++
	}
	return out
}

func entryOf(r message.Record, topics [][]byte) message.Entry {
	e := message.Entry{Topic: string(topics[r.Topic()]), Draft: message.Draft{Payload: r.Payload()}}
	r.EachHeader(func(key string, value []byte) bool {
		e.Draft.Headers = append(e.Draft.Headers, Header{Key: key, Value: value})
		return true
	})
	if seq, ok := r.Expected(); ok {
		e.Expected = &seq
	}
	return e
}

// What an answer says of a batch as a whole, other than that its units are decided.
var (
	errUnanswerable    = errors.New("the answer does not fit what was sent")
	errUnknownProducer = errors.New("the cluster does not know the producer")
)

// gapError is the answer that units before the batch are missing.
type gapError struct{ next uint64 }

func (e gapError) Error() string { return fmt.Sprintf("the producer's next number is %d", e.next) }

// refusal is the answer that the batch as a whole was not taken.
type refusal struct {
	kind         api.PublishError_Kind
	text         string
	payloadLimit int
}

func (e refusal) Error() string { return e.text }

// decided reports whether the answer decides every unit of the batch; the error
// says what it is instead. Nothing of an answer is used unless all of it can be.
func (b *batch) decided(r *api.PublishResponse) error {
	if e := r.GetError(); e != nil {
		return refusal{e.Kind, e.Message, int(min(e.PayloadLimit, message.MaxPayloadBytes))}
	}
	units := 0
	for _, o := range r.Outcomes {
		switch o.Kind {
		case api.Outcome_STORED, api.Outcome_DUPLICATE, api.Outcome_DUPLICATE_FORGOTTEN, api.Outcome_CONDITION_FAILED:
			units += int(o.Units)
		case api.Outcome_NUMBER_GAP:
			return gapError{o.Seq}
		case api.Outcome_PRODUCER_UNKNOWN:
			return errUnknownProducer
		default:
			return fmt.Errorf("%w: outcome %v", errUnanswerable, o.Kind)
		}
	}
	if units != len(b.units) {
		return fmt.Errorf("%w: outcomes of %d units for %d", errUnanswerable, units, len(b.units))
	}
	return nil
}

// resolve hands the outcomes out, in order. The answer decides the batch.
func (b *batch) resolve(r *api.PublishResponse) {
	at := 0
	for _, o := range r.Outcomes {
		seq := o.Seq
		for range o.Units {
			u := b.units[at]
			switch o.Kind {
			case api.Outcome_STORED, api.Outcome_DUPLICATE:
				u.to.resolve(Ack{Seq: seq, Duplicate: o.Kind == api.Outcome_DUPLICATE}, nil)
				seq += uint64(u.messages)
			case api.Outcome_DUPLICATE_FORGOTTEN:
				u.to.resolve(Ack{Duplicate: true, Forgotten: true}, nil)
			case api.Outcome_CONDITION_FAILED:
				u.to.resolve(Ack{}, &ConditionError{Index: int(o.Index), LastSeq: o.Seq})
			}
			at++
		}
	}
}

// fail resolves every unit with the error.
func (b *batch) fail(err error) {
	for _, u := range b.units {
		u.to.resolve(Ack{}, err)
	}
}

// reset makes the batch ready for other units. What gRPC still holds of its bytes
// stays valid.
func (b *batch) reset() {
	if len(b.frame.BatchBytes()) > batchBytes {
		b.builder = message.Builder{} // one huge message must not stay for ever
	}
	b.frame.Release()
	clear(b.units)
	b.units, b.uncertain = b.units[:0], false
	b.builder.Reset()
}
