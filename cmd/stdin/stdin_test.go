package stdin

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// TestLines: every kind of line end is left out, nothing else is.
func TestLines(t *testing.T) {
	for in, want := range map[string][]string{
		"":                 nil,
		"a":                {"a"},
		"a\n":              {"a"},
		"a\r\nb\r\n":       {"a", "b"},
		"a\nb":             {"a", "b"},
		"\n\r\n":           {"", ""},
		"a\rb\r\r\n\tc \n": {"a\rb\r", "\tc "},
		"a\x00\xff\n":      {"a\x00\xff"},
	} {
		var got []string
		for line, err := range Lines(t.Context(), strings.NewReader(in)) {
			if err != nil {
				t.Errorf("%q: %v", in, err)
			}
			got = append(got, line)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// TestBadEnds: a line that is too long, and an input that nothing comes from.
func TestBadEnds(t *testing.T) {
	last := func(ctx context.Context, in io.Reader) (last error) {
		for _, err := range Lines(ctx, in) {
			last = err
		}
		return last
	}
	err := last(t.Context(), strings.NewReader("a\n"+strings.Repeat("x", MaxLineBytes)))
	if want := "line 2 of stdin: at most 16 MiB (16779264 bytes) are allowed"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	terminal, w := io.Pipe()
	defer w.Close()
	if err := last(ctx, terminal); !errors.Is(err, context.Canceled) {
		t.Errorf("a terminal that nobody types into: %v", err)
	}
}
