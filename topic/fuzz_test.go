package topic

import (
	"errors"
	"slices"
	"testing"
)

// FuzzFilters: any two filters and a name. What is accepted means what the dumb
// twin says, and its canonical form means the same.
func FuzzFilters(f *testing.F) {
	f.Add("a/*/c", "a/b/**", "a/b/c")
	f.Add("**", "*", "x")
	f.Add("*/**", "a/*/**", "a/ü")
	f.Add("a//b", "**/a", "a*")
	f.Fuzz(func(t *testing.T, one, two, name string) {
		set, err := ParseFilters(one, two)
		if err != nil {
			if !errors.Is(err, ErrFilter) {
				t.Fatal(err)
			}
			return
		}
		again, err := ParseFilters(set.Canonical()...)
		if err != nil || !slices.Equal(again.Canonical(), set.Canonical()) {
			t.Fatalf("canonical %q became %q, %v", set.Canonical(), again.Canonical(), err)
		}
		if err := Validate(name); err != nil {
			if !errors.Is(err, ErrTopic) {
				t.Fatal(err)
			}
			return
		}
		if got, want := set.Match(name), naiveAny([]string{one, two}, name); got != want || again.Match(name) != want {
			t.Fatalf("%q, %q match %q: %v, as %q %v, want %v", one, two, name, got, set.Canonical(), again.Match(name), want)
		}
	})
}
