package sim

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"chorale/node/engine"
)

// failDisk lets one call of a machine's disk fail, sometime soon, and what a real
// disk does after it: a file whose sync failed may lose what was written. The node
// may end for it; an operator starts it again on a disk that works.
func (n *nemesis) failDisk() {
	m := n.c.machines[n.rng.IntN(nodes)]
	fault := fmt.Sprintf(`on %s "*" after %d times 1 fail %s`,
		pick(n.rng, "sync", "sync", "write", "create", "rename", "syncdir"), n.rng.IntN(40), pick(n.rng, "EIO", "ENOSPC"))
	n.c.note("%s: %s", m.name, fault)
	m.excuse()
	if err := m.disk.Fault(fault); err != nil {
		panic(err)
	}
}

// hangDisk lets a disk hang for longer than a node puts up with.
func (n *nemesis) hangDisk() {
	m := n.c.machines[n.rng.IntN(nodes)]
	m.excuse()
	n.stall(m, 12*time.Second+time.Duration(n.rng.Int64N(int64(4*time.Second))))
}

// damageFile spoils a data file of one machine that the others hold as well, and
// that was spoilt nowhere before; or of all, at different places.
func (n *nemesis) damageFile() {
	m := n.c.machines[n.rng.IntN(nodes)]
	count := map[string]int{}
	for _, other := range n.c.machines {
		files, err := other.files()
		if err != nil {
			return // a machine that has not got so far
		}
		for name := range files {
			count[name]++
		}
	}
	files, err := m.files()
	if err != nil || len(files) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(files))
	for range names {
		file := names[n.rng.IntN(len(names))]
		if count[file] < nodes || len(files[file]) == 0 || !n.c.spoil(file) {
			continue
		}
		name, size := path.Join(engine.Dir, file), int64(len(files[file]))
		if n.rng.IntN(4) == 0 {
			n.rot(name, size)
			return
		}
		m.excuse()
		var what string
		switch n.rng.IntN(3) {
		case 0:
			what, err = "cut", m.disk.Truncate(name, n.rng.Int64N(size))
		case 1:
			what, err = "lose", m.disk.Lose(name)
		default:
			what, err = "flip a bit of", m.disk.FlipBit(name, n.rng.Int64N(8*size))
		}
		n.c.note("%s: %s %s: %v", m.name, what, file, err)
		n.c.saw("a file was damaged")
		return
	}
}

// rot flips a bit of a file on every machine, each in a part of its own: together they
// have it still.
func (n *nemesis) rot(name string, size int64) {
	for i, m := range n.c.machines {
		m.excuse()
		from, to := size*int64(i)/nodes, size*int64(i+1)/nodes
		err := m.disk.FlipBit(name, 8*from+n.rng.Int64N(8*(to-from)))
		n.c.note("%s: flip a bit of %s, as on all machines: %v", m.name, name, err)
	}
	n.c.saw("a file was damaged on all machines")
}

// spoil notes that a file is damaged on some machine; false if one was before.
func (c *cluster) spoil(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spoilt[name] {
		return false
	}
	c.spoilt[name] = true
	return true
}

func (c *cluster) isSpoilt(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spoilt[name]
}
