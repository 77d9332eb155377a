package fixed

import (
	"strings"
	"testing"
)

func TestEdit(t *testing.T) {
	for _, c := range []struct{ old, text, want string }{
		{"b", "abc", "aXc"},
		{"", "abc", "abcX"},
		{"b", "abb", ""},
		{"b", "ac", ""},
	} {
		got, err := Edit{File: "f.go", Old: c.old, New: "X"}.apply(c.text)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%q in %q: %q, %v", c.old, c.text, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), "f.go") {
			t.Errorf("the error does not name the file: %v", err)
		}
	}
}
