package bench

import (
	"fmt"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl/workflow"
)

// A Shape is the graph of a job. Its steps do nothing.
type Shape struct {
	Name  string
	Steps int // instances of a fan-out included
	Width int // of a fan-out: how many instances it has; 0: it is none

	definition func() (*workflow.Definition, error) // parsed once, as a program does that submits it often
}

func shape(name string, steps int, source string) Shape {
	return Shape{Name: name, Steps: steps, definition: sync.OnceValues(func() (*workflow.Definition, error) {
		return workflow.Parse(name, []byte(source))
	})}
}

// The shapes of the workloads.
var (
	Noop    = chainOf(1)
	Chain3  = chainOf(3)
	Chain10 = chainOf(10)
	Diamond = shape("diamond", 4, `name: diamond
steps:
  - {id: top, handler: noop}
  - {id: left, handler: noop, needs: [top]}
  - {id: right, handler: noop, needs: [top]}
  - {id: bottom, handler: noop, needs: [left, right]}
`)
	FanOut     = fanOutTo(1000)
	WideFanOut = fanOutTo(10_000)
)

// programs is a job whose step starts a program that does nothing: what a worker in a
// process of its own can do, which has no functions of ours.
var programs = shape("program", 1, "name: program\nsteps:\n  - {id: step1, command: [\"true\"]}\n")

// unserved is a job that no worker of Pawl takes.
var unserved = shape("unserved", 1, "name: unserved\nsteps:\n  - {id: step1, handler: unserved}\n")

// fanOutTo returns a graph in which one step is followed by many instances of the next, and all
// of them by a third.
func fanOutTo(width int) Shape {
	name := fmt.Sprintf("fan_out_%d", width)
	s := shape(name, width+2, fmt.Sprintf(`name: %s
steps:
  - {id: list, handler: %s}
  - {id: each, handler: noop, needs: [list], foreach: "${{ steps.list.output }}"}
  - {id: gather, handler: noop, needs: [each]}
`, name, lister(width)))
	s.Width = width
	return s
}

// lister returns the name of the handler that returns a list for a fan-out of a width.
func lister(width int) string { return fmt.Sprintf("list_%d", width) }

// chainOf returns a graph of n steps, each needing the one before.
func chainOf(n int) Shape {
	var b strings.Builder
	fmt.Fprintf(&b, "name: chain_of_%d\nsteps:\n", n)
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "  - id: step%d\n    handler: noop\n", i)
		if i > 1 {
			fmt.Fprintf(&b, "    needs: [step%d]\n", i-1)
		}
	}
	return shape(fmt.Sprintf("chain_of_%d", n), n, b.String())
}
