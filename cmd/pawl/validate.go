package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/programs/spec"
	"github.com/pawl-dev/pawl/workflow"
)

func newValidate(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "validate FILE...", Short: "Check workflow files, and files of services",
		Long:    "Check workflow files, and files of services for \"pawl supervise\" (which have the key\nservices), and name all that is wrong with each, as FILE:LINE:COLUMN. Nothing is stored\nor started, and no database is needed. Exit codes: 0 all are valid, 2 one is not, 3 one\nis not there.",
		Example: "  pawl validate nightly.yaml\n  pawl validate workflows/*.yaml",
		Args:    want(1, -1, "a FILE"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.validate(args) },
	}
}

func (a *app) validate(paths []string) error {
	worst := codeOK
	for _, path := range paths {
		what, err := validated(path)
		if err != nil {
			worst = max(worst, complain(a.stderr, err))
			continue
		}
		fmt.Fprintf(a.stdout, "%s: valid (%s)\n", path, what)
	}
	if worst != codeOK {
		return exit{worst}
	}
	return nil
}

// validated returns what is in a valid file.
func validated(path string) (string, error) {
	src, err := readFile(path, max(workflow.MaxSource, spec.MaxSource))
	if err != nil {
		return "", err
	}
	if servicesKey.Match(src) {
		f, err := parsePrograms(path, src)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s, %s", f.Name, console.Plural(int64(len(f.Programs)), "service")), nil
	}
	def, err := parseWorkflow(path, src)
	if err != nil {
		return "", err
	}
	return def.Name + ", " + def.HashString(), nil
}

const planLong = `Show what a workflow would do, without doing it: its steps level by level, each
level after those above it. Inputs are checked when any are given. No database is
needed.

With --against running it says of each unfinished job of that workflow in the
workspace what it is made of, which it keeps, what would differ in it, and whether
"pawl job move" could take it to this version, or why not. Nothing is changed.`

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
			def, err := readWorkflow(args[0])
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
			return a.plan(def, form)
		},
	}
	in.bind(c)
	c.Flags().StringVar(&against, "against", "", "running: compare with what unfinished jobs are made of")
	c.Flags().StringVarP(&form, "output", "o", formText, "text; mermaid: a flowchart; json: the definition with its defaults written out")
	return c
}

func (a *app) plan(def *workflow.Definition, form string) (err error) {
	switch form {
	case "mermaid":
		_, err = fmt.Fprint(a.stdout, def.Mermaid())
	case formJSON:
		_, err = fmt.Fprintf(a.stdout, "%s\n", def.Canonical())
	default:
		_, err = fmt.Fprint(a.stdout, def.Tree())
	}
	return err
}
