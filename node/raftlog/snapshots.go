package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// mark is the end of a snapshot.
type mark struct{ index, term uint64 }

// markKey is where the end of the newest snapshot is kept: index and term, 8 bytes
// each, little-endian. It outlives the snapshot's file.
var markKey = []byte("chorale-newest-snapshot")

func (s *Store) loadMark() (*mark, error) {
	b, err := s.Get(markKey)
	switch {
	case err == nil && len(b) == 16:
		return &mark{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}, nil
	case err == nil:
		return nil, fmt.Errorf("%w: %s: newest snapshot noted in %d bytes", ErrCorrupt, s.name, len(b))
	case absent(err):
		return nil, nil
	}
	return nil, err
}

// remember notes the end of a complete snapshot.
func (s *Store) remember(m mark) error {
	if old := s.newest.Load(); old != nil && old.index >= m.index {
		return nil
	}
	value := binary.LittleEndian.AppendUint64(nil, m.index)
	if err := s.Set(markKey, binary.LittleEndian.AppendUint64(value, m.term)); err != nil {
		return err
	}
	s.newest.Store(&m)
	return nil
}

// adopt is remember while Raft runs. There is one log that Raft cannot get over
// without a new start: one whose last entry stands exactly at the snapshot's end
// and has another term. Raft goes on comparing with the term that it has in
// memory, and refuses everything.
func (s *Store) adopt(m mark) error {
	if err := s.remember(m); err != nil {
		return err
	}
	var l raft.Log
	last, err := s.LastIndex()
	if err == nil && last == m.index {
		err = s.read(last, &l)
	}
	if err == nil && l.Index == m.index && l.Term != m.term {
		err = s.latch.fail("install a snapshot", fmt.Errorf("%w: the log ends with entry %d of term %d, the snapshot with that of term %d", ErrStartAgain, last, l.Term, m.term))
	}
	return err
}

// OpenSnapshots opens Raft's store of snapshots in dir, and makes durable what is there. A
// process that was killed may have left a snapshot that can be read, and is gone when the
// power fails: its end is noted in the log, and its entries are cut from it, as soon as the
// next process has it.
func OpenSnapshots(dir string, retain int, log hclog.Logger) (raft.SnapshotStore, error) {
	store, err := raft.NewFileSnapshotStoreWithLogger(dir, retain, log)
	if err != nil {
		return nil, err
	}
	const below = "snapshots" // Raft's name for it
	list, err := os.ReadDir(filepath.Join(dir, below))
	for _, e := range list {
		if err == nil && e.IsDir() {
			err = syncDir(filepath.Join(dir, below, e.Name()))
		}
	}
	if err == nil {
		err = errors.Join(syncDir(filepath.Join(dir, below)), syncDir(dir))
	}
	if err != nil {
		return nil, fmt.Errorf("making the snapshots durable: %w", err)
	}
	return store, nil
}

// Snapshots wraps the store of snapshots that Raft is given, so that the log knows
// of each. It shows Raft only those that the log goes on from: where the newest
// one cannot be read, Raft falls back to an older one, and would otherwise panic
// later, or vote without entries that it once acknowledged.
func (s *Store) Snapshots(inner raft.SnapshotStore) raft.SnapshotStore {
	return &snapshots{SnapshotStore: inner, log: s}
}

type snapshots struct {
	raft.SnapshotStore
	log *Store
}

// Create implements raft.SnapshotStore. One that is older than the newest is refused:
// Raft would put the state machine back behind what it has applied, clear the log
// that leads there, and panic at the entries that are missing then. A leader sends
// one to a follower whose log begins behind what the leader believes it to have.
func (s *snapshots) Create(version raft.SnapshotVersion, index, term uint64, c raft.Configuration, at uint64, t raft.Transport) (raft.SnapshotSink, error) {
	if m := s.log.newest.Load(); m != nil && index < m.index {
		return nil, fmt.Errorf("%w: it ends at index %d, the newest of this node at %d", ErrOldSnapshot, index, m.index)
	}
	sink, err := s.SnapshotStore.Create(version, index, term, c, at, t)
	if err != nil {
		return nil, err
	}
	return &sinkOf{SnapshotSink: sink, log: s.log, mark: mark{index, term}}, nil
}

// List implements raft.SnapshotStore.
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	all, err := s.SnapshotStore.List()
	if err != nil {
		return nil, err
	}
	first, last, err := s.log.bounds()
	if err != nil {
		return nil, err
	}
	fit := all[:0:0]
	for _, m := range all {
		if s.log.fits(m.Index, first, last) {
			fit = append(fit, m)
		}
	}
	return fit, nil
}

type sinkOf struct {
	raft.SnapshotSink
	log  *Store
	mark mark
	done bool
}

// Close implements raft.SnapshotSink. Raft would log a failure and go on, on a folder
// whose failed sync may make later ones promise nothing: it is final, as one of the
// log's is.
func (s *sinkOf) Close() error {
	if s.done {
		return s.SnapshotSink.Close()
	}
	s.done = true
	if err := s.SnapshotSink.Close(); err != nil {
		return s.log.latch.fail("make a snapshot durable", err)
	}
	return s.log.adopt(s.mark)
}

// Cancel implements raft.SnapshotSink.
func (s *sinkOf) Cancel() error {
	s.done = true
	return s.SnapshotSink.Cancel()
}

func (s *Store) bounds() (first, last uint64, err error) {
	if first, err = s.FirstIndex(); err == nil {
		last, err = s.LastIndex()
	}
	return first, last, err
}

// fits reports whether a snapshot and the log together reach what this node had
// when it made its newest snapshot.
func (s *Store) fits(index, first, last uint64) bool {
	m := s.newest.Load()
	if m == nil || index >= m.index {
		return first <= index+1
	}
	return first > 0 && first <= index+1 && last >= m.index
}

// Reconcile makes log and snapshots one history, before Raft is made, or says what
// is missing. snaps is the wrapper that Raft will be given.
func (s *Store) Reconcile(snaps raft.SnapshotStore) error {
	fit, err := snaps.List()
	if err != nil {
		return fmt.Errorf("listing the snapshots: %w", err)
	}
	first, last, err := s.bounds()
	if err != nil {
		return err
	}
	if len(fit) == 0 {
		return s.checkWithout(first, last)
	}
	newest := mark{fit[0].Index, fit[0].Term}
	if err := s.remember(newest); err != nil {
		return err
	}
	if err := s.clear(newest, first, last); err != nil {
		return err
	}
	return s.check(newest.index+1, last)
}

// checkWithout is for a log without a snapshot.
func (s *Store) checkWithout(first, last uint64) error {
	if m := s.newest.Load(); m != nil && (first != 1 || last < m.index) {
		return fmt.Errorf("%w: %s: the newest snapshot, of index %d, is missing or damaged, and the log from %d to %d cannot replace it", ErrDiscontinuous, s.name, m.index, first, last)
	}
	if first > 1 {
		return fmt.Errorf("%w: %s: it begins at index %d and there is no snapshot that reaches that far", ErrDiscontinuous, s.name, first)
	}
	return s.check(max(first, 1), last)
}

// clear deletes what stands in front of a snapshot's end and belongs to another
// history, or would leave a hole behind it.
func (s *Store) clear(m mark, first, last uint64) error {
	if first == 0 || first > m.index {
		return nil
	}
	var l raft.Log
	switch err := s.read(m.index, &l); {
	case err == nil && l.Term == m.term:
		return nil
	case err != nil && !errors.Is(err, raft.ErrLogNotFound):
		return err
	}
	return s.DeleteRange(first, min(last, m.index))
}

// check reads the entries from first to last: Raft panics on a missing one.
func (s *Store) check(first, last uint64) error {
	for i := first; i <= last; i++ {
		var l raft.Log
		if err := s.GetLog(i, &l); errors.Is(err, raft.ErrLogNotFound) {
			return fmt.Errorf("%w: %s: entry %d is missing, the last one is %d", ErrDiscontinuous, s.name, i, last)
		} else if err != nil {
			return err
		}
	}
	return nil
}
