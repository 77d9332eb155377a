package connect

import (
	"fmt"
	"slices"
	"testing"
)

func TestNextLevels(t *testing.T) {
	names := []string{"app", "app/orders", "app/orders/created", "app/orders/cancelled", "apple/x", "web/access"}
	for _, c := range []struct {
		parent, word string
		want         []string
	}{
		{"", "", []string{"app", "app/", "apple/", "web/", "**"}},
		{"", "app", []string{"app", "app/", "apple/"}},
		{"app/", "app/", []string{"app/orders", "app/orders/", "app/**"}},
		{"app/orders/", "app/orders/cr", []string{"app/orders/created"}},
		{"app/orders/", "app/orders/*", []string{"app/orders/**"}},
		{"", "nothing", nil},
	} {
		if got := nextLevels(slices.Values(names), c.parent, c.word); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.word, got, c.want)
		}
	}
	// Levels are counted, not the names below them.
	many := func(yield func(string) bool) {
		for i := range 5 * completionOffers {
			if !yield(fmt.Sprintf("a/%05d", i)) {
				return
			}
		}
		yield("b")
	}
	if got := nextLevels(many, "", ""); !slices.Equal(got, []string{"a/", "b", "**"}) {
		t.Errorf("behind many names of one level: got %q", got)
	}
	if got := nextLevels(many, "a/", "a/"); len(got) != completionOffers+1 {
		t.Errorf("of a crowded level %d names are offered", len(got))
	}
}
