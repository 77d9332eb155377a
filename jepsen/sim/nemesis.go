package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// nemesis does harm, drawn from the seed, until told to stop. For one goroutine,
// but a machine comes back by a goroutine of its own.
type nemesis struct {
	c   *cluster
	rng *rand.Rand
}

// run alternates storms, in which faults overlap, with quiet.
func (n *nemesis) run(ctx context.Context) {
	for ctx.Err() == nil {
		for range 1 + n.rng.IntN(4) {
			n.strike()
			n.sleep(ctx, 1500*time.Millisecond)
		}
		n.c.calm()
		n.sleep(ctx, 3*time.Second)
	}
}

func (n *nemesis) sleep(ctx context.Context, most time.Duration) {
	select {
	case <-time.After(time.Duration(n.rng.Int64N(int64(most)))):
	case <-ctx.Done():
	}
}

// calm heals the network and lets the disks go on, and work.
func (c *cluster) calm() {
	c.note("calm")
	c.net.Heal()
	for _, m := range c.machines {
		m.disk.ClearFaults()
	}
}

// strike does one harm.
func (n *nemesis) strike() {
	harms := []struct {
		weight int
		do     func()
	}{
		{4, n.isolateLeader},
		{3, n.halfIsolateLeader},
		{3, n.cutSomeLinks},
		{2, n.slowSomeLinks},
		{4, func() { n.crash(n.c.leader(n.rng)) }},
		{4, func() { n.crash(n.rng.IntN(nodes)) }},
		{2, n.crashTwo},
		{2, n.crashAll},
		{2, n.restart},
		{2, n.stallDisk},
		{1, n.partThenKill},
		{1, n.failDisk},
		{1, n.hangDisk},
		{2, n.damageFile},
	}
	total := 0
	for _, h := range harms {
		total += h.weight
	}
	draw := n.rng.IntN(total)
	for _, h := range harms {
		if draw -= h.weight; draw < 0 {
			h.do()
			return
		}
	}
}

func (n *nemesis) isolateLeader() { n.isolate(n.c.leader(n.rng)) }

func (n *nemesis) isolate(i int) {
	n.c.note("isolate %s", n.c.machines[i].name)
	for j := range nodes {
		if j != i {
			n.c.net.Cut(i, j)
			n.c.net.Cut(j, i)
		}
	}
}

// halfIsolateLeader lets the leader speak and not hear, or hear and not speak.
func (n *nemesis) halfIsolateLeader() {
	i, deaf := n.c.leader(n.rng), n.rng.IntN(2) == 0
	n.c.note("half isolate %s, deaf: %v", n.c.machines[i].name, deaf)
	for j := range nodes {
		switch {
		case j == i:
		case deaf:
			n.c.net.Cut(j, i)
		default:
			n.c.net.Cut(i, j)
		}
	}
}

func (n *nemesis) cutSomeLinks() {
	for i := range nodes {
		for j := range nodes {
			if i != j && n.rng.IntN(3) == 0 {
				n.c.note("cut %s to %s", n.c.machines[i].name, n.c.machines[j].name)
				n.c.net.Cut(i, j)
			}
		}
	}
}

func (n *nemesis) slowSomeLinks() {
	for i := range nodes {
		for j := range nodes {
			if i != j && n.rng.IntN(2) == 0 {
				extra := time.Duration(n.rng.Int64N(int64(800 * time.Millisecond)))
				n.c.note("slow %s to %s by %v", n.c.machines[i].name, n.c.machines[j].name, extra)
				n.c.net.Slow(i, j, extra)
			}
		}
	}
}

// crash takes one machine's power for up to two seconds, or kills its process.
func (n *nemesis) crash(i int) {
	n.c.crashFor(n.c.machines[i], n.rng.IntN(3) > 0, time.Duration(n.rng.Int64N(int64(2*time.Second))))
}

func (c *cluster) crashFor(m *machine, power bool, pause time.Duration) {
	if m.process() == nil {
		return
	}
	c.note("crash %s for %v, power cut: %v", m.name, pause, power)
	m.crash(power)
	c.booting.Go(func() {
		time.Sleep(pause)
		m.start()
	})
}

func (n *nemesis) crashTwo() {
	i := n.rng.IntN(nodes)
	n.crash(i)
	n.crash((i + 1) % nodes)
}

func (n *nemesis) crashAll() {
	for i := range nodes {
		n.crash(i)
	}
}

// restart stops and starts a node as an operator would.
func (n *nemesis) restart() {
	m := n.c.machines[n.rng.IntN(nodes)]
	n.c.note("restart %s", m.name)
	if m.process() != nil {
		m.stop()
		m.start()
	}
}

// stallDisk lets a disk hang for a while in the middle of a sync.
func (n *nemesis) stallDisk() {
	n.stall(n.c.machines[n.rng.IntN(nodes)], time.Duration(n.rng.Int64N(int64(4*time.Second))))
}

func (n *nemesis) stall(m *machine, pause time.Duration) {
	n.c.note("stall the disk of %s for %v", m.name, pause)
	if err := m.disk.Fault(`on sync "*" stall`); err != nil {
		panic(fmt.Sprintf("the stall was refused: %v", err))
	}
	n.c.booting.Go(func() {
		time.Sleep(pause)
		m.disk.Release()
	})
}

// partThenKill is the script that lost data elsewhere: isolate one, write, cut the
// power of another, let the two form the majority.
func (n *nemesis) partThenKill() {
	i := n.rng.IntN(nodes)
	n.isolate(i)
	time.Sleep(time.Duration(n.rng.Int64N(int64(2 * time.Second))))
	n.crash((i + 1) % nodes)
	n.c.net.Heal()
	n.isolate((i + 2) % nodes)
}
