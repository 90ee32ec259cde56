package inspect

import (
	"context"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
)

// OfJob takes the place of a step's key and means the job itself.
const OfJob = "job"

// History calls f with the transitions of a job and its steps, oldest first, or with those of
// one step only: a step with its instances, one instance, or the job itself ([OfJob]). A step
// that does not exist, or has no transitions yet, is an error of kind NotFound.
func History(ctx context.Context, cl *client.Client, id pawl.ID, step string, f func(pawl.Transition) error) error {
	none := true
	err := cl.Inspect.History(ctx, id, func(t pawl.Transition) error {
		if !isOf(&t, step) {
			return nil
		}
		none = false
		return f(t)
	})
	if err != nil || !none {
		return err
	}
	def, err := cl.Inspect.Definition(ctx, id)
	if err != nil {
		return err
	}
	if _, err := def.OrdOf(step); err != nil {
		return err
	}
	return pawl.Errorf(pawl.NotFound, "job %s has no step %s yet", id.Public(pawl.JobPrefix), step)
}

// isOf reports whether a transition belongs to a step: an instance's belong to its fan-out
// too.
func isOf(t *pawl.Transition, step string) bool {
	switch step {
	case "", t.Step:
		return true
	case OfJob:
		return t.Step == ""
	}
	return strings.HasPrefix(t.Step, step+"[")
}
