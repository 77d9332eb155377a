package mend

import (
	"bytes"
	"strings"
	"testing"
)

// TestCombine: what copies make together, and after how many tries. A copy that is cut ends
// with "…", and what is damaged stands there as another letter.
func TestCombine(t *testing.T) {
	const whole = "the bytes of a region"
	for _, c := range []struct {
		what   string
		copies []string
		tries  int // 0: it is not found
	}{
		{"nobody has anything", nil, 0},
		{"one copy, damaged", []string{"the bytEs of a region"}, 0},
		{"three copies, at different places: what most say", []string{"the bytEs of a region", "The bytes of a region", "the bytes of a regioN"}, 1},
		{"two copies: one change of copy", []string{"The bytes of a region", "the bytes of a regioN"}, 7},
		{"the other way round", []string{"the bytes of a regioN", "The bytes of a region"}, 6},
		{"two copies that change twice", []string{"The bytes of a regioN", "the bytEs of a region"}, 11},
		{"neighbouring bytes", []string{"tHe bytes of a region", "thE bytes of a region"}, 7},
		{"the same place in two of three", []string{"The bytes of a region", "The bytes of a region", "the bytes of a regioN"}, 12},
		{"the same place in all", []string{"The bytes of a region", "The bytes of a region", "Xhe bytes of a region"}, 0},
		{"cut, and a bit of the other before that", []string{"the bytes…", "The bytes of a region"}, 1},
		{"cut, and a bit of the other behind that", []string{"the bytes…", "the bytes of a regioN"}, 0},
		{"all are cut", []string{"the bytes…", "the bytes of…"}, 0},
		{"two are cut, at different places", []string{"thE bytes…", "the bytes of…", "tHe bytes of a region"}, 1},
	} {
		var copies [][]byte
		for _, s := range c.copies {
			cut, _ := strings.CutSuffix(s, "…")
			copies = append(copies, []byte(cut))
		}
		tries := 0
		got := combine(copies, len(whole), func(b []byte) bool {
			tries++
			return string(b) == whole
		})
		if c.tries == 0 && got != nil || c.tries > 0 && (string(got) != whole || tries != c.tries) {
			t.Errorf("%s: %q after %d tries, want %d", c.what, got, tries, c.tries)
		}
	}
}

// TestGarbage: a sector of garbage that is right here and there counts as one place, and so
// does one of zeros, so that few combinations are tried.
func TestGarbage(t *testing.T) {
	whole := bytes.Repeat([]byte("some text\x00\x00\x00\x00, again and again; "), 4096)
	zeros, garbage := bytes.Clone(whole), bytes.Clone(whole)
	clear(zeros[512:][:4096])
	for i := range 4096 {
		garbage[65536+i] = byte(i * 7)
	}
	garbage[100] ^= 1
	tries := 0
	got := combine([][]byte{zeros, garbage}, len(whole), func(b []byte) bool {
		tries++
		return bytes.Equal(b, whole)
	})
	if !bytes.Equal(got, whole) || tries > 20 {
		t.Errorf("%d bytes after %d tries", len(got), tries)
	}
}

// TestBounded: where nothing helps, the search ends.
func TestBounded(t *testing.T) {
	a, b := make([]byte, 4096), make([]byte, 4096)
	for i := range b {
		b[i] = byte(i%255) + 1 // every byte differs, and with width 0 each by itself
	}
	tried := 0
	if got := combine([][]byte{a, b}, len(a), func([]byte) bool { tried++; return false }); got != nil || tried > len(widths)*tries+1 {
		t.Errorf("%d tries, and found %d bytes", tried, len(got))
	}
}
