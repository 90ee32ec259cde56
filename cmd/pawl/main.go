// Command pawl runs workflows as durable jobs, shows their results, and checks their audit
// trail. Only this package reads flags and the environment; package console writes the output.
package main

import (
	"os"

	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/internal/heap"
)

func main() {
	durable.SelftestChild()
	heap.Govern()
	os.Exit(processOf(os.Args[1:]).main())
}
