package batch

import (
	"errors"
	"fmt"

	"chorale/api"
)

// Outcome is what became of one unit that an answer decided.
type Outcome struct {
	// Kind is STORED, DUPLICATE, DUPLICATE_FORGOTTEN or CONDITION_FAILED.
	Kind api.Outcome_Kind
	// Seq is that of the unit's first message, or the actual last seq of the topic
	// whose condition failed; 0 if it is forgotten.
	Seq uint64
	// Index is the message of the unit whose condition failed.
	Index int
}

// Resolver is told the outcome of a unit, or the error that took its place, once.
type Resolver interface {
	Resolve(o Outcome, err error)
}

// What an answer says if it does not decide a batch.
var (
	// ErrUnanswerable is returned when the answer does not fit what was sent.
	ErrUnanswerable = errors.New("the answer does not fit what was sent")
	// ErrUnknownProducer is returned when the cluster does not know the producer and
	// the batch does not begin with number 1.
	ErrUnknownProducer = errors.New("the cluster does not know the producer")
)

// GapError is returned when units before the batch are missing.
type GapError struct {
	// Next is the number that the cluster expects.
	Next uint64
}

// Error says which number is next.
func (e GapError) Error() string { return fmt.Sprintf("the producer's next number is %d", e.Next) }

// Refusal is returned when the batch as a whole was not taken.
type Refusal struct {
	Kind api.PublishError_Kind
	Text string
	// PayloadLimit is what the node allows, if a payload was too large; otherwise 0.
	PayloadLimit uint64
}

// Error is what the node said.
func (e Refusal) Error() string { return e.Text }

// Decided returns nil if the answer decides every unit of the batch, or says what
// it is instead. Nothing of an answer is used unless all of it can be: units of a
// batch that were stored all the same turn out to be duplicates next time.
func (b *Batch) Decided(r *api.PublishResponse) error {
	if e := r.GetError(); e != nil {
		return Refusal{e.Kind, e.Message, e.PayloadLimit}
	}
	units := uint64(0)
	for _, o := range r.Outcomes {
		switch o.Kind {
		case api.Outcome_STORED, api.Outcome_DUPLICATE, api.Outcome_DUPLICATE_FORGOTTEN, api.Outcome_CONDITION_FAILED:
			units += uint64(o.Units)
		case api.Outcome_NUMBER_GAP:
			return GapError{o.Seq}
		case api.Outcome_PRODUCER_UNKNOWN:
			return ErrUnknownProducer
		default:
			return fmt.Errorf("%w: outcome %v", ErrUnanswerable, o.Kind)
		}
	}
	if units != uint64(len(b.Units)) {
		return fmt.Errorf("%w: outcomes of %d units for %d", ErrUnanswerable, units, len(b.Units))
	}
	return nil
}

// StoresNothing reports whether what an answer said instead of deciding a batch
// rules out that this sending of it is or will be stored.
func StoresNothing(err error) bool {
	var gap GapError
	var r Refusal
	switch {
	case errors.As(err, &r):
		return r.Kind == api.PublishError_INVALID || r.Kind == api.PublishError_UNAVAILABLE
	case errors.As(err, &gap):
		return true
	}
	return errors.Is(err, ErrUnknownProducer)
}

// Resolve hands out the outcomes of an answer that decides the batch, in order.
func (b *Batch) Resolve(r *api.PublishResponse) {
	at := 0
	for _, run := range r.Outcomes {
		o := Outcome{Kind: run.Kind, Seq: run.Seq, Index: int(run.Index)}
		for range run.Units {
			u := b.Units[at]
			u.To.Resolve(o, nil)
			if o.Kind == api.Outcome_STORED || o.Kind == api.Outcome_DUPLICATE {
				o.Seq += uint64(u.Messages)
			}
			at++
		}
	}
}

// Fail resolves every unit with the error.
func (b *Batch) Fail(err error) {
	for _, u := range b.Units {
		u.To.Resolve(Outcome{}, err)
	}
}
