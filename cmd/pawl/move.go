package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/workflow"
)

const moveLong = `Let an unfinished job go on as another version of its registered workflow.

Steps that have begun have to be the same in both, their needs included; that is
checked, and one that is not makes the move a conflict (exit 5) that names it.
Steps that have not begun may have changed. New ones are added, and those that the
version does not have end as skipped. The inputs of the job have to suit the new
version. Limits (workers, timeout, on_error, env, hooks) are those of the new
version from now on. The commands start in the folder in which they did before.

--dry-run does all of that but keeps nothing of it, and prints what would happen.`

func newJobMove(a *app) *cobra.Command {
	version, dryRun, reason, form := 0, false, "", formText
	c := &cobra.Command{
		Use: "move JOB --to VERSION", Short: "Let a job go on as another version of its workflow", Long: moveLong,
		Example: "  pawl job move a1b2c3 --to 4 --dry-run\n  pawl job move a1b2c3 --to 4 --reason \"the report was wrong\"",
		Args:    want(1, 1, "a JOB"), ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error {
			if version < 1 || version > workflow.MaxVersion {
				return usage("list the versions with: pawl workflow versions NAME", "--to %d: want the number of a version, from 1", version)
			}
			return a.withJob(c.Context(), args[0], func(cl *client.Client, id pawl.ID) error {
				m, err := cl.Workflows.Move(c.Context(), id, version, dryRun, a.change(reason))
				if err != nil {
					return err
				}
				if form == formJSON {
					return console.JSON(a.stdout, m)
				}
				console.Moved(a.stdout, m)
				return nil
			})
		},
	}
	c.Flags().IntVar(&version, "to", 0, "the version to move to")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would happen, and change nothing")
	bindForm(c, &form, "from where to where, and what differs")
	bindReason(c, &reason)
	return c
}

// planAgainst says how the unfinished jobs of a workflow stand to a file.
func (a *app) planAgainst(ctx context.Context, def *workflow.Definition, against, form string) error {
	if err := oneOf("against", against, "running"); err != nil {
		return err
	}
	if form == "mermaid" {
		return usage("", "--against goes with -o text and -o json only")
	}
	return a.with(ctx, func(cl *client.Client) error {
		p, err := cl.Workflows.PlanMoves(ctx, def)
		if err != nil {
			return err
		}
		if form == formJSON {
			return console.JSON(a.stdout, p)
		}
		console.MovePlans(a.stdout, p, a.workspace, a.given)
		return nil
	})
}
