// Command pawl runs workflows as durable jobs, shows what became of them, and
// checks their audit trail. Flags and environment are read here and nowhere else;
// what is shown is written by package console.
package main

import (
	"os"

	"github.com/pawl-dev/pawl/internal/heap"
)

func main() {
	heap.Govern()
	os.Exit(processOf(os.Args[1:]).main())
}
