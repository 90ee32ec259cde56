package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/inspect"
)

const stepLong = `Retry, skip or resolve one step of a running job. What the state of the step does not
allow is refused (exit 5): see "pawl machine show step".

A STEP is its key, as in "pawl job show": load, load[3] for an instance of a foreach,
test[linux,arm64] for one of a matrix. Shells need quotes around brackets.`

func newStep(a *app) *cobra.Command {
	c := group(&cobra.Command{
		Use: "step", Short: "Retry, skip or resolve one step", Long: stepLong,
		Example: "  pawl step retry last load\n  pawl step skip last \"load[3]\"",
	})
	c.AddCommand(newStepRetry(a), newStepSkip(a), newStepResolve(a))
	return c
}

// newStepVerb completes the command for an operator's action on a step.
func (a *app) newStepVerb(done string, do func(s *client.Steps, ctx context.Context, id pawl.ID, step string, c pawl.Change) (pawl.Receipt, error), c *cobra.Command) *cobra.Command {
	reason := ""
	c.Use += " JOB STEP"
	c.Args, c.ValidArgsFunction = want(2, 2, "a JOB and a STEP"), a.completeSteps
	c.RunE = a.onJob(func(ctx context.Context, cl *client.Client, id pawl.ID, rest []string) error {
		if _, err := do(cl.Steps, ctx, id, rest[0], a.change(reason)); err != nil {
			return a.instead(ctx, cl, id, rest[0], err)
		}
		_, err := fmt.Fprintf(a.stdout, "step %s of job %s is %s\n", rest[0], id.Public(pawl.JobPrefix), done)
		return err
	})
	bindReason(c, &reason)
	return c
}

// instead adds to a refusal what can be done in its place.
func (a *app) instead(ctx context.Context, cl *client.Client, id pawl.ID, step string, refusal error) error {
	if pawl.KindOf(refusal) != pawl.Conflict || console.Hint(refusal) != "" {
		return refusal
	}
	v, err := cl.Jobs.Get(ctx, id)
	if err != nil {
		return refusal
	}
	if hint := console.Instead(v, step, a.given); hint != "" {
		return hinted(refusal, hint)
	}
	return refusal
}

func newStepRetry(a *app) *cobra.Command {
	return a.newStepVerb("retried", (*client.Steps).Retry, &cobra.Command{
		Use: "retry", Short: "Start the next attempt of a step now",
		Long: "Start the next attempt of a step that waits for its backoff. It counts like any other\n" +
			"attempt. A job that has ended is retried as a whole: see \"pawl job retry\".",
		Example: "  pawl step retry last load --reason \"the disk is there again\"",
	})
}

func newStepSkip(a *app) *cobra.Command {
	return a.newStepVerb("skipped", (*client.Steps).Skip, &cobra.Command{
		Use: "skip", Short: "End a step as skipped",
		Long: "End a step that has not begun, or waits for its next attempt, as skipped. Steps that\n" +
			"depend on it are skipped too, as with a condition that is false.",
		Example: "  pawl step skip last upload --reason \"nothing to upload today\"",
	})
}

func newStepResolve(a *app) *cobra.Command {
	var output json.RawMessage
	c := a.newStepVerb("resolved", func(s *client.Steps, ctx context.Context, id pawl.ID, step string, c pawl.Change) (pawl.Receipt, error) {
		return s.Resolve(ctx, id, step, output, c)
	}, &cobra.Command{
		Use: "resolve", Short: "End a step with an output given by hand",
		Long: "End a step that has not begun, or waits for its next attempt, as resolved_manually, with\n" +
			"the output that --data gives. Steps that depend on it continue. In a job with\n" +
			"on_error: drain a failed step can be resolved as long as the job runs.",
		Example: "  pawl step resolve last count --data 42\n  pawl step resolve last extract --data @files.json --reason \"done by hand\"",
		PreRunE: func(c *cobra.Command, _ []string) (err error) {
			output, err = dataOf(c)
			return err
		},
	})
	c.Flags().String("data", "", "the output of the step, as JSON or @FILE; default null")
	return c
}

const approveLong = `Approve what a job waits for: the step completes, and the form is its output. STEP can be
left out if one approval waits; if several do, they are listed. --set fills in a field of
the form, by its type, and --data the whole form, as one JSON object. Fields that are
left out get their defaults.`

const rejectLong = `Reject what a job waits for: the step fails for good, and its error says who rejected it
and why. STEP can be left out if one approval waits.`

type formFlags struct {
	set    []string
	data   string
	reason string
}

func newApprove(a *app) *cobra.Command {
	var f formFlags
	c := &cobra.Command{
		Use: "approve JOB [STEP]", Short: "Approve what a job waits for", Long: approveLong,
		Example: "  pawl approve last\n  pawl approve last gate --set note=\"looks good\" --reason \"checked by hand\"",
		Args:    want(1, 2, "a JOB and perhaps a STEP"), ValidArgsFunction: a.completeSteps,
		RunE: func(c *cobra.Command, args []string) error {
			data, err := dataOf(c)
			if err != nil {
				return err
			}
			return a.decide(c, "approve", args, func(cl *client.Client, id pawl.ID, step string) (pawl.Receipt, error) {
				form, err := f.form(c.Context(), cl, id, step, data)
				if err != nil {
					return pawl.Receipt{}, err
				}
				return cl.Approvals.Approve(c.Context(), id, step, form, a.change(f.reason))
			})
		},
	}
	c.Flags().StringArrayVar(&f.set, "set", nil, "a field of the form, as key=value; may be repeated")
	c.Flags().StringVar(&f.data, "data", "", "the form as a JSON object, or @FILE; --set overrides single fields")
	bindReason(c, &f.reason)
	return c
}

func newReject(a *app) *cobra.Command {
	reason := ""
	c := &cobra.Command{
		Use: "reject JOB [STEP]", Short: "Reject what a job waits for", Long: rejectLong,
		Example: "  pawl reject last gate --reason \"the numbers are of last week\"",
		Args:    want(1, 2, "a JOB and perhaps a STEP"), ValidArgsFunction: a.completeSteps,
		RunE: func(c *cobra.Command, args []string) error {
			return a.decide(c, "reject", args, func(cl *client.Client, id pawl.ID, step string) (pawl.Receipt, error) {
				return cl.Approvals.Reject(c.Context(), id, step, a.change(reason))
			})
		},
	}
	bindReason(c, &reason)
	return c
}

// decide approves or rejects, and reports it.
func (a *app) decide(c *cobra.Command, verb string, args []string, do func(cl *client.Client, id pawl.ID, step string) (pawl.Receipt, error)) error {
	return a.onJob(func(ctx context.Context, cl *client.Client, id pawl.ID, rest []string) (err error) {
		step := optional(rest)
		if len(rest) == 0 {
			if step, err = a.asking(ctx, cl, id, verb); err != nil {
				return err
			}
		}
		if _, err := do(cl, id, step); err != nil {
			return err
		}
		done := map[string]string{"approve": "approved", "reject": "rejected"}[verb]
		_, err = fmt.Fprintf(a.stdout, "step %s of job %s is %s\n", step, id.Public(pawl.JobPrefix), done)
		return err
	})(c, args)
}

// asking returns the only approval that a job waits for.
func (a *app) asking(ctx context.Context, cl *client.Client, id pawl.ID, verb string) (string, error) {
	v, err := cl.Jobs.Get(ctx, id)
	if err != nil {
		return "", err
	}
	asked := inspect.Approvals(v)
	switch len(asked) {
	case 0:
		return "", &pawl.Error{Kind: pawl.Conflict, Message: "job " + v.ID + " waits for no approval: it is " + string(v.Status),
			Hint: "see what it waits for with: pawl job show " + v.ID + a.given}
	case 1:
		return asked[0].Key, nil
	}
	var words []string
	for _, s := range asked {
		words = append(words, fmt.Sprintf("%s (%s)", s.Key, console.OneLine(s.Wait.Prompt)))
	}
	return "", usage(fmt.Sprintf("name one of them: pawl %s %s %s%s", verb, v.ID, console.Shell(asked[0].Key), a.given),
		"job %s waits for %d approvals: %s", v.ID, len(asked), strings.Join(words, ", "))
}

// form returns the form of an approval, filled in from the command line.
func (f *formFlags) form(ctx context.Context, cl *client.Client, id pawl.ID, step string, data json.RawMessage) (map[string]any, error) {
	form := make(map[string]any)
	if data != nil {
		var ok bool
		if form, ok = objectOf(data); !ok {
			return nil, usage(`write --data '{"note": "looks good"}' or --data @FILE`, "--data: want one JSON object")
		}
	}
	if len(f.set) == 0 {
		return form, nil
	}
	def, err := cl.Inspect.Definition(ctx, id)
	if err != nil {
		return nil, err
	}
	ord, err := def.OrdOf(step)
	if err != nil {
		return nil, err
	}
	set, err := valuesOf("--set", "write --set day=2026-01-31", f.set, func(name, text string) (any, error) { return def.ParseForm(ord.Node(), name, text) })
	maps.Copy(form, set)
	return form, err
}
