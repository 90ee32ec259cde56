package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/verify"
	"github.com/pawl-dev/pawl/workflow"
)

const simulateLong = `Run a workflow on a clock of its own, with made-up outcomes, and show what
happens: no step is run. The engine's own decisions are made, and expressions are
evaluated; durations, failures, outputs, approvals and signals come from --seed. The
same seed gives the same output, to the byte.

--faults adds what goes wrong beside the steps themselves: kill (workers die in
the middle of a step), slow (they are late, and steps run into their timeouts),
duplicate (messages arrive twice, and are refused).

Inputs that are required and not given are made up. --runs N runs as many seeds
from --seed on, and shows how their jobs ended. Exit codes: 0 the simulated job
ended, however; 1 it could not, or broke an invariant; 2 the file is not valid.`

type simulateFlags struct {
	inputs inputFlags
	form   string
	seed   int
	runs   int
	faults string // with commas between
}

func newSimulate(a *app) *cobra.Command {
	f := simulateFlags{form: formText}
	c := &cobra.Command{
		Use: "simulate FILE", Short: "Run a workflow file on a simulated clock", Long: simulateLong,
		Example: "  pawl simulate nightly.yaml --seed 7\n  pawl simulate nightly.yaml --seed 7 --faults kill,slow\n  pawl simulate nightly.yaml --runs 100",
		Args:    want(1, 1, "a FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return a.simulate(args[0], &f)
		},
	}
	f.inputs.bind(c)
	c.Flags().StringVarP(&f.form, "output", "o", formText, "text: the timeline, and how the job ended; json")
	c.Flags().IntVar(&f.seed, "seed", 1, "what everything is made up from: a whole number from 0")
	c.Flags().IntVar(&f.runs, "runs", 1, "how many seeds, from --seed on; of more than one the ends are shown, 1 to 10000")
	c.Flags().StringVar(&f.faults, "faults", "", "kill, slow, duplicate: one or several with commas between; default none")
	return c
}

// named returns the faults that are asked for.
func (f *simulateFlags) named() []verify.Fault {
	var faults []verify.Fault
	for _, word := range strings.Split(f.faults, ",") {
		if word = strings.TrimSpace(word); word != "" {
			faults = append(faults, verify.Fault(word))
		}
	}
	return faults
}

func (f *simulateFlags) check() error {
	if f.seed < 0 {
		return usage("", "--seed %d: want 0 or more", f.seed)
	}
	if f.runs < 1 || f.runs > 10_000 {
		return usage("", "--runs %d: want 1 to 10000", f.runs)
	}
	var known []string
	for _, fault := range verify.Faults {
		known = append(known, string(fault))
	}
	for _, fault := range f.named() {
		if err := oneOf("faults", string(fault), known...); err != nil {
			return err
		}
	}
	return oneOf("output", f.form, formText, formJSON)
}

func (a *app) simulate(path string, f *simulateFlags) error {
	def, err := readWorkflow(path)
	if err != nil {
		return err
	}
	cfg := verify.Config{Seed: uint64(f.seed), Faults: f.named()}
	if cfg.Inputs, err = f.inputs.parsed(def); err != nil {
		return err
	}
	if f.runs > 1 {
		o, err := verify.SimulateMany(def, cfg, f.runs)
		if err != nil {
			return err
		}
		if err := console.Outlook(a.stdout, a.stderr, o, f.form == formJSON); err != nil {
			return err
		}
		if len(o.Broken) > 0 {
			return exit{codeFailed}
		}
		return nil
	}
	result, err := verify.Simulate(def, cfg)
	if err != nil {
		return err
	}
	if f.form == formJSON {
		err = console.JSON(a.stdout, result)
	} else {
		_, err = fmt.Fprint(a.stdout, console.Tidy(result.Text()))
	}
	if err == nil && result.Broken != "" {
		err = exit{codeFailed}
	}
	return err
}

// parsed returns the inputs that the command line gives, each by its type. They
// need not be all that a job needs.
func (in *inputFlags) parsed(def *workflow.Definition) (map[string]any, error) {
	given, err := in.object()
	if err != nil {
		return nil, err
	}
	pairs, err := in.values(def)
	if err != nil {
		return nil, err
	}
	maps.Copy(given, pairs)
	for _, key := range sortedNames(given) {
		if !slices.ContainsFunc(def.Inputs, func(i workflow.Input) bool { return i.Name == key }) {
			_, err := def.ParseInput(key, "")
			return nil, err
		}
	}
	return given, nil
}

func sortedNames(m map[string]any) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
