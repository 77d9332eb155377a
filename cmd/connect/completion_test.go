package connect

import (
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
		if got := nextLevels(names, c.parent, c.word); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.word, got, c.want)
		}
	}
}
