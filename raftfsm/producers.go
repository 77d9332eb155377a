package raftfsm

import (
	"fmt"
	"sort"

	"chorale/message"
	"chorale/raftfsm/paged"
)

const (
	// MaxProducers bounds the producers that are remembered; the one that is idle
	// for longest is forgotten first.
	MaxProducers = 1_000_000
	// OutcomeWindow is how many numbers back a producer's outcomes are remembered,
	// at least, as long as MaxRuns allows.
	OutcomeWindow = 1 << 16
	// MaxRuns bounds the runs of remembered outcomes of all producers together,
	// beside the newest run of each. The producer that is idle for longest loses
	// its oldest ones first: it is then answered DuplicateForgotten.
	MaxRuns = 1 << 21

	maxRunUnits = 1 << 31
)

// run is the remembered outcome of consecutive numbers of one producer.
type run struct {
	first  uint64 // number
	seq    uint64 // Stored: of the first unit's first message; ConditionFailed: actual
	units  uint32
	detail uint32 // Stored: messages a unit; ConditionFailed: index of the message
	kind   OutcomeKind
}

func (r run) end() uint64 { return r.first + uint64(r.units) }

// extends reports whether a further unit with that outcome fits behind the run.
func (r run) extends(kind OutcomeKind, seq uint64, detail uint32) bool {
	if r.kind != kind || r.detail != detail || r.units == maxRunUnits {
		return false
	}
	if kind == Stored {
		return seq == r.seq+uint64(r.units)*uint64(r.detail)
	}
	return seq == r.seq
}

// outcome of a number within the run, as a retry is told.
func (r run) outcome(number uint64) Outcome {
	if r.kind == Stored {
		return Outcome{Kind: Duplicate, Seq: r.seq + (number-r.first)*uint64(r.detail)}
	}
	return Outcome{Kind: r.kind, Seq: r.seq, Index: r.detail}
}

// producer is what is remembered of one. Invariants:
//
//	runs are ascending and without gap, newest follows them, newest.end() == last+1
//	an element of runs is never written to once it is there: captures share them
type producer struct {
	id           message.ProducerID
	last         uint64 // number
	seen         int64  // stream time
	older, newer uint32 // neighbours in order of activity; none at the ends
	newest       run
	runs         []run
}

const none = ^uint32(0)

// producers are all of them, in a list by last activity.
type producers struct {
	slots          paged.Array[producer]
	index          map[message.ProducerID]uint32
	free           []uint32
	oldest, latest uint32 // ends of the list
	laden          uint32 // no producer before it in the list has runs
	runs           int    // of all producers
	maxProducers   int    // limits are fields so that tests can make them small
	maxRuns        int
}

func newProducers() *producers {
	return &producers{
		index:  make(map[message.ProducerID]uint32),
		oldest: none, latest: none, laden: none,
		maxProducers: MaxProducers, maxRuns: MaxRuns,
	}
}

// find returns a known producer for reading.
func (t *producers) find(id message.ProducerID) (*producer, bool) {
	slot, ok := t.index[id]
	if !ok {
		return nil, false
	}
	return t.slots.At(slot), true
}

// touch makes a producer the latest and returns its slot; ok is false if it is
// not known.
func (t *producers) touch(id message.ProducerID, now int64) (slot uint32, ok bool) {
	if slot, ok = t.index[id]; !ok {
		return none, false
	}
	if slot != t.latest {
		t.unlink(slot)
		t.link(slot)
	}
	t.slots.Edit(slot).seen = now
	return slot, true
}

// add makes a new producer, the latest, and forgets the oldest if they are too
// many.
func (t *producers) add(id message.ProducerID, now int64) (slot uint32) {
	if len(t.index) >= t.maxProducers {
		t.remove(t.oldest)
	}
	if n := len(t.free); n > 0 {
		slot, t.free = t.free[n-1], t.free[:n-1]
	} else {
		slot = t.slots.Len()
		t.slots.Grow(1)
	}
	*t.slots.Edit(slot) = producer{id: id, seen: now}
	t.index[id] = slot
	t.link(slot)
	return slot
}

// put takes a producer from a snapshot, as the latest.
func (t *producers) put(p producer) {
	slot := t.add(p.id, p.seen)
	here := t.slots.Edit(slot)
	here.last, here.newest, here.runs = p.last, p.newest, p.runs
	t.runs += len(p.runs)
}

// expire forgets who was last seen before the given stream time.
func (t *producers) expire(before int64) {
	for t.oldest != none && t.slots.At(t.oldest).seen < before {
		t.remove(t.oldest)
	}
}

func (t *producers) remove(slot uint32) {
	t.unlink(slot)
	p := t.slots.Edit(slot)
	t.runs -= len(p.runs)
	delete(t.index, p.id)
	*p = producer{}
	t.free = append(t.free, slot)
}

func (t *producers) link(slot uint32) {
	p := t.slots.Edit(slot)
	p.older, p.newer = t.latest, none
	if t.latest == none {
		t.oldest = slot
	} else {
		t.slots.Edit(t.latest).newer = slot
	}
	t.latest = slot
	if t.laden == none {
		t.laden = slot
	}
}

func (t *producers) unlink(slot uint32) {
	p := t.slots.At(slot)
	if t.laden == slot {
		t.laden = p.newer
	}
	if p.older == none {
		t.oldest = p.newer
	} else {
		t.slots.Edit(p.older).newer = p.newer
	}
	if p.newer == none {
		t.latest = p.older
	} else {
		t.slots.Edit(p.newer).older = p.older
	}
}

// record remembers the outcome of the producer's next number, a unit of so many
// messages.
func (t *producers) record(slot uint32, v Outcome, messages int) {
	detail := v.Index
	if v.Kind == Stored {
		detail = uint32(messages)
	}
	p := t.slots.Edit(slot)
	p.last++
	if p.newest.extends(v.Kind, v.Seq, detail) {
		p.newest.units++
		return
	}
	if p.newest.units > 0 {
		t.push(p)
	}
	p.newest = run{first: p.last, seq: v.Seq, units: 1, detail: detail, kind: v.Kind}
}

// push moves the newest run to the older ones and forgets what is too old or too
// much.
func (t *producers) push(p *producer) {
	p.runs = append(p.runs, p.newest)
	t.runs++
	for len(p.runs) > 0 && p.runs[0].end()+OutcomeWindow <= p.last {
		p.runs = p.runs[1:]
		t.runs--
	}
	for t.runs > t.maxRuns {
		victim := t.slots.At(t.laden)
		if len(victim.runs) == 0 {
			t.laden = victim.newer
			continue
		}
		victim = t.slots.Edit(t.laden)
		if victim.runs = victim.runs[1:]; len(victim.runs) == 0 {
			victim.runs = nil
		}
		t.runs--
	}
}

// recall answers a number that was decided before: 1 <= number <= last.
func (p *producer) recall(number uint64) Outcome {
	if number >= p.newest.first {
		return p.newest.outcome(number)
	}
	i := sort.Search(len(p.runs), func(i int) bool { return p.runs[i].end() > number })
	if i == len(p.runs) || number < p.runs[i].first {
		return Outcome{Kind: DuplicateForgotten}
	}
	return p.runs[i].outcome(number)
}

// number gives the runs of a producer from a snapshot their first numbers,
// backwards from its last one.
func (p *producer) number() error {
	next := p.last + 1
	place := func(r *run) bool {
		if uint64(r.units) >= next {
			return false
		}
		next -= uint64(r.units)
		r.first = next
		return true
	}
	ok := place(&p.newest)
	for i := len(p.runs) - 1; i >= 0 && ok; i-- {
		ok = place(&p.runs[i])
	}
	if !ok {
		return fmt.Errorf("more outcomes than its last number %d", p.last)
	}
	return nil
}
