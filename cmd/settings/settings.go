// Package settings gives each flag its value, from the command line, from the
// environment or from one file, and has the kinds of values that flags can hold.
// Whatever it refuses is a *UsageError that names the key, where it stands, the
// value and what is allowed.
package settings

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// UsageError is a mistake in how the program was called.
type UsageError struct{ Err error }

// Error is the mistake's own text.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap is the mistake.
func (e *UsageError) Unwrap() error { return e.Err }

// Usagef makes a UsageError, as fmt.Errorf makes an error.
func Usagef(format string, args ...any) error {
	return &UsageError{fmt.Errorf(format, args...)}
}

// envPrefix is what the environment variable of a flag starts with.
const envPrefix = "CHORALE_"

// setting is a value from outside the command line and where it comes from.
type setting struct {
	value string
	place string // as an error names it: CHORALE_ADDR, or chorale.conf:3: addr
}

// Apply gives every flag that was not on the command line its value from
// the environment or else from the file.
func Apply(cmd *cobra.Command) error {
	file, err := configFile(cmd)
	if err != nil {
		return err
	}
	warnUnknown(cmd)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if err != nil || f.Changed || f.Name == "config" || f.Name == "help" {
			return
		}
		s, ok := setting{}, false
		if name := EnvName(f.Name); os.Getenv(name) != "" {
			s, ok = setting{os.Getenv(name), name}, true
		} else {
			s, ok = file[f.Name]
		}
		if !ok {
			return
		}
		if bad := cmd.Flags().Set(f.Name, s.value); bad != nil {
			err = Usagef("%s = %q: %w", s.place, s.value, valueError(bad))
		}
	})
	return err
}

// EnvName is the environment variable of a flag: CHORALE_TIP_SIZE of tip-size.
func EnvName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// warnUnknown tells of environment variables that look like settings and are none.
// It is no error: what runs a program may set variables of its own that begin so.
func warnUnknown(cmd *cobra.Command) {
	var known []string
	for _, name := range append(flagNames(cmd.Root()), "config") {
		known = append(known, EnvName(name))
	}
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		if value == "" || !strings.HasPrefix(name, envPrefix) || slices.Contains(known, name) {
			continue
		}
		if near := nearest(strings.TrimPrefix(name, envPrefix), trimmed(known)); near != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "chorale: %s is no setting and is left out of account; did you mean %s?\n", name, envPrefix+near)
		}
	}
}

// trimmed are names of variables without what they all begin with.
func trimmed(names []string) []string {
	var out []string
	for _, n := range names {
		out = append(out, strings.TrimPrefix(n, envPrefix))
	}
	return out
}

// configFile reads the file of --config or CHORALE_CONFIG, if there is one.
func configFile(cmd *cobra.Command) (map[string]setting, error) {
	path := cmd.Flag("config").Value.String()
	if path == "" {
		path = os.Getenv(EnvName("config"))
	}
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, &UsageError{err}
	}
	defer f.Close()
	return parseConfig(path, f, flagNames(cmd.Root()))
}

// flagNames lists the flags of all commands: one file can serve a node and the
// clients beside it, each of which takes the keys that it has.
func flagNames(root *cobra.Command) []string {
	names := map[string]bool{}
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { names[f.Name] = true })
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
	for _, own := range []string{"config", "help", "version"} {
		delete(names, own)
	}
	return slices.Sorted(maps.Keys(names))
}

// parseConfig reads lines "key = value". Empty lines and lines that start with #
// are skipped; a value may stand in double quotes.
func parseConfig(path string, r io.Reader, allowed []string) (map[string]setting, error) {
	out := map[string]setting{}
	in := bufio.NewScanner(r)
	for n := 1; in.Scan(); n++ {
		line := strings.TrimSpace(in.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		place := fmt.Sprintf("%s:%d", path, n)
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			return nil, Usagef("%s: %.80q: want a line \"key = value\"", place, line)
		}
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		if !slices.Contains(allowed, key) {
			hint := "allowed are " + strings.Join(allowed, ", ")
			if near := nearest(key, allowed); near != "" {
				hint = "did you mean " + near + "?"
			}
			return nil, Usagef("%s: unknown key %q with value %q; %s", place, key, value, hint)
		}
		if before, twice := out[key]; twice {
			return nil, Usagef("%s: key %q is set already, by %s", place, key, before.place)
		}
		out[key] = setting{value, place + ": " + key}
	}
	if err := in.Err(); err != nil {
		return nil, Usagef("%s: %w", path, err)
	}
	return out, nil
}
