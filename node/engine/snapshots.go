package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chorale/node/engine/machine"

	"github.com/hashicorp/raft"
)

const (
	snapshotCheck = time.Second
	// A node to which nothing came for quietChecks has time for a snapshot if a start would
	// replay an eighth of what makes one due at the latest.
	quietChecks, quietShare = 10, 8
	// A follower may have stored what a leader has in flight, written its own
	// snapshot of it and cut its log before the leader hears of it. Then the leader
	// asks for the place that it knows. If the log began behind that, it would send a
	// snapshot older than the follower's, which the follower must refuse.
	//
	//	trailingMin > maxAppendEntries * (requests in flight + 1)
	trailingMin, trailingMax = 4 * maxAppendEntries, 16384
)

// snapshot asks Raft for a snapshot whenever enough bytes were applied. Raft's own
// trigger counts entries, and entries here have 100 bytes or 1 MiB: so the bytes
// decide, and the entries to keep follow from their mean size. A quiet node asks earlier:
// until the next snapshot each start replays all that is behind the last one.
func (e *Engine) snapshot(ctx context.Context) error {
	r := e.running()
	last, quiet := int64(0), 0
	for pause(ctx, snapshotCheck) {
		bytes, entries := e.machine.Applied()
		if quiet++; entries != last {
			last, quiet = entries, 0
		}
		if bytes < e.settings.SnapshotBytes && (bytes < e.settings.SnapshotBytes/quietShare || quiet < quietChecks) {
			continue
		}
		c := r.ReloadableConfig()
		if keep := machine.Trailing(bytes, entries, e.settings.SnapshotBytes/2, trailingMin, trailingMax); keep != c.TrailingLogs {
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
