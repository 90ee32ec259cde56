package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/workflow"
)

const approveLong = `Answer an approval that a job waits for: its step is complete, and the form is its
output. STEP may be left out when one approval waits; when several do, they are
listed. The form is filled in with --set, each value by the type of its field, or
as one JSON object with --data; what is left out takes its default.`

const rejectLong = `Refuse an approval that a job waits for: its step fails for good, and says who
refused and why. STEP may be left out when one approval waits.`

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
			return a.decide(c.Context(), "approve", args, func(cl *client.Client, id pawl.ID, step string) error {
				form, err := f.form(c.Context(), cl, id, step, data)
				if err != nil {
					return err
				}
				return cl.Approvals.Approve(c.Context(), id, step, form, a.change(f.reason))
			})
		},
	}
	c.Flags().StringArrayVar(&f.set, "set", nil, "a field of the form, as key=value; may be repeated")
	c.Flags().StringVar(&f.data, "data", "", "the form as a JSON object, or @FILE of one; --set wins over it")
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
			return a.decide(c.Context(), "reject", args, func(cl *client.Client, id pawl.ID, step string) error {
				return cl.Approvals.Reject(c.Context(), id, step, a.change(reason))
			})
		},
	}
	bindReason(c, &reason)
	return c
}

// decide approves or rejects, and says so.
func (a *app) decide(ctx context.Context, verb string, args []string, do func(cl *client.Client, id pawl.ID, step string) error) error {
	return a.withJob(ctx, args[0], func(cl *client.Client, id pawl.ID) error {
		step := ""
		if len(args) == 2 {
			step = args[1]
		} else if asked, err := a.asking(ctx, cl, id, verb); err != nil {
			return err
		} else {
			step = asked
		}
		if err := do(cl, id, step); err != nil {
			return err
		}
		done := map[string]string{"approve": "approved", "reject": "rejected"}[verb]
		_, err := fmt.Fprintf(a.stdout, "step %s of job %s is %s\n", step, id.Public(pawl.JobPrefix), done)
		return err
	})
}

// asking returns the one approval that a job waits for.
func (a *app) asking(ctx context.Context, cl *client.Client, id pawl.ID, verb string) (string, error) {
	v, err := cl.Jobs.Get(ctx, id)
	if err != nil {
		return "", err
	}
	var asked []*pawl.StepView
	for i := range v.Steps {
		if s := &v.Steps[i]; console.WaitsFor(s, workflow.KindApproval) {
			asked = append(asked, s)
		}
	}
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

// form returns what the command line says of the form of an approval.
func (f *formFlags) form(ctx context.Context, cl *client.Client, id pawl.ID, step string, data json.RawMessage) (map[string]any, error) {
	form := make(map[string]any)
	if data != nil {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if err := d.Decode(&form); err != nil || form == nil {
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
	set, err := setOf(f.set, func(name, text string) (any, error) { return def.ParseForm(ord.Node(), name, text) })
	for name, v := range set {
		form[name] = v
	}
	return form, err
}
