package settings

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// nearest is the name that may have been meant by a word: the one that it begins, or
// that takes at most two changed letters, of which fewer than the word has; or "".
func nearest(word string, names []string) string {
	best, distance := "", min(3, len(word)-1)
	for _, name := range names {
		if d := editDistance(word, name); d < distance {
			best, distance = name, d
		}
	}
	for _, name := range names {
		if best == "" && len(word) >= 3 && strings.HasPrefix(name, word) {
			best = name
		}
	}
	return best
}

// editDistance counts the letters to insert, delete or change between a and b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// FlagError is cobra's error for a flag with what its values are or, for an unknown one,
// the flag that may have been meant, or the commands that have it.
func FlagError(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return badValue(invalid)
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return &UsageError{err}
	}
	word := unknown.GetSpecifiedName()
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if flag := flagThatTakes(cmd, word); flag != "" {
		return Usagef("%w; did you mean --%s %s?", err, flag, word)
	}
	if others := commandsWith(cmd.Root(), word); len(others) > 0 && nearest(word, names) == "" {
		const told = 4
		if n := len(others) - told; n > 1 {
			others = append(others[:told], fmt.Sprintf("%d others", n))
		}
		return Usagef("%w; %s has none, but %s", err, cmd.CommandPath(), words(others))
	}
	if near := nearest(word, names); near != "" {
		return Usagef("%w; did you mean --%s?", err, near)
	}
	return &UsageError{err}
}

// flagThatTakes is the flag of which a word is one of the values, or "".
func flagThatTakes(cmd *cobra.Command, word string) (name string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if c, ok := f.Value.(*Choice); ok && slices.Contains(c.Allowed, word) {
			name = f.Name
		}
	})
	return name
}

// commandsWith lists the commands that have a flag, by name.
func commandsWith(root *cobra.Command, flag string) (out []string) {
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if c.LocalFlags().Lookup(flag) != nil && c.IsAvailableCommand() {
			out = append(out, c.CommandPath())
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
	slices.Sort(out)
	return out
}
