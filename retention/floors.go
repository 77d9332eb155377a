package retention

import (
	"fmt"
	"slices"
	"strings"
)

// Floor says what has gone: of the topics that its filter matches, everything before Seq.
type Floor struct {
	Filter string // a/b/**, or a/b
	Seq    uint64
}

// Name is the name that the filter is about: its topic, or the top of its subtree.
func (f Floor) Name() string {
	name, _ := cutSubtree(f.Filter)
	return name
}

// Floors are all floors of a stream. Immutable; nil is none.
type Floors struct {
	list    []Floor           // ascending by filter
	topics  map[string]uint64 // by the name of one topic
	below   map[string]uint64 // by the name above a subtree
	highest uint64
}

// NewFloors makes floors of a list; of two with the same filter the higher one holds, and one
// that says nothing beside another is left out.
func NewFloors(list []Floor) *Floors {
	all := &Floors{topics: map[string]uint64{}, below: map[string]uint64{}}
	for _, f := range list {
		name, below := cutSubtree(f.Filter)
		into := all.topics
		if below {
			into = all.below
		}
		into[name] = max(into[name], f.Seq)
	}
	out := &Floors{topics: map[string]uint64{}, below: map[string]uint64{}}
	for name, seq := range all.topics {
		if all.above(name) < seq {
			out.topics[name] = seq
			out.list = append(out.list, Floor{name, seq})
		}
	}
	for name, seq := range all.below {
		if all.above(parent(name)) < seq {
			out.below[name] = seq
			out.list = append(out.list, Floor{name + "/" + WholeStream, seq})
		}
	}
	slices.SortFunc(out.list, func(a, b Floor) int { return strings.Compare(a.Filter, b.Filter) })
	for _, f := range out.list {
		out.highest = max(out.highest, f.Seq)
	}
	if len(out.list) == 0 {
		return nil
	}
	return out
}

// parent is the name one level up; "" of a name of one level.
func parent(name string) string {
	return name[:max(strings.LastIndexByte(name, '/'), 0)]
}

// above is the highest floor of the subtrees that a name is in.
func (f *Floors) above(name string) (seq uint64) {
	for ; name != ""; name = parent(name) {
		seq = max(seq, f.below[name])
	}
	return seq
}

// With are the floors when some have risen. None falls.
func (f *Floors) With(risen ...Floor) *Floors {
	if len(risen) == 0 {
		return f
	}
	return NewFloors(append(slices.Clone(f.List()), risen...))
}

// Of is the floor of a topic, or of all that a filter matches: everything of it before that
// seq has gone. 0 or 1 is nothing.
func (f *Floors) Of(filter string) uint64 {
	if f == nil {
		return 0
	}
	return max(f.topics[filter], f.above(filter))
}

// List is ascending by filter. Not to be changed.
func (f *Floors) List() []Floor {
	if f == nil {
		return nil
	}
	return f.list
}

// Highest is the highest floor of all.
func (f *Floors) Highest() uint64 {
	if f == nil {
		return 0
	}
	return f.highest
}

// Reach is the highest floor that says something of topics at a name or below it; "" is above
// all. What such a topic has from that seq on has not gone.
func (f *Floors) Reach(name string) (seq uint64) {
	if f == nil || name == "" {
		return f.Highest()
	}
	seq = f.Of(name)
	below := name + "/"
	at, _ := slices.BinarySearchFunc(f.list, below, func(one Floor, prefix string) int { return strings.Compare(one.Filter, prefix) })
	for ; at < len(f.list) && strings.HasPrefix(f.list[at].Filter, below); at++ {
		seq = max(seq, f.list[at].Seq)
	}
	return seq
}

// Oldest is the oldest seq that is left of what a set of filters wants, as far as floors
// say so; 0 if a part of it has none.
func (f *Floors) Oldest(filters []string) uint64 {
	if f == nil || len(filters) == 0 {
		return 0
	}
	oldest := f.Of(filters[0])
	for _, other := range filters[1:] {
		oldest = min(oldest, f.Of(other))
	}
	return oldest
}

// Check reports a floor that no cluster can have; the error wraps ErrBad.
func (f Floor) Check() error {
	if f.Seq == 0 {
		return fmt.Errorf("%w: a floor of 0 for %q is none", ErrBad, f.Filter)
	}
	return CheckFilter(f.Filter)
}

// Check reports floors that no cluster can have; the error wraps ErrBad.
func Check(list []Floor) error {
	if len(list) > MaxFloors {
		return fmt.Errorf("%w: %d floors: at most %d are possible", ErrBad, len(list), MaxFloors)
	}
	for i, one := range list {
		if err := one.Check(); err != nil {
			return err
		}
		if i > 0 && list[i-1].Filter >= one.Filter {
			return fmt.Errorf("%w: a floor for %q stands twice or out of order", ErrBad, one.Filter)
		}
	}
	return nil
}
