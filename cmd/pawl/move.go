package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
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
			if err := oneOf("output", form, formText, formJSON); err != nil {
				return err
			}
			if version < 1 || version > workflow.MaxVersion {
				return usage("list the versions with: pawl workflow versions NAME", "--to %d: want the number of a version, from 1", version)
			}
			return a.withJob(c.Context(), args[0], func(cl *client.Client, id pawl.ID) error {
				m, err := cl.Workflows.Move(c.Context(), id, version, dryRun, a.change(reason))
				if err != nil {
					return err
				}
				if form == formJSON {
					return writeJSON(a.stdout, m)
				}
				showMoved(a.stdout, m)
				return nil
			})
		},
	}
	c.Flags().IntVar(&version, "to", 0, "the version to move to")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would happen, and change nothing")
	c.Flags().StringVarP(&form, "output", "o", formText, "text, or json: from where to where, and what differs")
	bindReason(c, &reason)
	return c
}

func showMoved(w io.Writer, m *workflow.Moved) {
	verb := "moved"
	if m.DryRun {
		verb = "would move"
	}
	fmt.Fprintf(w, "job %s %s from %s to %s\n", m.JobID, verb, pinText(m.From), pinText(m.To))
	showDiff(w, &m.Diff)
}

func showDiff(w io.Writer, d *workflow.Diff) {
	for _, line := range d.Lines() {
		fmt.Fprintln(w, "  "+printable(line))
	}
	if d.Empty() {
		fmt.Fprintln(w, "  nothing differs")
	}
}

// pinText says what a job is made of: a version, or a definition that is none.
func pinText(p workflow.Pin) string {
	if p.Version > 0 {
		return "version " + versionText(p.Version)
	}
	return "no version (" + shortHash(p.Hash) + ")"
}

func versionText(version int) string {
	if version == 0 {
		return ""
	}
	return fmt.Sprint(version)
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
			return writeJSON(a.stdout, p)
		}
		showMovePlans(a.stdout, p, a.workspace, a.given)
		return nil
	})
}

// showMovePlans writes how the unfinished jobs of a workflow stand to a version. given are
// the global flags that a command needs which is shown.
func showMovePlans(w io.Writer, p *workflow.MovePlans, workspace, given string) {
	is := "would be version"
	if p.Registered {
		is = "is version"
	}
	fmt.Fprintf(w, "%s (%s) %s %d in workspace %s\n", p.Workflow, shortHash(p.Hash), is, p.Version, workspace)
	if len(p.Jobs) == 0 {
		fmt.Fprintf(w, "no job of %s is unfinished\n", p.Workflow)
	}
	for i := range p.Jobs {
		showMovePlan(w, p, &p.Jobs[i], given)
	}
}

func showMovePlan(w io.Writer, all *workflow.MovePlans, p *workflow.MovePlan, given string) {
	fmt.Fprintf(w, "\njob %s %s stays on %s\n", p.JobID, p.Status, pinText(p.Pinned))
	showDiff(w, &p.Diff)
	move := fmt.Sprintf("pawl job move %s --to %d%s", p.JobID, all.Version, given)
	switch {
	case p.Diff.Empty() && all.Registered && p.Pinned.Version == all.Version:
	case !p.Movable:
		for _, why := range p.Why {
			fmt.Fprintln(w, "  cannot be moved: "+printable(why))
		}
	case all.Registered:
		fmt.Fprintln(w, "  can be moved with: "+move)
	default:
		fmt.Fprintln(w, "  can be moved, once the file is registered, with: "+move)
	}
}
