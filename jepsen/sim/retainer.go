package sim

import (
	"context"
	"time"

	"chorale/node/engine"
	"chorale/raftfsm"
)

// retain changes the stream's retention now and then, until ctx ends; in the end
// everything that is left is kept, so that the final readers all get the same.
func (c *cluster) retain(ctx context.Context) {
	rng := c.rng("retainer", 0)
	for ctx.Err() == nil {
		select {
		case <-time.After(time.Duration(rng.Int64N(int64(3 * time.Second)))):
		case <-ctx.Done():
		}
		r := raftfsm.Retention{Age: int64(pick(rng, 0, time.Second, 4*time.Second)), Bytes: pick(rng, 0, int64(4<<10), 64<<10)}
		// A try: where nobody leads, the one before stays.
		_ = c.lead(func(ctx context.Context, e *engine.Engine) error { return e.SetRetention(ctx, r) })
	}
	c.insist("the end of the retention", func(ctx context.Context, e *engine.Engine) error {
		return e.SetRetention(ctx, raftfsm.Retention{})
	})
}
