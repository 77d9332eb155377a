package settings

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Teach gives all commands below root what they have in common: an error that names the
// arguments that are wanted, and completion of flags that take one of a few words; where
// there are no arguments, no files are offered. A command that others stand below says which,
// and takes none of their names for an argument of its own because of a slip of the finger.
func Teach(root *cobra.Command) {
	if root.HasSubCommands() && root.HasParent() {
		teachGroup(root)
	}
	if check := root.Args; check != nil && !root.HasSubCommands() {
		root.Args = func(cmd *cobra.Command, args []string) error { return argsError(cmd, args, check(cmd, args)) }
		if root.Use == root.Name() {
			root.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
	root.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if c, ok := f.Value.(*Choice); ok {
			CompleteFlag(root, f.Name, c.Allowed...)
		}
	})
	for _, sub := range root.Commands() {
		Teach(sub)
	}
}

// teachGroup makes a command with others below it refuse what is none of them.
func teachGroup(group *cobra.Command) {
	if check := group.Args; group.Runnable() {
		group.Args = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if near := nearest(args[0], subcommands(cmd)); near != "" {
					return Usagef("did you mean %s %s? If not, write ./%s", cmd.CommandPath(), near, args[0])
				}
			}
			return check(cmd, args)
		}
		return
	}
	group.Use, group.DisableFlagsInUseLine = group.Name()+" COMMAND", true
	group.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return Usagef("%s needs one of %s", cmd.CommandPath(), words(subcommands(cmd)))
		}
		return unknownCommand(cmd, args[0])
	}
	group.RunE = func(*cobra.Command, []string) error { return nil } // Args lets nobody come here
}

// words lists words as a sentence does.
func words(list []string) string {
	if n := len(list); n > 1 {
		return strings.Join(list[:n-1], ", ") + " and " + list[n-1]
	}
	return strings.Join(list, "")
}

// KnownTopic is for the command help: what it is asked about is a command.
func KnownTopic(help *cobra.Command, args []string) error {
	at, rest, _ := help.Root().Find(args) // what is not found is in rest
	if len(rest) == 0 {
		return nil
	}
	return unknownCommand(at, rest[0])
}

// unknownCommand names the command that may have been meant, or all that there are.
func unknownCommand(group *cobra.Command, word string) error {
	names := subcommands(group)
	if near := nearest(word, names); near != "" {
		return Usagef("unknown command %q for %q; did you mean %s?", word, group.CommandPath(), near)
	}
	if len(names) == 0 {
		return Usagef("unknown command %q for %q, which has none", word, group.CommandPath())
	}
	return Usagef("unknown command %q for %q: there are %s", word, group.CommandPath(), words(names))
}

func subcommands(group *cobra.Command) (names []string) {
	for _, sub := range group.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// CompleteFlag offers words as values of a flag.
func CompleteFlag(cmd *cobra.Command, flag string, words ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag
	}
}

// argsError says which arguments a command wants where cobra has only counted them.
func argsError(cmd *cobra.Command, args []string, err error) error {
	var usage *UsageError
	if err == nil || errors.As(err, &usage) {
		return err
	}
	_, want, some := strings.Cut(cmd.Use, " ")
	if !some {
		want = "no argument"
	}
	got := make([]string, len(args))
	for i, a := range args {
		got[i] = strconv.Quote(a)
	}
	if len(got) == 0 {
		got = []string{"nothing"}
	}
	return Usagef("%s wants %s, and got %s", cmd.CommandPath(), want, strings.Join(got, " "))
}

// valueError is why a value was refused, without pflag's words around it: they may speak
// of a flag that the user did not write. Where Go's own parsers refused it, it is what
// they take.
func valueError(err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) && invalid.Unwrap() != nil {
		err = invalid.Unwrap()
	}
	var number *strconv.NumError
	switch {
	case errors.As(err, &number) && number.Func == "ParseBool":
		return errors.New("want true or false")
	case errors.As(err, &number) && number.Func == "ParseUint":
		return errors.New("want a whole number from 0 on")
	case errors.As(err, &number):
		return errors.New("want a number")
	}
	return err
}

// badValue is valueError with the flag and the value in front, as they were written.
func badValue(err *pflag.InvalidValueError) error {
	f := err.GetFlag()
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = fmt.Sprintf("-%s, %s", f.Shorthand, name)
	}
	return Usagef("invalid argument %q for %q flag: %w", err.GetValue(), name, valueError(err))
}
