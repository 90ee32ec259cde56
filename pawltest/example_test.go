package pawltest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

// TestInvoice is the example of the package: a month passes, and somebody approves a reminder.
func TestInvoice(t *testing.T) {
	t.Parallel()
	invoice, err := workflow.File{Name: "invoice", Inputs: map[string]workflow.InputSchema{"to": {Type: workflow.TypeString}}, Steps: []workflow.Step{
		{ID: "send", Handler: "mail", With: "${{ inputs.to }}"},
		{ID: "due", Needs: []string{"send"}, Sleep: "720h"},
		{ID: "remind", Needs: []string{"due"}, Approval: &workflow.ApprovalStep{Prompt: "remind?"}},
		{ID: "again", Needs: []string{"remind"}, Handler: "mail", With: "${{ inputs.to }}"},
	}}.Build()
	must(t, err)
	var sent []time.Time
	mail := func(_ context.Context, to string) (any, error) {
		sent = append(sent, time.Now())
		return nil, nil
	}
	synctest.Test(t, func(t *testing.T) {
		e := pawltest.New(t, pawltest.Config{Handle: func(w *worker.Worker) {
			worker.Handle(w, "mail", mail)
		}})
		id, err := e.Client.Jobs.Submit(t.Context(), invoice, map[string]any{"to": "ada"})
		must(t, err)
		e.Advance(30 * 24 * time.Hour) // the invoice is overdue
		_, err = e.Client.Approvals.Approve(t.Context(), id, "remind", nil, pawl.Change{})
		must(t, err)
		must(t, e.Wait(id).Err())
	})
	if len(sent) != 2 || sent[1].Sub(sent[0]).Round(time.Hour) != 30*24*time.Hour {
		t.Errorf("mails were sent at %s, want two that are 30 days apart", sent)
	}
}
