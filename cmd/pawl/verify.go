package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/verify"
	"github.com/pawl-dev/pawl/workflow"
)

const verifyFileLong = `Find what is wrong with a workflow that is valid by itself, without running it:
paths that wait for ever, steps that can never run, outputs that are used and may
not be there, timeouts that come too soon, and more.

The engine's own decisions are gone through with every step ending in every way:
well, failed for good, out of attempts, timed out, rejected, with its worker dead,
or cancelled with its job. Conditions are evaluated where it is known what they
name, and are both true and false where it is not. That is exhaustive up to 20000
states (fewer of a very large workflow), and at random beyond; the output says
which. Of a finding of that kind the shortest way to it that was found is shown.

Inputs that are given are fixed; the others vary. Nothing is stored and no
database is needed. Exit codes: 0 no errors, 1 errors (with --strict: warnings,
too), 2 the file is not valid, 3 it is not there, 130 interrupted.`

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
	bindForm(c, &form, "{workflow, findings, states, outcomes, all, ends, endings}")
	c.Flags().BoolVar(&strict, "strict", false, "exit code 1 for warnings, too")
	return c
}

func (a *app) verifyWorkflow(ctx context.Context, path string, in *inputFlags, form string, strict bool) error {
	def, err := readWorkflow(path)
	if err != nil {
		return err
	}
	given, err := in.parsed(def)
	if err != nil {
		return err
	}
	report, err := verify.Verify(ctx, def, given)
	if err != nil {
		return err
	}
	src, err := readFile(path, workflow.MaxSource)
	if err != nil {
		return err
	}
	report.Locate(src)
	if form == formJSON {
		err = console.JSON(a.stdout, report)
	} else {
		_, err = fmt.Fprint(a.stdout, console.Tidy(report.Text(path)))
	}
	if err != nil {
		return err
	}
	if report.Count(verify.Err) > 0 || strict && len(report.Findings) > 0 {
		return exit{codeFailed}
	}
	return nil
}
