package sim

import (
	"context"
	"fmt"
	"time"

	"chorale/jepsen/sim/limits"
)

// retain changes what is kept, until ctx ends.
func (c *cluster) retain(ctx context.Context) {
	limits.Operator{Rng: c.rng("retainer", 0), Stream: c.plan.retained, Rules: c.plan.ruled, Try: c.lead, Insist: c.insist}.Run(ctx)
}

// sameFloors waits until all nodes know the same floors, so that they deliver the same.
func (c *cluster) sameFloors() {
	var known map[string]bool
	for deadline := time.Now().Add(settleWithin); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		known = map[string]bool{}
		for _, m := range c.machines {
			if p := m.process(); p != nil {
				s := p.engine.Subtrees()
				known[fmt.Sprint(s.Rules, s.Floors.List())] = true
			}
		}
		if len(known) < 2 {
			return
		}
	}
	c.found("diverged", "%v after everything was healed nodes know other rules or floors: %v", settleWithin, known)
}
