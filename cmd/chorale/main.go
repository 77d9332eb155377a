// Command chorale is the whole product in one binary: it runs nodes, publishes,
// subscribes and looks into a cluster and its files.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"chorale/cmd/settings"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the program without its process: what main and the tests call. The
// first interrupt asks the command to finish; the second kills, because the
// handler is gone by then.
func run(args []string, in io.Reader, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	root := newRootCmd()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	cmd, err := root.ExecuteContextC(ctx)
	return report(errs, cmd, err)
}

// report prints an error, with the next step behind it, and picks the exit code.
func report(errs io.Writer, cmd *cobra.Command, err error) int {
	var usage *settings.UsageError
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE):
		return exitOK
	case errors.As(err, &usage), !started(cmd):
		fmt.Fprintf(errs, "chorale: %v\nRun '%s --help' for usage.\n", err, cmd.CommandPath())
		return exitUsage
	case errors.Is(err, context.Canceled) && cmd.Context().Err() != nil:
		fmt.Fprintln(errs, "chorale: interrupted")
		return exitFailure
	default:
		fmt.Fprintf(errs, "chorale: %v\n", err)
		return exitFailure
	}
}
