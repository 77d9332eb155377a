package check

import (
	"math"
	"slices"

	"chorale/jepsen/history"
)

// span is when a unit was decided at the earliest and at the latest: its first
// invoke and its first final answer.
type span struct{ invoke, answer uint64 }

func (p *Placed) spans() []span {
	out := make([]span, len(p.seqs))
	for i := range out {
		out[i] = span{math.MaxUint64, math.MaxUint64}
	}
	for _, a := range p.h.Attempts {
		s := &out[a.Unit]
		s.invoke = min(s.invoke, a.Invoke)
		if acknowledged(a.Result) || a.Result == history.Refused {
			s.answer = min(s.answer, a.Return)
		}
	}
	return out
}

// windows gives each unit its window. One sweep over all moments in order: going
// forward, the highest seq that was acknowledged; going back, the lowest seq of
// what was first sent later.
func (p *Placed) windows() []window {
	type moment struct {
		at     uint64
		unit   int
		answer bool
	}
	spans := p.spans()
	var ms []moment
	for u, s := range spans {
		ms = append(ms, moment{s.invoke, u, false}, moment{s.answer, u, true})
	}
	slices.SortFunc(ms, func(a, b moment) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	out := make([]window, len(spans))
	high := uint64(0)
	for _, m := range ms {
		if !m.answer {
			out[m.unit].after = high
		} else if m.at != math.MaxUint64 {
			high = max(high, slices.Max(p.seqs[m.unit]))
		}
	}
	low := uint64(math.MaxUint64)
	for _, m := range slices.Backward(ms) {
		if m.answer {
			out[m.unit].before = low
		} else if at := p.seqs[m.unit][0]; at != 0 {
			low = min(low, at)
		}
	}
	return out
}

// RealTime finds units that stand in the stream before one that was acknowledged
// before they were sent, or behind one that was sent after their answer.
func RealTime(p *Placed) []Finding {
	f := findings{name: "back-in-time"}
	for u, w := range p.windows() {
		at := p.seqs[u][0]
		if at != 0 && (at <= w.after || at >= w.before) {
			f.add(unitName+": seq %d, but by the clock it belongs between %d and %d", append(p.name(u), at, w.after, w.before)...)
		}
	}
	return f.list
}
