package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/files"
	"github.com/pawl-dev/pawl/internal/remote"
	"github.com/pawl-dev/pawl/internal/simulate"
	"github.com/pawl-dev/pawl/internal/verify"
	"github.com/pawl-dev/pawl/workflow"
)

func newValidate(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "validate FILE...", Short: "Check workflow files and service files",
		Long:    "Check workflow files, and service files for \"pawl supervise\" (which have the key\nservices), and report every mistake as FILE:LINE:COLUMN. Nothing is stored or started, and\nno database is needed.\n\nExit codes: 0 all files are valid, 2 one is invalid, 3 one does not exist.",
		Example: "  pawl validate nightly.yaml\n  pawl validate workflows/*.yaml",
		Args:    want(1, -1, "a FILE"),
		RunE:    func(c *cobra.Command, args []string) error { return a.validate(c.Context(), args) },
	}
}

func (a *app) validate(ctx context.Context, paths []string) error {
	return all(a, paths, func(path string) error {
		what, err := files.Check(path)
		if err == nil && a.server != "" {
			err = a.accepted(ctx, path)
		}
		if err == nil {
			fmt.Fprintf(a.stdout, "%s: valid (%s)\n", path, what)
		}
		return err
	})
}

// accepted returns an error unless the server accepts the workflow in a file. Files of services
// are for a supervisor of the same version.
func (a *app) accepted(ctx context.Context, path string) error {
	def, err := files.ReadWorkflow(path)
	if err != nil {
		return nil
	}
	return a.onRemote(ctx, func(e *remote.Engine) error { return e.Validate(ctx, def.Canonical()) })
}

const planLong = `Show what a workflow would do, without running it: its steps by level, each level after
those above it. Inputs are checked if any are given. No database is needed.

--against running lists the unfinished jobs of that workflow in the workspace: which
definition each has and keeps, how it differs from the file, and whether "pawl job move"
could move it to this version, or why not. Nothing is changed.`

func newPlan(a *app) *cobra.Command {
	var in inputFlags
	form, against := formText, ""
	c := &cobra.Command{
		Use: "plan FILE", Short: "Show the steps of a workflow file", Long: planLong,
		Example: "  pawl plan nightly.yaml\n  pawl plan nightly.yaml -o mermaid\n  pawl plan nightly.yaml --against running",
		Args:    want(1, 1, "a FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := oneOf("output", form, formText, "mermaid", formJSON); err != nil {
				return err
			}
			def, err := files.ReadWorkflow(args[0])
			if err != nil {
				return err
			}
			if in.given() {
				if _, err := in.of(def); err != nil {
					return err
				}
			}
			if c.Flags().Changed("against") {
				return a.planAgainst(c.Context(), def, against, form)
			}
			if a.server != "" {
				if err := a.accepted(c.Context(), args[0]); err != nil {
					return err
				}
			}
			return a.plan(def, form)
		},
	}
	in.bind(c)
	c.Flags().StringVar(&against, "against", "", "running: compare with the definitions of unfinished jobs")
	c.Flags().StringVarP(&form, "output", "o", formText, "text; mermaid: a flowchart; json: the definition with its defaults written out")
	return c
}

func (a *app) plan(def *workflow.Definition, form string) error {
	text := map[string]func() string{formText: def.Tree, "mermaid": def.Mermaid, formJSON: func() string { return string(def.Canonical()) + "\n" }}
	_, err := fmt.Fprint(a.stdout, text[form]())
	return err
}

const verifyFileLong = `Find faults of a valid workflow, without running it: paths that wait forever, steps that
can never run, outputs that are used but may be missing, timeouts that come too soon, and
more.

The engine's own decisions are explored, with every step ending in every way: it
succeeds, fails for good, runs out of attempts, times out, is rejected, loses its worker,
or is canceled with its job. A condition is evaluated if its values are known, and
otherwise is both true and false. The search is exhaustive up to 20000 states (fewer for
a very large workflow), and random beyond; the output says which. A finding of the search
comes with the shortest way to it that was found.

Inputs that are given are fixed; the others vary. Nothing is stored, and no database is
needed.

Exit codes: 0 no errors, 1 errors (with --strict also warnings), 2 the file is invalid,
3 it does not exist, 130 interrupted.`

func newVerify(a *app) *cobra.Command {
	var in inputFlags
	form, strict := formText, false
	c := &cobra.Command{
		Use: "verify FILE", Short: "Find faults of a valid workflow file", Long: verifyFileLong,
		Example: "  pawl verify nightly.yaml\n  pawl verify nightly.yaml --strict -o json",
		Args:    want(1, 1, "a FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.verifyWorkflow(c.Context(), args[0], &in, form, strict)
		},
	}
	in.bind(c)
	bindForm(a, c, &form, "{workflow, findings, states, outcomes, all, ends, endings}")
	c.Flags().BoolVar(&strict, "strict", false, "exit code 1 also for warnings")
	return c
}

func (a *app) verifyWorkflow(ctx context.Context, path string, in *inputFlags, form string, strict bool) error {
	def, err := files.ReadWorkflow(path)
	if err != nil {
		return err
	}
	given, err := in.known(def)
	if err != nil {
		return err
	}
	report, err := a.explored(ctx, def, given)
	if err != nil {
		return err
	}
	src, err := files.Read(path, workflow.MaxSource)
	if err != nil {
		return err
	}
	report.Locate(src)
	if err := a.show(form, report, func() error {
		_, err := fmt.Fprint(a.stdout, console.PrintableLines(report.Text(path)))
		return err
	}); err != nil {
		return err
	}
	if report.Count(verify.Err) > 0 || strict && len(report.Findings) > 0 {
		return exit{codeFailed}
	}
	return nil
}

// explored verifies a workflow, here or on the server.
func (a *app) explored(ctx context.Context, def *workflow.Definition, given map[string]any) (report *verify.Report, err error) {
	if a.server == "" {
		return verify.Verify(ctx, def, given)
	}
	return report, a.onRemote(ctx, func(e *remote.Engine) error { return e.Verify(ctx, def.Canonical(), given, &report) })
}

const simulateLong = `Run a workflow on a simulated clock, with made-up outcomes, and show what happens. No step
is run. The decisions are the engine's own, and expressions are evaluated; durations,
failures, outputs, approvals and signals are derived from --seed. The same seed gives the
same output, byte for byte.

--faults adds faults besides those of the steps: kill (workers die in the middle of a
step), slow (workers are late, and steps reach their timeouts), duplicate (messages
arrive twice, and are refused).

Required inputs that are not given are made up. --runs N runs N seeds, from --seed on,
and shows how their jobs ended.

Exit codes: 0 the simulated job ended, in any state, 1 it could not end, or broke an
invariant, 2 the file is invalid.`

type simulateFlags struct {
	inputs inputFlags
	form   string
	seed   int
	runs   int
	faults string // separated by commas
}

func newSimulate(a *app) *cobra.Command {
	f := simulateFlags{form: formText}
	c := &cobra.Command{
		Use: "simulate FILE", Short: "Run a workflow file on a simulated clock", Long: simulateLong,
		Example: "  pawl simulate nightly.yaml --seed 7\n  pawl simulate nightly.yaml --seed 7 --faults kill,slow\n  pawl simulate nightly.yaml --runs 100",
		Args:    want(1, 1, "a FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return a.simulate(c.Context(), args[0], &f)
		},
	}
	f.inputs.bind(c)
	c.Flags().StringVarP(&f.form, "output", "o", formText, "text: the timeline, and how the job ended; json")
	c.Flags().IntVar(&f.seed, "seed", 1, "the seed of everything that is made up: a whole number from 0")
	c.Flags().IntVar(&f.runs, "runs", 1, "how many seeds to run, from --seed on, 1 to 10000; with more than one, only the ends are shown")
	c.Flags().StringVar(&f.faults, "faults", "", "kill, slow, duplicate, separated by commas; default none")
	return c
}

// named returns the requested faults.
func (f *simulateFlags) named() []simulate.Fault {
	var faults []simulate.Fault
	for _, word := range strings.Split(f.faults, ",") {
		if word = strings.TrimSpace(word); word != "" {
			faults = append(faults, simulate.Fault(word))
		}
	}
	return faults
}

func (f *simulateFlags) check() error {
	if f.seed < 0 {
		return usage("", "--seed %d: want 0 or more", f.seed)
	}
	known := make([]string, len(simulate.Faults))
	for i, fault := range simulate.Faults {
		known[i] = string(fault)
	}
	err := inRange("--runs", f.runs, 1, 10_000)
	for _, fault := range f.named() {
		err = cmp.Or(err, oneOf("faults", string(fault), known...))
	}
	return cmp.Or(err, oneOf("output", f.form, formText, formJSON))
}

func (a *app) simulate(ctx context.Context, path string, f *simulateFlags) error {
	def, err := files.ReadWorkflow(path)
	if err != nil {
		return err
	}
	cfg := simulate.Config{Seed: uint64(f.seed), Faults: f.named()}
	if cfg.Inputs, err = f.inputs.known(def); err != nil {
		return err
	}
	result, o, err := a.simulated(ctx, def, cfg, f.runs)
	if err != nil {
		return err
	}
	if o != nil {
		if err := console.Outlook(a.stdout, a.stderr, o, f.form == formJSON); err != nil {
			return err
		}
		if len(o.Broken) > 0 {
			return exit{codeFailed}
		}
		return nil
	}
	err = a.show(f.form, result, func() error {
		_, err := fmt.Fprint(a.stdout, console.PrintableLines(result.Text()))
		return err
	})
	if err == nil && result.Broken != "" {
		err = exit{codeFailed}
	}
	return err
}

// simulated simulates a workflow, here or on the server: once, or several seeds.
func (a *app) simulated(ctx context.Context, def *workflow.Definition, c simulate.Config, runs int) (result *simulate.Result, o *simulate.Outlook, err error) {
	switch {
	case a.server != "":
		s := remote.Simulation{Definition: def.Canonical(), Inputs: c.Inputs, Seed: c.Seed, Runs: runs, Faults: []string{}}
		for _, f := range c.Faults {
			s.Faults = append(s.Faults, string(f))
		}
		err = a.onRemote(ctx, func(e *remote.Engine) error { return e.Simulate(ctx, s, &result, &o) })
	case runs > 1:
		o, err = simulate.Many(ctx, def, c, runs)
	default:
		result, err = simulate.Run(ctx, def, c)
	}
	return result, o, err
}
