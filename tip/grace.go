package tip

import "sync/atomic"

// grace tells the writer when memory that it took out of the tip is out of every
// reader's sight, without either side waiting for the other.
//
// Readers enter on the current side and leave it. Whatever was taken out may be
// used again once each side was seen empty after that moment: a reader that could
// still hold it had entered, on one side or the other, before. Turning the sides
// only makes the old one run empty.
type grace struct {
	side   atomic.Uint32
	inside [2]padded
}

// padded keeps the two counters on cache lines of their own.
type padded struct {
	n atomic.Int64
	_ [56]byte
}

// enter returns the side to leave. What a reader finds through the tip's atomic
// pointers stays as it is until it leaves.
func (g *grace) enter() uint32 {
	side := g.side.Load()
	g.inside[side].n.Add(1)
	return side
}

func (g *grace) leave(side uint32) { g.inside[side].n.Add(-1) }

// turn is the writer's: it reports whether the side that is not current is empty,
// and if so makes it current.
func (g *grace) turn() bool {
	old := g.side.Load()
	if g.inside[1-old].n.Load() != 0 {
		return false
	}
	g.side.Store(1 - old)
	return true
}

// retired is what one turn's time took out of the tip.
type retired struct {
	chunks []*chunk
	blocks *block
}
