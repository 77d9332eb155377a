package disk

import (
	"maps"
	"math/rand/v2"
	"path"
	"slices"
)

// place is where a name stands; the zero place is nowhere.
type place struct {
	dir  *inode
	name string
}

// move takes an inode from a place to a place: create, rename and remove are one.
type move struct {
	node     *inode
	from, to place
	// Which of the two folders was synced since. The folder nowhere always was.
	fromSynced, toSynced bool
}

func (mv *move) settled() bool { return mv.fromSynced && mv.toSynced }

// keep applies the move to the durable names. A move whose inode is not where it
// should be taken from depended on a move that was lost, and is lost with it.
func (mv *move) keep() {
	if mv.from.dir != nil {
		if mv.from.dir.kept[mv.from.name] != mv.node {
			return
		}
		delete(mv.from.dir.kept, mv.from.name)
	}
	if mv.to.dir != nil {
		mv.to.dir.kept[mv.to.name] = mv.node
	}
}

// move makes a change of names, visible at once, durable when it is settled.
func (m *Mem) move(n *inode, from, to place) {
	if from.dir != nil {
		delete(from.dir.names, from.name)
	}
	if to.dir != nil {
		to.dir.names[to.name] = n
	}
	m.pending = append(m.pending, &move{node: n, from: from, to: to, fromSynced: from.dir == nil, toSynced: to.dir == nil})
}

// syncNames settles the moves of a folder. One behind an unsettled move waits for
// it in the list, because the order of moves is what keeps them consistent; but
// it is settled, and no crash loses it.
func (m *Mem) syncNames(dir *inode) {
	if dir.broken {
		return
	}
	for _, mv := range m.pending {
		mv.fromSynced = mv.fromSynced || mv.from.dir == dir
		mv.toSynced = mv.toSynced || mv.to.dir == dir
	}
	for len(m.pending) > 0 && m.pending[0].settled() {
		m.pending[0].keep()
		m.pending = m.pending[1:]
	}
}

// Crash takes the power away and gives it back: what was not synced is kept, lost
// or torn as the seed decides, stalled calls return, and everything that was open
// or mounted fails from now on with ErrPowerLost. Faults stay.
func (m *Mem) Crash() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.crash()
}

// Wipe is another, empty disk in this one's place. Whoever used this one meets
// ErrPowerLost.
func (m *Mem) Wipe() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.crash()
	m.root = newFolder()
}

func (m *Mem) crash() {
	// One generator a crash: its draws do not depend on how many the last one took.
	rng := rand.New(rand.NewPCG(m.seed, m.life))
	keepMoves(m.pending, rng)
	m.root = afterCrash(m.root, rng)
	m.pending = nil
	m.life++
	m.release()
}

// The ways in which a part of what was not synced can survive.
const (
	keepNone = iota
	keepAll
	keepPrefix
	keepSome
	waysToKeep
)

// keepMoves draws which unsettled moves survive.
func keepMoves(moves []*move, rng *rand.Rand) {
	way := rng.IntN(waysToKeep)
	prefix := rng.IntN(len(moves) + 1)
	for i, mv := range moves {
		lucky := way == keepAll || way == keepPrefix && i < prefix || way == keepSome && rng.IntN(2) == 0
		if mv.settled() || lucky {
			mv.keep()
		}
	}
}

// afterCrash copies what is durable below n, with drawn remains of the rest.
func afterCrash(n *inode, rng *rand.Rand) *inode {
	if !n.folder() {
		data := n.data
		if n.dirty() {
			data = tear(n, rng)
		}
		data = data[:len(data):len(data)]
		return &inode{data: data, synced: data}
	}
	out := newFolder()
	for _, name := range slices.Sorted(maps.Keys(n.kept)) {
		c := afterCrash(n.kept[name], rng)
		out.names[name], out.kept[name] = c, c
	}
	return out
}

// tear draws what is left of a dirty file.
func tear(n *inode, rng *rand.Rand) []byte {
	sure := len(n.synced) // bytes that no draw may touch
	if n.rewritten {
		sure = 0
	}
	switch rng.IntN(waysToKeep) {
	case keepNone:
		return n.synced
	case keepAll:
		return n.data
	case keepPrefix:
		return n.data[:sure+rng.IntN(len(n.data)-sure+1)]
	}
	out := make([]byte, sure+rng.IntN(len(n.data)-sure+1))
	copy(out, n.synced)
	sector := []int{512, 4096}[rng.IntN(2)]
	for i := sure; i < len(out); {
		end := min(len(out), (i/sector+1)*sector)
		if rng.IntN(2) == 0 {
			copy(out[i:end], n.data[i:end])
		}
		i = end
	}
	return out
}

// Unsynced lists what a crash may still change, sorted: files by name, folders
// with a slash behind it ("./" is the root).
func (m *Mem) Unsynced() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	loose := make(map[*inode]bool)
	for _, mv := range m.pending {
		if !mv.fromSynced {
			loose[mv.from.dir] = true
		}
		if !mv.toSynced {
			loose[mv.to.dir] = true
		}
	}
	var out []string
	var walk func(name string, n *inode)
	walk = func(name string, n *inode) {
		if !n.folder() && n.dirty() {
			out = append(out, name)
		}
		if loose[n] {
			out = append(out, name+"/")
		}
		for c, child := range n.names {
			walk(path.Join(name, c), child)
		}
	}
	walk(".", m.root)
	slices.Sort(out)
	return out
}
