package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

const (
	snapshotCheck = 5 * time.Second
	// trailingBytes of entries stay in the log behind a snapshot, so that a
	// follower that was away for a moment is sent entries and not a snapshot.
	trailingBytes            = 128 << 20
	trailingMin, trailingMax = 64, 16384
)

// snapshot asks Raft for a snapshot whenever enough bytes were applied. Raft's own
// trigger counts entries, and entries here have 100 bytes or 1 MiB: so the bytes
// decide, and the entries to keep follow from their mean size.
func (e *Engine) snapshot(ctx context.Context) error {
	r := e.running()
	for pause(ctx, snapshotCheck) {
		bytes, entries := e.machine.bytes.Load(), e.machine.entries.Load()
		if bytes < e.settings.SnapshotBytes {
			continue
		}
		c := r.ReloadableConfig()
		if keep := trailing(bytes, entries); keep != c.TrailingLogs {
			c.TrailingLogs = keep
			if err := r.ReloadConfig(c); err != nil {
				return fmt.Errorf("reload raft's configuration: %w", err)
			}
		}
		if err := r.Snapshot().Error(); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) && ctx.Err() == nil {
			e.log.Warn("snapshot failed and will be tried again", "error", err)
		}
	}
	return nil
}

// trailing is how many entries of their mean size make trailingBytes, within
// bounds.
func trailing(bytes, entries int64) uint64 {
	mean := max(bytes/max(entries, 1), 1)
	return uint64(min(max(trailingBytes/mean, trailingMin), trailingMax))
}

// continuity is a snapshot store that shows only snapshots that the log goes on
// from. Raft falls back to an older snapshot where the newest is damaged, and
// panics when the log does not reach back to it.
type continuity struct {
	raft.SnapshotStore
	// from is the first index of the log at the start; 0 if it is empty.
	from uint64
}

// continuous wraps the store, or says that no snapshot fits the log.
func continuous(snaps raft.SnapshotStore, logs raft.LogStore) (raft.SnapshotStore, error) {
	from, err := logs.FirstIndex()
	if err != nil {
		return nil, fmt.Errorf("read the raft log: %w", err)
	}
	all, err := snaps.List()
	if err != nil {
		return nil, fmt.Errorf("list the snapshots: %w", err)
	}
	c := &continuity{snaps, from}
	fit := c.fitting(all)
	if len(fit) == 0 && from > 1 {
		return nil, fmt.Errorf("the raft log begins at index %d and no snapshot reaches that far: the folder is damaged", from)
	}
	return c, nil
}

// List implements raft.SnapshotStore.
func (c *continuity) List() ([]*raft.SnapshotMeta, error) {
	all, err := c.SnapshotStore.List()
	return c.fitting(all), err
}

// fitting keeps of the snapshots, newest first, those that the log goes on from.
// With an empty log that is the newest alone.
func (c *continuity) fitting(all []*raft.SnapshotMeta) []*raft.SnapshotMeta {
	for i, m := range all {
		if c.from > m.Index+1 || c.from == 0 && i > 0 {
			return all[:i]
		}
	}
	return all
}
