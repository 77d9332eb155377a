package check

import (
	"math"
	"slices"

	"chorale/jepsen/history"
)

// Placed is a history whose units were looked up in the final stream.
type Placed struct {
	h      *history.History
	stream []history.Message
	seqs   [][]uint64          // per unit, per message: its seq, 0 if it is not in the stream
	topics map[string][]uint64 // the seqs of each topic, ascending
}

type bodyOf struct{ unit, message int }

// Place finds each unit in the stream, and on the way what should not be there: a
// message twice, or one that nobody published or whose topic changed.
func Place(h *history.History, stream []history.Message) (*Placed, []Finding) {
	twice, foreign := findings{name: "duplicate"}, findings{name: "unexpected"}
	p := &Placed{h: h, stream: stream, seqs: make([][]uint64, len(h.Units)), topics: map[string][]uint64{}}
	bodies := map[string]bodyOf{}
	for u, unit := range h.Units {
		p.seqs[u] = make([]uint64, len(unit.Messages))
		for i, m := range unit.Messages {
			if _, ok := bodies[string(m.Body)]; ok {
				panic("a history with two equal bodies cannot be judged")
			}
			bodies[string(m.Body)] = bodyOf{u, i}
		}
	}
	for _, m := range stream {
		p.topics[m.Topic] = append(p.topics[m.Topic], m.Seq)
		b, ok := bodies[string(m.Body)]
		switch {
		case !ok:
			foreign.add("%v was never published", m)
		case h.Units[b.unit].Messages[b.message].Topic != m.Topic:
			foreign.add("%v was published to %s", m, h.Units[b.unit].Messages[b.message].Topic)
		case p.seqs[b.unit][b.message] != 0:
			twice.add("%v also has seq %d", m, p.seqs[b.unit][b.message])
		default:
			p.seqs[b.unit][b.message] = m.Seq
		}
	}
	return p, append(twice.list, foreign.list...)
}

// name is how findings speak of a unit.
func (p *Placed) name(u int) []any { return []any{u, p.h.Units[u].Client, p.h.Units[u].Number} }

const unitName = "unit %d (client %d, number %d)"

func acknowledged(r history.Result) bool {
	return r == history.Stored || r == history.Duplicate || r == history.Forgotten
}

// Lost finds acknowledged units that are not in the stream.
func Lost(p *Placed) []Finding {
	f := findings{name: "lost"}
	for _, a := range p.h.Attempts {
		if acknowledged(a.Result) && p.seqs[a.Unit][0] == 0 {
			f.add(unitName+": %s said %s with seq %d, the stream of %d messages lacks it",
				append(p.name(a.Unit), a.Node, a.Result, a.Seq, len(p.stream))...)
		}
	}
	return f.list
}

// Misplaced finds acknowledged units that stand elsewhere than the answer said.
func Misplaced(p *Placed) []Finding {
	f := findings{name: "misplaced"}
	for _, a := range p.h.Attempts {
		at := p.seqs[a.Unit][0]
		if (a.Result == history.Stored || a.Result == history.Duplicate) && at != 0 && at != a.Seq {
			f.add(unitName+": %s said %s with seq %d, it has seq %d", append(p.name(a.Unit), a.Node, a.Result, a.Seq, at)...)
		}
	}
	return f.list
}

// Resurrected finds units in the stream that were finally refused, or each of
// whose attempts was said to have stored nothing.
func Resurrected(p *Placed) []Finding {
	f := findings{name: "resurrected"}
	may := make([]bool, len(p.seqs))
	for _, a := range p.h.Attempts {
		switch a.Result {
		case history.Refused:
			if p.seqs[a.Unit][0] != 0 {
				f.add(unitName+": %s refused it, it has seq %d", append(p.name(a.Unit), a.Node, p.seqs[a.Unit][0])...)
			}
			may[a.Unit] = true
		case history.Failed, history.Gap, history.ProducerUnknown:
		default:
			may[a.Unit] = true
		}
	}
	for u, seqs := range p.seqs {
		if !may[u] && seqs[0] != 0 {
			f.add(unitName+": no attempt can have stored it, it has seq %d", append(p.name(u), seqs[0])...)
		}
	}
	return f.list
}

// Torn finds units of which only a part is stored, or whose messages do not stand
// one behind the other.
func Torn(p *Placed) []Finding {
	f := findings{name: "torn-unit"}
	for u, seqs := range p.seqs {
		for i, s := range seqs {
			if seqs[0] == 0 && s != 0 || seqs[0] != 0 && s != seqs[0]+uint64(i) {
				f.add(unitName+": its messages have the seqs %d", append(p.name(u), seqs)...)
				break
			}
		}
	}
	return f.list
}

// Reordered finds producers whose units are not in the stream in the order of
// their numbers, or of which one is missing below a stored one without having been
// refused.
func Reordered(p *Placed) []Finding {
	f := findings{name: "nonmonotonic-producer"}
	refused := make([]bool, len(p.seqs))
	for _, a := range p.h.Attempts {
		refused[a.Unit] = refused[a.Unit] || a.Result == history.Refused
	}
	last, hole := map[int]uint64{}, map[int]int{}
	for u, unit := range p.h.Units { // a client makes its units in the order of their numbers
		at := p.seqs[u][0]
		switch {
		case unit.Number == 0:
		case at == 0:
			if !refused[u] && !conditional(unit) {
				hole[unit.Client] = u + 1
			}
		case at < last[unit.Client]:
			f.add(unitName+": seq %d, an earlier number of it has %d", append(p.name(u), at, last[unit.Client])...)
		case hole[unit.Client] != 0:
			f.add(unitName+": stored though unit %d, an earlier number, is not", append(p.name(u), hole[unit.Client]-1)...)
			hole[unit.Client] = 0
		}
		last[unit.Client] = max(last[unit.Client], at)
	}
	return f.list
}

func conditional(u history.Unit) bool {
	for _, m := range u.Messages {
		if m.Expected != nil {
			return true
		}
	}
	return false
}

// Answers finds a producer's unit whose attempts were answered differently: stored
// and refused, or with two seqs.
func Answers(p *Placed) []Finding {
	f := findings{name: "changed-answer"}
	first := map[int]history.Attempt{}
	stored := map[int]bool{}
	for _, a := range p.h.Attempts {
		if p.h.Units[a.Unit].Number == 0 || !acknowledged(a.Result) && a.Result != history.Refused {
			continue
		}
		if a.Result == history.Stored {
			if stored[a.Unit] {
				f.add(unitName+": said to be stored twice", p.name(a.Unit)...)
			}
			stored[a.Unit] = true
		}
		b, ok := first[a.Unit]
		if !ok {
			first[a.Unit] = a
			continue
		}
		sameSeq := a.Seq == b.Seq || a.Result == history.Forgotten || b.Result == history.Forgotten
		if (a.Result == history.Refused) != (b.Result == history.Refused) || !sameSeq || a.Index != b.Index {
			f.add(unitName+": %s said %s %d, %s said %s %d", append(p.name(a.Unit), b.Node, b.Result, b.Seq, a.Node, a.Result, a.Seq)...)
		}
	}
	return f.list
}

// window is where in the stream the moment of an attempt's decision can lie, if it
// is the first for its unit: behind everything acknowledged before its invoke and
// before everything first sent after its return.
type window struct{ after, before uint64 }

// Conditions finds units stored although a condition did not hold, and refusals
// that no moment between invoke and return justifies.
func Conditions(p *Placed) []Finding {
	f := findings{name: "wrong-condition"}
	for u, unit := range p.h.Units {
		for i, m := range unit.Messages {
			if at := p.seqs[u][0]; m.Expected != nil && at != 0 && p.lastOf(m.Topic, at) != *m.Expected {
				f.add(unitName+": stored at %d, message %d expected its topic at %d, it was at %d",
					append(p.name(u), at, i, *m.Expected, p.lastOf(m.Topic, at))...)
			}
		}
	}
	windows := p.windows()
	for _, a := range p.h.Attempts {
		if a.Result == history.Refused {
			p.refusal(&f, a, windows[a.Unit])
		}
	}
	return f.list
}

func (p *Placed) refusal(f *findings, a history.Attempt, w window) {
	m := p.h.Units[a.Unit].Messages[min(int(a.Index), len(p.h.Units[a.Unit].Messages)-1)]
	if m.Expected == nil || *m.Expected == a.Seq {
		f.add(unitName+": %s refused message %d, whose condition holds at %d", append(p.name(a.Unit), a.Node, a.Index, a.Seq)...)
		return
	}
	next, seqs := uint64(math.MaxUint64), p.topics[m.Topic]
	if i, _ := slices.BinarySearch(seqs, a.Seq+1); i < len(seqs) {
		next = seqs[i]
	}
	_, known := slices.BinarySearch(seqs, a.Seq)
	known = known || a.Seq == 0
	if !known || a.Seq >= w.before || next <= w.after {
		f.add(unitName+": %s refused it with %s at %d (until %d), which was not so between %d and %d",
			append(p.name(a.Unit), a.Node, m.Topic, a.Seq, next, w.after, w.before)...)
	}
}

// lastOf is the topic's newest seq below a place of the stream.
func (p *Placed) lastOf(topic string, below uint64) uint64 {
	seqs := p.topics[topic]
	if i, _ := slices.BinarySearch(seqs, below); i > 0 {
		return seqs[i-1]
	}
	return 0
}
