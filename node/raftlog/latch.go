package raftlog

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// latch keeps the first failure for ever and times the calls under way.
type latch struct {
	name     string
	deadline time.Duration
	failed   chan struct{} // closed with the first failure

	mu    sync.Mutex
	cause error
	calls map[*call]struct{} // under way: a handful at most
}

type call struct {
	what  string
	since time.Time
}

func newLatch(name string, deadline time.Duration) *latch {
	return &latch{name: name, deadline: deadline, failed: make(chan struct{}), calls: make(map[*call]struct{})}
}

func (l *latch) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// fail notes the first failure and returns it, whichever it was.
func (l *latch) fail(what string, cause error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failLocked(what, cause)
}

func (l *latch) failLocked(what string, cause error) error {
	if l.cause == nil {
		l.cause = fmt.Errorf("%w: %s: %s: %w", ErrFailed, l.name, what, cause)
		close(l.failed)
	}
	return l.cause
}

// do makes one call of the store below. Absence is an answer; every other error,
// and a panic, is a failure.
func (l *latch) do(what string, f func() error) error {
	c := &call{what: what, since: time.Now()}
	l.mu.Lock()
	if l.cause != nil {
		l.mu.Unlock()
		return l.cause
	}
	l.calls[c] = struct{}{}
	l.mu.Unlock()

	err := guard(f)

	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, c)
	switch {
	case l.cause != nil:
		return l.cause
	case err == nil || absent(err):
		return err
	}
	return l.failLocked(what, err)
}

// absent reports an answer that says that there is nothing. Raft knows the second
// one by its text.
func absent(err error) bool {
	return errors.Is(err, raft.ErrLogNotFound) || err.Error() == "not found"
}

// guard turns a panic into an error: bbolt panics on damaged pages, and reading
// behind the end of its cut file faults.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrCorrupt, p)
		}
	}()
	return f()
}

// overdue fails if a call has taken longer than the deadline.
func (l *latch) overdue(now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.calls {
		if d := now.Sub(c.since); d > l.deadline {
			return l.failLocked(c.what, fmt.Errorf("has taken more than %v: the disk hangs", l.deadline))
		}
	}
	return l.cause
}

// hangs reports whether a call is under way although there was a failure.
func (l *latch) hangs() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause != nil && len(l.calls) > 0
}

// watch returns the failure, or nil when ctx ends.
func (l *latch) watch(ctx context.Context) error {
	tick := time.NewTicker(max(l.deadline/10, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.failed:
			return l.err()
		case now := <-tick.C:
			if err := l.overdue(now); err != nil {
				return err
			}
		}
	}
}

// fatal ends the goroutine of a call whose error would make Raft panic, if Run
// reports the failure or has reported it.
func (s *Store) fatal() {
	if s.armed.Load() {
		runtime.Goexit()
	}
}
