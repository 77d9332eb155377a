// Package outcome says what became of the units of a batch.
package outcome

import "fmt"

// Kind is what became of a unit. The values are part of the snapshot.
type Kind uint8

// The kinds; api.Outcome explains each.
const (
	Stored Kind = iota + 1
	Duplicate
	DuplicateForgotten
	ConditionFailed
	NumberGap
	ProducerUnknown
)

// String is the kind's name in messages.
func (k Kind) String() string {
	names := [...]string{"", "stored", "duplicate", "duplicate-forgotten", "condition-failed", "number-gap", "producer-unknown"}
	if k == 0 || int(k) >= len(names) {
		return fmt.Sprintf("outcome %d", uint8(k))
	}
	return names[k]
}

// Outcome is what became of one or more consecutive units of a batch.
type Outcome struct {
	Kind Kind
	// Seq: Stored and Duplicate: of the first unit's first message; each further
	// unit of the run starts behind the last message of the one before it.
	// ConditionFailed: the actual last seq of the topic. NumberGap: the producer's
	// next number. Otherwise 0.
	Seq   uint64
	Units uint32 // run length, at least 1
	Index uint32 // of the message within its unit whose condition failed
}

// List collects the run-length encoded outcomes of one batch after the other.
// What it hands out is never written to again.
type List struct {
	list  []Outcome
	start int    // of the current batch within list
	next  uint64 // seq behind the last unit of the last run
}

// NewList has room for some outcomes.
func NewList(room int) List { return List{list: make([]Outcome, 0, room)} }

// Begin starts the outcomes of a batch.
func (o *List) Begin() { o.start, o.next = len(o.list), 0 }

// Add notes a unit of so many messages.
func (o *List) Add(v Outcome, messages int) {
	placed := v.Kind == Stored || v.Kind == Duplicate
	if n := len(o.list); n > o.start {
		last := &o.list[n-1]
		same := last.Seq == v.Seq && last.Index == v.Index
		if last.Kind == v.Kind && (placed && v.Seq == o.next || !placed && same) {
			last.Units++
			o.next = v.Seq + uint64(messages)
			return
		}
	}
	v.Units = 1
	o.list = append(o.list, v)
	o.next = v.Seq + uint64(messages)
}

// Batch is the finished list of the current batch.
func (o *List) Batch() []Outcome { return o.list[o.start:len(o.list):len(o.list)] }
