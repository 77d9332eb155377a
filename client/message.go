package client

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"chorale/message"
)

// Header is one key and value of a message. The order of headers is kept.
type Header = message.Header

// ProducerID names an idempotent producer for ever.
type ProducerID = message.ProducerID

// Message is a message to be published.
type Message struct {
	Topic   string
	Headers []Header
	Payload []byte
	// ExpectedLastSeq is nil, or a condition: the message is stored only if this is
	// the last seq of its topic; 0 means that the topic must not exist.
	ExpectedLastSeq *uint64
}

// Ack is the outcome of a unit (one message, or an atomic group) that is stored on
// a majority of the nodes.
type Ack struct {
	// Seq is the place of the unit's first message; the others follow without a
	// gap. 0 if Forgotten.
	Seq uint64
	// Duplicate says that an earlier try had stored it; Seq is what that try got.
	Duplicate bool
	// Forgotten says that an earlier try was decided so long ago that the cluster
	// no longer knows its seq.
	Forgotten bool
}

// Delivery is one message of a subscription.
//
// Its bytes are never changed or reused, so it may be kept; but they share one
// buffer with their neighbours (256 KiB, say), which lives as long as any of them:
// who keeps few of many keeps clones.
type Delivery struct {
	Seq uint64
	// Prev is the seq of the topic's previous message; 0 for its first.
	Prev    uint64
	Time    time.Time
	Topic   string
	Headers []Header
	Payload []byte
}

// Clone is a copy that shares no memory.
func (d Delivery) Clone() Delivery {
	d.Topic = strings.Clone(d.Topic)
	d.Payload = bytes.Clone(d.Payload)
	d.Headers = slices.Clone(d.Headers)
	for i := range d.Headers {
		d.Headers[i].Value = bytes.Clone(d.Headers[i].Value)
	}
	return d
}

func delivery(r message.Record, topic string) Delivery {
	d := Delivery{Seq: r.Seq(), Prev: r.Prev(), Time: time.Unix(0, r.Time()), Topic: topic, Payload: r.Payload()}
	r.EachHeader(func(key string, value []byte) bool {
		d.Headers = append(d.Headers, Header{Key: key, Value: value})
		return true
	})
	return d
}
