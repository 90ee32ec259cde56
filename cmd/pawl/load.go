package main

import (
	"github.com/spf13/cobra"
)

const loadLong = `Load file systems from one or many machines at once, and measure what they do. A file says what is
prepared, which operations run at which rate, and what counts as failure; docs/load.md has every
key. Agents ("pawl agent") do the work. A controller ("pawl load run") prepares all of them,
measures their clocks, starts them at one time, and adds up their histograms.`

func newLoad(a *app) *cobra.Command {
	c := group(&cobra.Command{
		Use: "load", Short: "Load file systems from many machines at once, and measure them", Long: loadLong,
		Example: "  pawl load validate examples/load/random-read.yaml\n  pawl load run examples/load/random-read.yaml",
	})
	c.AddCommand(a.newLoadValidate(), a.newLoadPlan(), a.newLoadRun(), a.newLoadReport(), a.newLoadCompare(), a.newLoadList(), a.newLoadSchema(), a.newLoadImport())
	return c
}
