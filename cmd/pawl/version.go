package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the program's version",
		Long:    "Show the version of the program, the Go version that built it, and the platform.",
		Example: "  pawl version",
		Args:    want(0, 0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.stdout, about())
			return err
		},
	}
}

// about returns what "pawl version" and "pawl --version" say.
func about() string {
	return fmt.Sprintf("pawl %s (%s, %s/%s)", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// release is the version of a release, which the linker sets:
// -ldflags "-X main.release=v1.2.3".
var release string

// version returns what the build says of itself.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}
