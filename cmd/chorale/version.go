package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"chorale/node"

	"github.com/spf13/cobra"
)

// version is set by the linker: go build -ldflags '-X main.version=v1.2.3'.
var version string

// versionString is the linker's version, or else what the build recorded of the
// module or of the checkout.
func versionString() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	switch {
	case revision != "":
		return revision + dirty
	case info.Main.Version != "":
		return info.Main.Version
	default:
		return "unknown"
	}
}

func newVersionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version and what it was built with",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "chorale %s (%s %s/%s), log levels %s\n",
				versionString(), runtime.Version(), runtime.GOOS, runtime.GOARCH, node.Levels())
			return err
		},
	}
}
