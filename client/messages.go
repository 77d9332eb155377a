package client

import (
	"iter"

	"chorale/api"
	"chorale/client/verify"
	"chorale/message"
)

// Batch is a run of verified messages of a subscription, in order. It is a view of
// a pooled buffer: whoever is given it calls Release, after which nothing of it may
// be used. It may be handed to another goroutine.
type Batch struct {
	frame   api.Frame
	records []byte
	count   int
	topics  verify.Topics
	scanned uint64
}

// Len is the number of messages, at least 1.
func (b *Batch) Len() int { return b.count }

// Records is the messages in their encoding, one padded record behind the other;
// message.Split walks them. Valid until Release.
func (b *Batch) Records() []byte { return b.records }

// Topic is the name of a record's topic. It stays valid after Release.
func (b *Batch) Topic(id uint32) string { return b.topics.Name(id) }

// ScannedSeq is the seq of the position behind the batch.
func (b *Batch) ScannedSeq() uint64 { return b.scanned }

// All ranges over the messages. Their bytes are valid until Release; Clone keeps
// one.
func (b *Batch) All() iter.Seq[Delivery] {
	return func(yield func(Delivery) bool) {
		for rest := b.records; len(rest) > 0; {
			r, tail, err := message.Split(rest)
			if err != nil {
				panic(err) // it was verified
			}
			if !yield(delivery(r, b.Topic(r.Topic()))) {
				return
			}
			rest = tail
		}
	}
}

// Release gives the buffer back.
func (b *Batch) Release() {
	b.records, b.count = nil, 0
	b.frame.Release()
}
