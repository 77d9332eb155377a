package client

import (
	"context"
	"sync"

	"chorale/api"
	"chorale/client/batch"
)

// Result is the outcome of a publish, once it is there. Safe for concurrent use.
type Result struct {
	mu       sync.Mutex
	resolved bool
	done     chan struct{} // made when someone asks for it
	ack      Ack
	err      error
}

// settled is the Done of every result that was resolved before anyone asked.
var settled = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done is closed when the outcome is there.
func (r *Result) Done() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done == nil {
		if r.resolved {
			return settled
		}
		r.done = make(chan struct{})
	}
	return r.done
}

// Wait returns the outcome, or the context's error if that ends first; the publish
// goes on all the same, and Wait may be called again. The errors are
// *ConditionError, ErrInvalid, ErrUncertain, ErrUnpublished, and, if the message
// never entered the publisher, ErrClosed or the error of Publish's context.
func (r *Result) Wait(ctx context.Context) (Ack, error) {
	done := r.Done()
	select {
	case <-done:
		return r.ack, r.err
	default:
	}
	select {
	case <-done:
		return r.ack, r.err
	case <-ctx.Done():
		return Ack{}, ctx.Err()
	}
}

func (r *Result) resolve(a Ack, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.resolved {
		panic("client: a result was resolved twice")
	}
	r.resolved, r.ack, r.err = true, a, err
	if r.done != nil {
		close(r.done)
	}
}

// future and callback are the two ways in which a caller learns an outcome.
type (
	future   Result
	callback func(Ack, error)
)

// Resolve implements batch.Resolver.
func (f *future) Resolve(o batch.Outcome, err error) { (*Result)(f).resolve(ackOf(o, err)) }

// Resolve implements batch.Resolver.
func (f callback) Resolve(o batch.Outcome, err error) { f(ackOf(o, err)) }

func ackOf(o batch.Outcome, err error) (Ack, error) {
	switch {
	case err != nil:
		return Ack{}, err
	case o.Kind == api.Outcome_CONDITION_FAILED:
		return Ack{}, &ConditionError{Index: o.Index, LastSeq: o.Seq}
	case o.Kind == api.Outcome_DUPLICATE_FORGOTTEN:
		return Ack{Duplicate: true, Forgotten: true}, nil
	}
	return Ack{Seq: o.Seq, Duplicate: o.Kind == api.Outcome_DUPLICATE}, nil
}
