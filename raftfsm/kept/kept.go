// Package kept is the replicated state of the limits of subtrees: which rules are in force
// and which floors have risen, what a command does to them, and all of it as bytes. Pure.
package kept

import (
	"errors"
	"fmt"
	"slices"

	"chorale/retention"
	"chorale/segments"
)

// What a command is refused for: data, alike on all nodes.
var (
	// ErrOtherRules is the result of a command that was made by knowledge of other rules than
	// those in force.
	ErrOtherRules = errors.New("the rules are others by now")
	// ErrEarly is the result of a floor above what has expired.
	ErrEarly = errors.New("not expired")
	// ErrRisen is the result of a floor that is not above the one there is.
	ErrRisen = errors.New("the floor is as high already")
)

// State is what is replicated. Immutable; the zero value is that of a cluster which never had
// a rule.
type State struct {
	Rules  retention.Rules
	Floors *retention.Floors
}

// IsZero reports whether there never was a rule.
func (s State) IsZero() bool { return s.Rules.Number == 0 }

// Change replaces the rules.
type Change struct {
	Known uint64 // number of the set that it replaces
	Rules []retention.Rule
}

// Rise lets floors rise.
type Rise struct {
	Rules  uint64 // number of the set by which the floors were found
	Time   int64  // the leader's clock, ns since 1970 UTC
	Floors []RuleFloor
}

// RuleFloor is the floor of one rule.
type RuleFloor struct {
	Rule uint32 // its place in the set
	Seq  uint64 // the first that stays
}

// Replace is the state with other rules. The error says why they are refused: it wraps
// ErrOtherRules or retention.ErrBad.
func (s State) Replace(c Change) (State, error) {
	if c.Known != s.Rules.Number {
		return s, fmt.Errorf("%w: they have the number %d, the change was made to number %d", ErrOtherRules, s.Rules.Number, c.Known)
	}
	rules := retention.Sorted(c.Known, c.Rules)
	if err := rules.Check(); err != nil {
		return s, err
	}
	filters := make([]string, 0, len(rules.List)+len(s.Floors.List()))
	for _, r := range rules.List {
		filters = append(filters, r.Filter)
	}
	for _, f := range s.Floors.List() {
		filters = append(filters, f.Filter)
	}
	slices.Sort(filters)
	if n := len(slices.Compact(filters)); n > retention.MaxFloors {
		return s, fmt.Errorf("%w set: with the floors of earlier rules, which stay, there are %d filters: at most %d are allowed", retention.ErrBad, n, retention.MaxFloors)
	}
	return State{rules, s.Floors}, nil
}

// Raise is the state with the floors of a rise, all or none. now is the stream's time, end its
// newest seq. What the manifest says decides, as far as it goes; beyond it, the leader is
// believed.
func (s State) Raise(x Rise, m segments.Manifest, now int64, end uint64) (State, error) {
	if x.Rules != s.Rules.Number {
		return s, fmt.Errorf("%w: they have the number %d, the floors were found by number %d", ErrOtherRules, s.Rules.Number, x.Rules)
	}
	risen := make([]retention.Floor, 0, len(x.Floors))
	for i, f := range x.Floors {
		if int(f.Rule) >= len(s.Rules.List) || i > 0 && x.Floors[i-1].Rule >= f.Rule {
			return s, fmt.Errorf("%w: rule %d of %d, out of order or none", ErrEarly, f.Rule, len(s.Rules.List))
		}
		rule := s.Rules.List[f.Rule]
		if s.Floors.Of(rule.Filter) >= f.Seq {
			return s, fmt.Errorf("%w: %d for %s, asked for was %d", ErrRisen, s.Floors.Of(rule.Filter), rule.Filter, f.Seq)
		}
		if !byAge(rule, f.Seq, m, now, end) && !byBytes(rule, f.Seq, m) {
			return s, fmt.Errorf("%w: messages of %s before %d", ErrEarly, rule.Filter, f.Seq)
		}
		risen = append(risen, retention.Floor{Filter: rule.Filter, Seq: f.Seq})
	}
	return State{s.Rules, s.Floors.With(risen...)}, nil
}

// byAge reports whether all before seq may be too old, by the times of the ranges.
func byAge(r retention.Rule, seq uint64, m segments.Manifest, now int64, end uint64) bool {
	if r.Age == 0 || seq > end+1 {
		return false
	}
	for _, f := range m.Files {
		if f.LastTime >= now-r.Age { // its last message stays, and its first if that is as young
			return seq <= f.Last && (f.FirstTime < now-r.Age || seq <= f.First)
		}
	}
	return true
}

// byBytes reports whether seq is the start of a range, and not beyond the newest. How many
// bytes there are behind it is in the files.
func byBytes(r retention.Rule, seq uint64, m segments.Manifest) bool {
	return r.Bytes > 0 && slices.ContainsFunc(m.Files, func(f segments.FileMeta) bool { return f.First == seq })
}
