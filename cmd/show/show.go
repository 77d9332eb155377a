// Package show turns what the program knows into what a person, or a script, reads:
// figures, messages, trees, progress.
package show

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"
)

var units = []struct {
	name  string
	bytes float64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// Bytes prints a size in the largest unit that keeps it at 1 or more.
func Bytes(n uint64) string {
	for _, u := range units {
		if f := float64(n) / u.bytes; f >= 1 {
			return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0") + " " + u.name
		}
	}
	return strconv.FormatUint(n, 10) + " B"
}

// Count prints a number with its thousands parted.
func Count(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plural is a number with what it counts, which takes an s but for one.
func Plural(n uint64, what string) string {
	if n != 1 {
		what += "s"
	}
	return Count(n) + " " + what
}

// IsTerminal reports whether a person watches w.
func IsTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
