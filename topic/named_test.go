package topic

import (
	"slices"
	"testing"
)

func TestNamed(t *testing.T) {
	table := NewTable()
	table.Intern([]byte("a/b/c"))
	table.Intern([]byte("a/b/d"))
	for _, c := range []struct {
		filters []string
		want    []uint32
		ok      bool
	}{
		{[]string{"a/b/d"}, []uint32{1}, true},
		{[]string{"a/b/d", "a/b/c", "later"}, []uint32{0, 1}, true},
		{[]string{"a/b/d", "a/b/c", "x", "y"}, nil, false},
		{[]string{"a/b/**"}, nil, false},
		{[]string{"a/*/c", "x"}, nil, false},
		{[]string{"**"}, nil, false},
	} {
		f, err := ParseFilters(c.filters...)
		if err != nil {
			t.Fatal(err)
		}
		s := NewSelection(table, f)
		if ids, ok := s.Named(3); ok != c.ok || !slices.Equal(ids, c.want) {
			t.Errorf("%v: %v %v, want %v %v", c.filters, ids, ok, c.want, c.ok)
		}
	}
	f, _ := ParseFilters("a/b/d", "later")
	s := NewSelection(table, f)
	s.Named(3)
	table.Intern([]byte("later"))
	if ids, ok := s.Named(3); !ok || !slices.Equal(ids, []uint32{1, 2}) {
		t.Errorf("a topic that came later is not found: %v %v", ids, ok)
	}
}
