package roster

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// deadAgain is how long a leader waits after it tried to remove a dead node in vain.
const deadAgain = time.Minute

// dead is the member that has been silent for longest, if that is longer than after. A
// leader knows of silence since the term began. A node of the first ones that never
// introduced itself is one like others. Pure.
func (v view) dead(begun time.Time, after time.Duration) (raft.ServerID, time.Duration, bool) {
	var id raft.ServerID
	longest := after
	for _, s := range v.servers {
		m, known := v.list.Find(string(s.ID))
		if s.ID == v.self || known && m.Removed {
			continue
		}
		n := v.reports[s.ID]
		since := begun
		if n.Said.After(since) {
			since = n.Said
		}
		if silent := v.now.Sub(since); silent >= longest {
			id, longest = s.ID, silent
		}
	}
	return id, longest, id != ""
}

// bury removes the member that has been silent for longest, if the operator wants that
// (Options.RemoveDead): one at a time, since the next comes when this one is gone from
// Raft's configuration, and only where Remove would do it.
func (r *Roster) bury(ctx context.Context, begun time.Time) error {
	if r.RemoveDead <= 0 {
		return nil
	}
	v := r.view()
	if _, due := next(v); due {
		return nil
	}
	id, silent, found := v.dead(begun, r.RemoveDead)
	if !found {
		return nil
	}
	r.Log.Warn("a node is removed because it has been silent for too long", "node", id, "silent", silent.Round(time.Second), "allowed", r.RemoveDead)
	if err := r.Remove(ctx, id); err != nil {
		return fmt.Errorf("node %s, which is silent, cannot be removed: %w", id, err)
	}
	return nil
}
