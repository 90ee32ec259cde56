package main

import (
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/load/workload"
)

// newLoadEngine is the process that an agent starts for the work of a run. It is for no one else.
func newLoadEngine(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "load-engine", Short: "Do the work of a load agent, which starts this", Hidden: true,
		Long:    "Prepare files, run operations and clean up, for the \"pawl agent\" that has started this process.\nIt reads a job and commands from stdin and writes frames to stdout.",
		Example: "  pawl load-engine",
		Args:    want(0, 0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			if code := workload.Main(c.Context(), a.storeAccess, a.stdin, a.stdout, a.stderr); code != 0 {
				return exit{code}
			}
			return nil
		},
	}
}
