package retention

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"chorale/topic"

	"pgregory.net/rapid"
)

var someFilters = rapid.SampledFrom([]string{"a", "a/**", "a/b", "a/b/**", "a/b/c", "a/b/c/**", "a-b", "a-b/**", "x/y/**", "x/**"})

var someFloors = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Floor {
	return Floor{someFilters.Draw(t, "filter"), rapid.Uint64Range(1, 20).Draw(t, "seq")}
}), 0, 8)

// TestFloorsAgainstModel: the floor of a topic is the highest one whose filter matches it, in
// whatever order they came; that of a filter holds for each topic that it matches.
func TestFloorsAgainstModel(t *testing.T) {
	names := []string{"a", "a/b", "a/b/c", "a/b/c/d", "a/c", "a-b", "a-b/c", "x", "x/y", "x/y/z", "b"}
	rapid.Check(t, func(t *rapid.T) {
		first, then := someFloors.Draw(t, "first"), someFloors.Draw(t, "then")
		f := NewFloors(first).With(then...)
		all := append(slices.Clone(first), then...)
		model := func(name string) (seq uint64) {
			for _, one := range all {
				if filters, err := topic.ParseFilters(one.Filter); err != nil {
					t.Fatal(err)
				} else if filters.Match(name) {
					seq = max(seq, one.Seq)
				}
			}
			return seq
		}
		var highest uint64
		for _, name := range names {
			if got, want := f.Of(name), model(name); got != want {
				t.Fatalf("%v: the floor of %s is %d, want %d", all, name, got, want)
			}
		}
		for _, one := range all {
			highest = max(highest, one.Seq)
		}
		if f.Highest() != highest {
			t.Fatalf("%v: the highest is %d, want %d", all, f.Highest(), highest)
		}
		if err := Check(f.List()); err != nil {
			t.Fatal(err)
		}
		if again := NewFloors(f.List()); fmt.Sprint(again.List()) != fmt.Sprint(f.List()) {
			t.Fatalf("%v becomes %v", f.List(), again.List())
		}
		for i, one := range f.List() { // each says something that the others do not
			others := NewFloors(slices.Delete(slices.Clone(f.List()), i, i+1))
			if others.Of(one.Filter) >= one.Seq {
				t.Fatalf("%v: %v says nothing", f.List(), one)
			}
		}
		for _, name := range append(names, "") {
			reach := f.Highest()
			if name != "" {
				reach = model(name)
				for _, one := range all {
					if strings.HasPrefix(one.Filter, name+"/") {
						reach = max(reach, one.Seq)
					}
				}
			}
			if f.Reach(name) != reach {
				t.Fatalf("%v reach %d at and below %q, want %d", all, f.Reach(name), name, reach)
			}
		}
		want := rapid.SliceOfN(rapid.SampledFrom([]string{"**", "a/**", "a/b", "a/*", "a/*/c", "*/y", "x/**", "x/y/**", "a/b/c/**", "a-b/c"}), 1, 3).Draw(t, "filters")
		oldest := f.Oldest(want)
		filters, err := topic.ParseFilters(want...)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if filters.Match(name) && model(name) < oldest {
				t.Fatalf("%v: of %q all before %d has gone, of %s before %d", all, want, oldest, name, model(name))
			}
		}
	})
}

// TestOldest: what is left of a subscription is what is left of the part that has most.
func TestOldest(t *testing.T) {
	f := NewFloors([]Floor{{"a/**", 10}, {"a/b/**", 20}, {"x", 5}})
	for _, c := range []struct {
		filters string
		want    uint64
	}{
		{"a/**", 10}, {"a/b/**", 20}, {"a/b", 20}, {"a/b/c/d", 20}, {"a/c", 10}, {"a/*/c", 10}, {"a/b/*", 20}, {"a", 10},
		{"a/**,x", 5}, {"a/b,a/c", 10}, {"x/**", 0}, {"x/y", 0}, {"**", 0}, {"*/b", 0}, {"*", 0}, {"a/b,q", 0},
	} {
		if got := f.Oldest(strings.Split(c.filters, ",")); got != c.want {
			t.Errorf("%s: %d, want %d", c.filters, got, c.want)
		}
	}
	var none *Floors
	if none.Of("a") != 0 || none.Oldest([]string{"a"}) != 0 || none.Highest() != 0 || none.List() != nil || none.With().List() != nil {
		t.Error("no floors have a floor")
	}
}

// TestCut: a floor rises at most so many times within an age, and lets nothing go that is not
// older.
func TestCut(t *testing.T) {
	for _, age := range []int64{1, 31, 32, 33, 1000, 1 << 50} {
		r, cuts := Rule{Filter: "a", Age: age}, map[int64]bool{}
		for i := range int64(1000) {
			now := 1<<60 + age/1000*i
			cut := r.Cut(now)
			if cut > now-age || now-age-cut > age/steps {
				t.Fatalf("age %d: at %d messages before %d go", age, now, cut)
			}
			cuts[cut] = true
		}
		if len(cuts) > steps+2 && age > 1000 {
			t.Errorf("age %d: %d floors", age, len(cuts))
		}
	}
	if cut := (Rule{Age: 100}).Cut(50); cut > -50 || cut < -53 {
		t.Errorf("before the first ns: %d", cut)
	}
}

// TestRefusals: what is wrong is named, with what is allowed.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		rules Rules
		want  string
	}{
		{Rules{List: []Rule{{"**", 1, 0}}}, "whole stream"},
		{Rules{List: []Rule{{"a/*/c", 1, 0}}}, "'*'"},
		{Rules{List: []Rule{{"a/**/b", 1, 0}}}, "'*'"},
		{Rules{List: []Rule{{"", 1, 0}}}, "empty"},
		{Rules{List: []Rule{{"/**", 1, 0}}}, "empty"},
		{Rules{List: []Rule{{"a//b", 1, 0}}}, "empty level"},
		{Rules{List: []Rule{{"a", 0, 0}}}, "one limit at least"},
		{Rules{List: []Rule{{"a", -1, 5}}}, "above 0"},
		{Rules{List: []Rule{{"a", 5, math.MinInt64}}}, "above 0"},
		{Rules{List: []Rule{{"b", 1, 0}, {"a", 1, 0}}}, "out of order"},
		{Rules{List: []Rule{{"a", 1, 0}, {"a", 2, 0}}}, "twice"},
		{Rules{List: make([]Rule, MaxRules+1)}, "at most 1000"},
	} {
		if err := c.rules.Check(); !errors.Is(err, ErrBad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: want %q, have %v", c.rules.List[:1], c.want, err)
		}
	}
	good := Sorted(7, []Rule{{"b/**", 1, 0}, {"a", 0, 1}})
	if err := good.Check(); err != nil || good.Number != 8 || good.List[0].Filter != "a" {
		t.Error(good, err)
	}
	for _, list := range [][]Floor{{{"a", 0}}, {{"**", 1}}, {{"b", 1}, {"a", 1}}, make([]Floor, MaxFloors+1)} {
		if err := Check(list); !errors.Is(err, ErrBad) {
			t.Errorf("%v: %v", list[:1], err)
		}
	}
}
