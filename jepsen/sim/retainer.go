package sim

import (
	"context"
	"fmt"
	"math"
	"time"

	"chorale/jepsen/sim/limits"
)

// retain changes what is kept, until ctx ends.
func (c *cluster) retain(ctx context.Context) {
	limits.Operator{Rng: c.rng("retainer", 0), Stream: c.plan.retained, Rules: c.plan.ruled, Try: c.lead, Insist: c.insist}.Run(ctx)
}

// sameFloors waits until all nodes know the same floors, so that they deliver the same; and no
// earlier ones than when it was called before: behind a restart of all they may agree on those
// of their snapshots.
func (c *cluster) sameFloors() {
	var known map[string]bool
	least, most := uint64(0), uint64(0)
	for deadline := time.Now().Add(settleWithin); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		known, least = map[string]bool{}, math.MaxUint64
		for _, m := range c.machines {
			if p := m.process(); p != nil {
				s := p.engine.Subtrees()
				known[fmt.Sprint(s.Rules, s.Floors.List())] = true
				applied := p.engine.Status().Applied
				least, most = min(least, applied), max(most, applied)
			}
		}
		if len(known) < 2 && least >= c.applied {
			c.applied = most
			return
		}
	}
	c.found("diverged", "%v after everything was healed nodes know other rules or floors: %v", settleWithin, known)
}
