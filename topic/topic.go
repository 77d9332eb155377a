// Package topic owns names: their rules, partitions, filters and matching, and
// the interning of names as small numbers.
package topic

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxLevels bounds the levels of a name, MaxBytes its length.
	MaxLevels = 32
	MaxBytes  = 1024
)

var (
	// ErrTopic marks a name that breaks the rules of names.
	ErrTopic = errors.New("invalid topic")
	// ErrFilter marks a filter, or a set of them, that breaks the rules.
	ErrFilter = errors.New("invalid filter")
)

// Validate reports what a name breaks: 1 to 32 levels parted by slashes, none
// empty, 1 to 1,024 bytes of valid UTF-8, no control character, no '*'. The error
// wraps ErrTopic.
func Validate(name string) error {
	if plain(name) {
		return nil
	}
	if why := fault(name); why != "" {
		return invalid(ErrTopic, name, why)
	}
	if strings.Contains(name, star) {
		return invalid(ErrTopic, name, "it has a '*'; only filters may")
	}
	return nil
}

// plain reports whether a name is valid that has nothing but printable ASCII, in one pass:
// hardly any name has more.
func plain(name string) bool {
	levels, before := 1, byte('/')
	for i := range len(name) {
		c := name[i]
		if c < ' ' || c > '~' || c == star[0] || c == '/' && before == '/' {
			return false
		}
		if c == '/' {
			levels++
		}
		before = c
	}
	return before != '/' && levels <= MaxLevels && len(name) <= MaxBytes
}

// Partition is the first two levels of a valid name, or all of a shorter one.
func Partition(name string) string {
	first := strings.IndexByte(name, '/')
	if first < 0 {
		return name
	}
	if second := strings.IndexByte(name[first+1:], '/'); second >= 0 {
		return name[:first+1+second]
	}
	return name
}

// Head is the first levels of a valid name, at least one, or all of it if it has no more.
func Head(name string, levels int) string {
	for i := range len(name) {
		if name[i] == '/' {
			if levels--; levels == 0 {
				return name[:i]
			}
		}
	}
	return name
}

// Compare orders names such that a topic is followed by its subtree: the
// slash sorts before every other byte. So the topics of a partition, and those of
// any subtree, stand together, which they do not in the order of bytes
// ("a", "a-b", "a/b").
func Compare(a, b string) int {
	i, n := 0, min(len(a), len(b))
	// Neighbours share long prefixes: eight bytes at a time.
	for i+8 <= n && eight(a[i:i+8]) == eight(b[i:i+8]) {
		i += 8
	}
	for i < n && a[i] == b[i] {
		i++
	}
	switch {
	case i == n:
		return cmp.Compare(len(a), len(b))
	case a[i] == '/':
		return -1
	case b[i] == '/':
		return 1
	}
	return cmp.Compare(a[i], b[i])
}

// eight is eight bytes as one number, which the compiler makes one load.
func eight(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// fault says which rule that names and filters share is broken, and what is
// allowed; "" for none.
func fault(s string) string {
	switch {
	case s == "":
		return "it is empty; 1 to 1,024 bytes are allowed"
	case len(s) > MaxBytes:
		return fmt.Sprintf("it has %d bytes; 1 to 1,024 are allowed", len(s))
	case !utf8.ValidString(s):
		return "it is not valid UTF-8"
	}
	if why := slashes(s); why != "" {
		return why
	}
	if n := strings.Count(s, "/") + 1; n > MaxLevels {
		return fmt.Sprintf("it has %d levels; 1 to %d are allowed", n, MaxLevels)
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return fmt.Sprintf("it has the control character %U; none is allowed", r)
		}
	}
	return ""
}

// slashes is the part of fault about them.
func slashes(s string) string {
	switch {
	case strings.HasPrefix(s, "/"):
		return "it begins with a slash; slashes stand only between levels"
	case strings.HasSuffix(s, "/"):
		return "it ends with a slash; slashes stand only between levels"
	case strings.Contains(s, "//"):
		return "it has an empty level; a level has at least one character"
	}
	return ""
}

// invalid words an error. A bad name may be of any length and hold any bytes, so
// it is quoted and cut.
func invalid(kind error, s, why string) error {
	const shown = 80
	if len(s) > shown {
		return fmt.Errorf("%w %q.. (%d bytes): %s", kind, s[:shown], len(s), why)
	}
	return fmt.Errorf("%w %q: %s", kind, s, why)
}
