package sim

import (
	"time"

	"chorale/raftfsm/level"
)

// build is what the node reads that a machine starts: in some histories an earlier version
// at first, and the newest one from one of the further starts on. Who holds starting calls.
func (m *machine) build() level.Range {
	reads, newest := level.Level(m.reads.Load()), level.Built().Highest
	if reads == 0 {
		reads = m.c.plan.earliest
	} else if reads < newest && m.c.rng("upgrade", m.starts*nodes+m.index).IntN(2) == 0 {
		reads = newest
		m.c.note("%s is upgraded", m.name)
		m.c.saw("a machine was upgraded")
	}
	m.reads.Store(uint32(reads))
	return level.Range{Lowest: level.First, Highest: reads}
}

// checkLevel waits until the log is at the level that all machines read. One that was
// raised beyond that has stopped a node.
func (c *cluster) checkLevel() {
	want := level.Built().Highest
	for _, m := range c.machines {
		want = min(want, level.Level(m.reads.Load()))
	}
	if want < level.Logged {
		want = 0
	}
	var got level.Level
	for deadline := time.Now().Add(settleWithin); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		got = want
		for _, m := range c.machines {
			if p := m.process(); p != nil && p.engine.Level().Level != want {
				got = p.engine.Level().Level
			}
		}
		if got == want {
			return
		}
	}
	c.found("level", "the log is at level %d, and all nodes read %d", got, want)
}
