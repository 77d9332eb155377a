// Package batch is the pure core of a publisher: how units become a batch, how a
// batch is encoded, cut and numbered anew, and what a node's answer says of it. It
// knows neither connections nor clocks.
package batch

import (
	"fmt"
	"time"

	"chorale/api"
	"chorale/message"

	"google.golang.org/grpc/mem"
)

// TargetBytes is where a batch is full. A larger unit makes a batch of its own.
const TargetBytes = 256 << 10

// Unit is one message, or a group that is stored together or not at all: how large
// it is, and who wants to know what became of it.
type Unit struct {
	To       Resolver
	Messages int
	Bytes    int
}

// Batch is a run of units with consecutive numbers. It takes units until it is
// encoded. For one goroutine at a time.
type Batch struct {
	// First is the number of the first unit.
	First uint64
	Units []Unit
	// Since is when the first unit came.
	Since time.Time
	// Frame is empty until Encode.
	Frame api.BatchFrame
	// Uncertain says that the batch was sent and the answer never came, so that it
	// may be stored.
	Uncertain bool

	builder message.Builder
}

// Add appends a unit; its number follows from its place.
func (b *Batch) Add(u Unit, entries []message.Entry) {
	b.builder.Add(b.Next(), entries...)
	b.Units = append(b.Units, u)
}

// Next is the number behind the last unit.
func (b *Batch) Next() uint64 { return b.First + uint64(len(b.Units)) }

// Fits reports whether a batch that is not empty should take a unit of so many
// messages and bytes.
func (b *Batch) Fits(messages, bytes int) bool {
	return b.builder.Bytes()+bytes <= TargetBytes && b.builder.Count()+messages <= message.MaxBatchMessages
}

// Encode makes the frame, once.
func (b *Batch) Encode(producer message.ProducerID) {
	if b.Frame.Batch != nil {
		return
	}
	buffer := api.Buffers.Get(b.builder.Bytes())
	*buffer = b.builder.Encode((*buffer)[:0], producer)
	b.Frame.Batch = mem.NewBuffer(buffer, api.Buffers)
	b.builder.Reset()
}

// Part makes a new batch of the units from..to-1 of an encoded batch, under the
// numbers from first on. It is not encoded yet, so that its producer is open.
func (b *Batch) Part(from, to int, first uint64) *Batch {
	out := &Batch{First: first, Since: b.Since, Uncertain: b.Uncertain}
	view, err := message.ReadBatch(b.Frame.BatchBytes())
	if err != nil {
		panic(fmt.Sprintf("batch: %d units that were just encoded do not read back: %v", len(b.Units), err))
	}
	rest := view.Records
	for at, u := range b.Units[:to] {
		entries := make([]message.Entry, u.Messages)
		for i := range entries {
			var r message.Record
			if r, rest, err = message.Split(rest); err != nil {
				panic(fmt.Sprintf("batch: unit %d of %d that were just encoded does not read back: %v", at, len(b.Units), err))
			}
			entries[i] = entry(r, view.Topics)
		}
		if at >= from {
			out.Add(u, entries)
		}
	}
	return out
}

// entry is an encoded message as it was before.
func entry(r message.Record, topics [][]byte) message.Entry {
	e := message.Entry{Topic: string(topics[r.Topic()]), Draft: message.Draft{Payload: r.Payload()}}
	r.EachHeader(func(key string, value []byte) bool {
		e.Draft.Headers = append(e.Draft.Headers, message.Header{Key: key, Value: value})
		return true
	})
	if seq, ok := r.Expected(); ok {
		e.Expected = &seq
	}
	return e
}

// Reset makes the batch ready for other units. What gRPC still holds of the frame
// stays valid.
func (b *Batch) Reset() {
	if len(b.Frame.BatchBytes()) > 2*TargetBytes {
		b.builder = message.Builder{} // the memory of one huge unit must not stay
	}
	b.builder.Reset()
	b.Frame.Release()
	clear(b.Units)
	b.Units, b.Uncertain = b.Units[:0], false
}
