package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/lifecycle"
)

func newMachine(a *app) *cobra.Command {
	c := group(&cobra.Command{
		Use: "machine", Short: "Show the state machines",
		Long:    "Show the state machines: the states, events and moves that are legal.",
		Example: "  pawl machine list\n  pawl machine show step",
	})
	c.AddCommand(newMachineList(a), newMachineShow(a))
	return c
}

func newMachineList(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the state machines", Long: "List the state machines, each with the number of its states and moves.",
		Example: "  pawl machine list",
		Args:    want(0, 0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			rows := [][]string{{"NAME", "STATES", "MOVES", "WHAT IT IS"}}
			for _, m := range lifecycle.All() {
				rows = append(rows, []string{m.Name, fmt.Sprint(len(m.States)), fmt.Sprint(len(m.Transitions())), m.Doc})
			}
			return console.Table(a.stdout, rows)
		},
	}
}

func newMachineShow(a *app) *cobra.Command {
	form := "matrix"
	names := machineNames()
	c := &cobra.Command{
		Use: "show NAME", Short: "Show one state machine",
		Long:    "Show one state machine as a matrix, a Mermaid or Graphviz diagram, a Markdown table or\nJSON. The matrix shows where each event leads from each state; \"-\" is a refusal.\nNAME is " + console.Alternatives(names) + ".",
		Example: "  pawl machine show step\n  pawl machine show job -o mermaid",
		Args:    want(1, 1, "a NAME"), ValidArgs: names,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := oneOf("output", form, "matrix", "mermaid", "dot", "markdown", formJSON); err != nil {
				return err
			}
			m := lifecycle.ByName(args[0])
			if m == nil {
				return noMachine(args[0], names)
			}
			return a.show(form, m, func() error {
				text := map[string]func() string{"matrix": m.Matrix, "mermaid": m.Mermaid, "dot": m.DOT, "markdown": m.Markdown}
				_, err := fmt.Fprint(a.stdout, text[form]())
				return err
			})
		},
	}
	c.Flags().StringVarP(&form, "output", "o", "matrix", "matrix, mermaid, dot, markdown or json")
	return c
}

func machineNames() []string {
	var names []string
	for _, m := range lifecycle.All() {
		names = append(names, m.Name)
	}
	return names
}

func noMachine(name string, names []string) error {
	hint := "list them with: pawl machine list"
	if near := nearest(name, names); near != "" {
		hint = "did you mean: pawl machine show " + near
	}
	return &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("there is no machine %q: want %s", name, console.Alternatives(names)), Hint: hint}
}
