// Package raftlog guards the store of the Raft log: entries are checksummed, the
// first failure is final, a hanging write is a failure, and a log that does not
// fit its snapshots is repaired or refused.
package raftlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

var (
	// ErrFailed marks every error after which the store does not work any more: the
	// first failed or hanging call, and all that follow.
	ErrFailed = errors.New("the raft log has failed")
	// ErrCorrupt marks an entry that is not what was stored.
	ErrCorrupt = errors.New("damaged raft log")
	// ErrInUse is returned by Open when another process has the file open.
	ErrInUse = errors.New("the raft log is in use by another process")
	// ErrStartAgain is the cause of a failure that the next start mends.
	ErrStartAgain = errors.New("the node has to be started again")
	// ErrOldSnapshot is returned where a snapshot would replace a newer one.
	ErrOldSnapshot = errors.New("the snapshot is older than this node's")
	// ErrDiscontinuous is returned by Reconcile when entries are missing.
	ErrDiscontinuous = errors.New("the raft log has a hole")
)

// DefaultDeadline is how long one call may take.
const DefaultDeadline = 10 * time.Second

// lockWait is how long Open waits for another process that is about to end.
const lockWait = time.Second

// Inner is the store below: raft-boltdb's, or another that keeps its contracts. A
// store that panics on damage is handled.
type Inner interface {
	raft.LogStore
	raft.StableStore
	io.Closer
}

// Store is a raft.LogStore, raft.MonotonicLogStore and raft.StableStore. Its
// methods are safe for concurrent use, as far as the store below is.
type Store struct {
	inner Inner
	name  string // in messages
	latch *latch
	// armed is set while Run runs and after it found a failure; see fatal.
	armed atomic.Bool
	// newest is the end of the newest known snapshot, nil if there is none.
	newest atomic.Pointer[mark]
}

// pageBytes is bbolt's page in a new file. Each write of an entry writes the list of
// free pages too, and a log that was cut has hundreds of megabytes of them: with pages
// of 4 KiB that is 650 KB an entry, however small, with these 250 KB (BenchmarkCut).
// Larger pages cost more than they save. bbolt can find the list again at each start
// instead of writing it, but then a damaged page is a panic of a goroutine of its own.
const pageBytes = 16 << 10

// Open opens or makes the log at path, in raft-boltdb's format. Zero deadline
// means DefaultDeadline.
func Open(path string, deadline time.Duration) (*Store, error) {
	var bolt *raftboltdb.BoltStore
	err := guard(func() (err error) {
		bolt, err = raftboltdb.New(raftboltdb.Options{
			Path:                    path,
			BoltOptions:             &bbolt.Options{Timeout: lockWait, PageSize: pageBytes},
			MsgpackUseNewTimeFormat: true,
		})
		return err
	})
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return nil, fmt.Errorf("%w: %s", ErrInUse, path)
	}
	if err == nil {
		// A process that was killed between a write and its sync leaves pages that can
		// be read and are not durable. Nobody may build on them before they are.
		err = bolt.Sync()
	}
	if err == nil {
		// bbolt does not make the name of a new file durable.
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return nil, fmt.Errorf("opening the raft log %s: %w", path, err)
	}
	return Wrap(bolt, path, deadline)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Wrap guards a store; name stands in messages. Zero deadline means
// DefaultDeadline.
func Wrap(inner Inner, name string, deadline time.Duration) (*Store, error) {
	if deadline <= 0 {
		deadline = DefaultDeadline
	}
	s := &Store{inner: inner, name: name, latch: newLatch(name, deadline)}
	newest, err := s.loadMark()
	if err != nil {
		inner.Close()
		return nil, err
	}
	s.newest.Store(newest)
	return s, nil
}

// Failed is closed when the store has failed; Err says why.
func (s *Store) Failed() <-chan struct{} { return s.latch.failed }

// Err is nil, or the first failure, which wraps ErrFailed.
func (s *Store) Err() error { return s.latch.err() }

// Run watches the deadline. It returns the failure once there is one, or nil when
// ctx ends. From its start on, and after a failure for ever, a call that would make
// Raft panic ends its goroutine instead, so Run is to run as long as Raft does.
func (s *Store) Run(ctx context.Context) error {
	s.armed.Store(true)
	err := s.latch.watch(ctx)
	if err == nil {
		s.armed.Store(false)
	}
	return err
}

// Overdue latches and returns the failure if a call runs for longer than the
// deadline at that time. Run calls it; so may who has no Run.
func (s *Store) Overdue(now time.Time) error { return s.latch.overdue(now) }

// Close closes the store below, and waits for calls under way. After a failure it
// waits for nobody: while a call hangs the store is left open, for the process is
// about to end.
func (s *Store) Close() error {
	if s.latch.hangs() {
		return s.Err()
	}
	return s.inner.Close()
}

// IsMonotonic implements raft.MonotonicLogStore: Raft then clears the log when it
// installs a snapshot, see docs/decisions/diverged-log.md.
func (s *Store) IsMonotonic() bool { return true }

// FirstIndex implements raft.LogStore.
func (s *Store) FirstIndex() (index uint64, err error) {
	err = s.latch.do("first index", func() error {
		index, err = s.inner.FirstIndex()
		return err
	})
	return index, err
}

// LastIndex implements raft.LogStore.
func (s *Store) LastIndex() (index uint64, err error) {
	err = s.latch.do("last index", func() error {
		index, err = s.inner.LastIndex()
		return err
	})
	return index, err
}

// GetLog implements raft.LogStore. The entry at the end of the newest snapshot is
// answered with its term alone if the log does not have it.
func (s *Store) GetLog(index uint64, log *raft.Log) error {
	err := s.read(index, log)
	if m := s.newest.Load(); m != nil && m.index == index && index > 1 && errors.Is(err, raft.ErrLogNotFound) {
		*log = raft.Log{Index: index, Term: m.term, Type: raft.LogNoop}
		return nil
	}
	if errors.Is(err, ErrFailed) {
		s.fatal()
	}
	return err
}

func (s *Store) read(index uint64, log *raft.Log) error {
	return s.latch.do("read", func() error {
		if err := s.inner.GetLog(index, log); err != nil {
			return err
		}
		return open(log, index)
	})
}

// StoreLog implements raft.LogStore.
func (s *Store) StoreLog(log *raft.Log) error { return s.StoreLogs([]*raft.Log{log}) }

// StoreLogs implements raft.LogStore. The caller's entries are not changed.
func (s *Store) StoreLogs(logs []*raft.Log) error {
	sealed := make([]*raft.Log, len(logs))
	for i, l := range logs {
		sealed[i] = seal(l)
	}
	return s.latch.do("store", func() error {
		if len(logs) > 0 {
			if err := s.makeWay(logs[0].Index); err != nil {
				return err
			}
		}
		return s.inner.StoreLogs(sealed)
	})
}

// makeWay lets the log end right before index, so that it never has a hole. There
// is something to do only where a snapshot came in between: what stands behind was
// given up by Raft, what ends too early is covered by the snapshot.
func (s *Store) makeWay(index uint64) error {
	last, err := s.inner.LastIndex()
	if err != nil || last == 0 || last+1 == index {
		return err
	}
	if index <= last {
		return s.inner.DeleteRange(index, last)
	}
	if m := s.newest.Load(); m == nil || index > m.index+1 {
		return fmt.Errorf("%w: entry %d is to follow entry %d", ErrDiscontinuous, index, last)
	}
	first, err := s.inner.FirstIndex()
	if err != nil {
		return err
	}
	return s.inner.DeleteRange(first, last)
}

// DeleteRange implements raft.LogStore. A range that begins before, at, or right behind
// the end of the newest snapshot is cut there: Raft, which has just installed that
// snapshot, would delete the whole log and still believe that it has the entries
// behind. They stay until it replaces them. So do those that it means to delete because
// a leader has others in their place: it stores these next, and makeWay lets those go.
func (s *Store) DeleteRange(first, last uint64) error {
	if m := s.newest.Load(); m != nil && first <= m.index+1 {
		last = min(last, m.index)
	}
	if first > last {
		return nil
	}
	return s.latch.do("delete", func() error { return s.inner.DeleteRange(first, last) })
}

// Set implements raft.StableStore.
func (s *Store) Set(key, value []byte) error {
	return s.latch.do("set", func() error { return s.inner.Set(key, value) })
}

// Get implements raft.StableStore. A missing key's error is the store's below,
// which Raft knows by its text.
func (s *Store) Get(key []byte) (value []byte, err error) {
	err = s.latch.do("get", func() error {
		value, err = s.inner.Get(key)
		return err
	})
	return value, err
}

// SetUint64 implements raft.StableStore.
func (s *Store) SetUint64(key []byte, value uint64) error {
	err := s.latch.do("set", func() error { return s.inner.SetUint64(key, value) })
	if err != nil {
		s.fatal()
	}
	return err
}

// GetUint64 implements raft.StableStore.
func (s *Store) GetUint64(key []byte) (value uint64, err error) {
	err = s.latch.do("get", func() error {
		value, err = s.inner.GetUint64(key)
		return err
	})
	return value, err
}
