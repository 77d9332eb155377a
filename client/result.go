package client

import (
	"context"
	"sync"
)

// Result is the outcome of a publish, once it is there. Safe for concurrent use.
type Result struct {
	mu       sync.Mutex
	resolved bool
	done     chan struct{} // made when someone asks for it
	ack      Ack
	err      error
}

// closed is the Done of every result that was resolved before anyone asked.
var closed = func() chan struct{} {
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
			return closed
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
	select {
	case <-r.Done():
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

// resolver is told the outcome of a unit, once.
type resolver interface{ resolve(Ack, error) }

// callback is the other form of a resolver.
type callback func(Ack, error)

func (f callback) resolve(a Ack, err error) { f(a, err) }
