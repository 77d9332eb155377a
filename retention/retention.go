// Package retention has the limits of subtrees as values: rules, which say what may go,
// and floors, which say what has gone. Pure; docs/decisions/subtree-retention.md has the
// reasons.
package retention

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"chorale/topic"
)

// ErrBad is what a rule, or a set of them, is refused for that breaks a limit.
var ErrBad = errors.New("bad rule")

const (
	// MaxRules bounds the rules of a set.
	MaxRules = 1000
	// MaxFloors bounds floors: those of rules that are in force and of those that were.
	MaxFloors = 4096
	// WholeStream is the filter of everything, which no rule has: the stream as a whole has
	// a retention of its own, that takes files from its start.
	WholeStream = "**"
	// steps is how many times the floor of an age rises within that age at most.
	steps = 32
)

// Rule lets the messages of a subtree, or of one topic, go that break one of its limits.
type Rule struct {
	Filter string // a/b/**, or a/b
	// Age is in ns of stream time: a message may go when it is older; 0 is no limit.
	Age int64
	// Bytes of padded records are kept at least: a range of files may go when those behind
	// it have as many under the filter; 0 is no limit.
	Bytes int64
}

// Check reports what a rule breaks, and what is allowed; the error wraps ErrBad.
func (r Rule) Check() error {
	if err := CheckFilter(r.Filter); err != nil {
		return err
	}
	if r.Age < 0 || r.Bytes < 0 || r.Age == 0 && r.Bytes == 0 {
		return fmt.Errorf("%w for %q: age of %d ns, %d bytes: one limit at least is above 0, and 0 is none", ErrBad, r.Filter, r.Age, r.Bytes)
	}
	return nil
}

// Cut is the time before which a message breaks the age of the rule, in steps, so that not
// every look finds another one. The rule has an age.
func (r Rule) Cut(now int64) int64 {
	cut, step := now-r.Age, max(r.Age/steps, 1)
	return cut - (cut%step+step)%step
}

// CheckFilter reports a filter that no rule can have; the error wraps ErrBad.
func CheckFilter(filter string) error {
	if filter == WholeStream {
		return fmt.Errorf("%w: ** is the whole stream, which has a limit of its own; a rule is for a subtree, as a/b/**, or for one topic", ErrBad)
	}
	name, _ := cutSubtree(filter)
	if err := topic.Validate(name); err != nil {
		return fmt.Errorf("%w: %q: a rule is for a subtree, as a/b/**, or for one topic: %w", ErrBad, filter, err)
	}
	return nil
}

// cutSubtree parts a filter into the name that it is about, and whether it wants what is
// below that too.
func cutSubtree(filter string) (name string, below bool) {
	return strings.CutSuffix(filter, "/"+WholeStream)
}

// Rules is a set of rules, which is replaced as a whole. Immutable.
type Rules struct {
	// Number tells the set from those before it: 0 is that of no rules, which a cluster
	// begins with.
	Number uint64
	// List is ascending by filter.
	List []Rule
}

// Check reports what a set breaks; the error wraps ErrBad.
func (r Rules) Check() error {
	if len(r.List) > MaxRules {
		return fmt.Errorf("%w set: %d rules: at most %d are allowed", ErrBad, len(r.List), MaxRules)
	}
	for i, one := range r.List {
		if err := one.Check(); err != nil {
			return err
		}
		if i > 0 && r.List[i-1].Filter >= one.Filter {
			return fmt.Errorf("%w set: %q stands twice or out of order", ErrBad, one.Filter)
		}
	}
	return nil
}

// Sorted is the set of these rules, as it follows on the set with the number known.
func Sorted(known uint64, list []Rule) Rules {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Rule) int { return strings.Compare(a.Filter, b.Filter) })
	return Rules{known + 1, list}
}
