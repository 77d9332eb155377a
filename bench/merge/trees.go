package merge

import "math/bits"

// loserTree is a tournament of sources: each inner node keeps the loser of its
// match, so the next winner is found by one comparison a level.
type loserTree struct {
	losers []uint64 // position<<32 | source; losers[0] is the winner
	at     []uint32
}

const exhausted = ^uint64(0)

func (t *loserTree) Merge(into []uint32, sources [][]uint64, _ uint32) []uint32 {
	leaves := 1 << bits.Len(uint(max(len(sources), 2)-1))
	t.build(sources, leaves)
	for t.losers[0] != exhausted {
		winner := t.losers[0]
		into = append(into, uint32(winner>>32))
		i := uint32(winner)
		if s := sources[i]; int(t.at[i]) < len(s) {
			winner = s[t.at[i]]<<32 | uint64(i)
			t.at[i]++
		} else {
			winner = exhausted
		}
		losers := t.losers
		for n := (leaves + int(i)) / 2; n > 0; n /= 2 {
			loser := losers[n]
			losers[n] = max(loser, winner)
			winner = min(loser, winner)
		}
		losers[0] = winner
	}
	return into
}

func (t *loserTree) build(sources [][]uint64, leaves int) {
	t.at = append(t.at[:0], make([]uint32, len(sources))...)
	t.losers = append(t.losers[:0], make([]uint64, 2*leaves)...)
	winners := t.losers // the leaves' half holds the winners of the first round
	for i := range leaves {
		winners[leaves+i] = exhausted
		if i < len(sources) && len(sources[i]) > 0 {
			winners[leaves+i] = sources[i][0]<<32 | uint64(i)
			t.at[i] = 1
		}
	}
	t.losers[0] = t.play(1, leaves)
}

// play fills the nodes below n and returns the winner.
func (t *loserTree) play(n, leaves int) uint64 {
	if n >= leaves {
		return t.losers[n]
	}
	a, b := t.play(2*n, leaves), t.play(2*n+1, leaves)
	t.losers[n] = max(a, b)
	return min(a, b)
}

// pairwise merges lists two by two until one is left.
type pairwise struct {
	a, b []uint32
	ends []int
}

func (p *pairwise) Merge(into []uint32, sources [][]uint64, _ uint32) []uint32 {
	p.a, p.ends = p.a[:0], p.ends[:0]
	for _, s := range sources {
		for _, e := range s {
			p.a = append(p.a, uint32(e))
		}
		p.ends = append(p.ends, len(p.a))
	}
	p.b = append(p.b[:0], p.a...)
	from, to := p.a, p.b
	for len(p.ends) > 1 {
		start, n := 0, 0
		for i := 0; i < len(p.ends); i += 2 {
			mid, end := p.ends[i], p.ends[i]
			if i+1 < len(p.ends) {
				end = p.ends[i+1]
			}
			mergeTwo(to[start:end], from[start:mid], from[mid:end])
			start, p.ends[n] = end, end
			n++
		}
		p.ends = p.ends[:n]
		from, to = to, from
	}
	return append(into, from...)
}

func mergeTwo(to, a, b []uint32) {
	i, j, n := 0, 0, 0
	for i < len(a) && j < len(b) {
		x, y := a[i], b[j]
		to[n] = min(x, y)
		n++
		if x < y {
			i++
		} else {
			j++
		}
	}
	n += copy(to[n:], a[i:])
	copy(to[n:], b[j:])
}
