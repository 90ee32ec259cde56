package machine_test

import (
	"fmt"

	"github.com/pawl-dev/pawl/machine"
)

func ExampleMachine_Next() {
	light := &machine.Machine{
		Name:     "light",
		Doc:      "a lamp with a switch",
		Create:   "install",
		Initial:  "off",
		States:   []machine.State{"off", "on"},
		Resident: true,
		Table: machine.Table{
			"off": {"press": "on"},
			"on":  {"press": "off", "dim": "on"},
		},
	}
	fmt.Println(light.Next("off", "press"))
	_, err := light.Next("off", "dim")
	fmt.Println(err)
	fmt.Print(light.Mermaid())
	// Output:
	// on <nil>
	// light: event dim is not allowed in state off (allowed: press)
	// stateDiagram-v2
	//     [*] --> off: install
	//     off --> on: press
	//     on --> on: dim
	//     on --> off: press
}
