package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
)

func newJob(a *app) *cobra.Command {
	c := group(&cobra.Command{
		Use: "job", Short: "Look at one job, or change what becomes of it",
		Long:    "Look at one job, or change what becomes of it. See \"pawl --help\" for how a JOB is named.",
		Example: "  pawl job show last\n  pawl job retry last",
	})
	c.AddCommand(newJobShow(a), newJobHistory(a), newJobLogs(a), newJobWhy(a), newJobDiff(a), newJobCancel(a))
	c.AddCommand(newJobPause(a), newJobResume(a), newJobRetry(a), newJobSignal(a), newJobMove(a), newJobRedact(a))
	return c
}

// withJob reaches the orchestrator, and the job that the command line names.
func (a *app) withJob(ctx context.Context, text string, f func(*client.Client, pawl.ID) error) error {
	return a.with(ctx, func(cl *client.Client) error {
		id, err := a.jobOf(ctx, cl, text)
		if err != nil {
			return err
		}
		return f(cl, id)
	})
}

func newJobShow(a *app) *cobra.Command {
	form, past := formText, momentFlags{}
	c := &cobra.Command{
		Use: "show JOB", Short: "Show a job and its steps", Long: showLong,
		Example: "  pawl job show last\n  pawl job show j_019a3c7e5b7a7c1d8000000040a1b2c3 -o json\n  pawl job show last --at 10m",
		Args:    want(1, 1, "a JOB"), ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := oneOf("output", form, formText, formJSON); err != nil {
				return err
			}
			return a.withJob(c.Context(), args[0], func(cl *client.Client, id pawl.ID) error {
				v, err := past.job(c, cl, id)
				if err != nil {
					return err
				}
				if form == formJSON {
					return writeJSON(a.stdout, v)
				}
				return showJob(a.stdout, v, frame{now: asOf(v, time.Now()), given: a.given, zone: a.outZone()})
			})
		},
	}
	c.Flags().StringVarP(&form, "output", "o", formText, "text, or json: the job")
	past.add(c)
	return c
}

// shownChildren is how many child jobs the text names.
const shownChildren = 5

func listChildren(ids []string) string {
	if len(ids) <= shownChildren {
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("%s and %d more; see -o json", strings.Join(ids[:shownChildren], ", "), len(ids)-shownChildren)
}

// showJob writes a job for people.
func showJob(w io.Writer, v *pawl.JobView, f frame) error {
	if v.AsOf != 0 {
		fmt.Fprintf(w, "as of %s\n\n", exactly(v.AsOf, f.zone))
	}
	for _, line := range drawTree(v, f) {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintln(w)
	for _, fact := range [][2]string{
		{"description", oneLine(v.Description)},
		{"workspace", v.Workspace},
		{"continues", deref(v.Continues)},
		{"parent", deref(v.ParentJobID)},
		{"children", listChildren(v.ChildJobs)},
		{"version", versionText(v.Version)},
		{"definition", v.DefinitionHash},
		{"created", exactly(v.CreatedAt, f.zone)},
		{"started", exactly(v.StartedAt, f.zone)},
		{"completed", exactly(v.CompletedAt, f.zone)},
		{"inputs", compact(string(v.Inputs), "{}")},
		{"error", printable(message(v.Error))},
	} {
		if fact[1] != "" {
			fmt.Fprintf(w, "%-12s %s\n", fact[0], fact[1])
		}
	}
	if v.Redacted {
		fmt.Fprintf(w, "%-12s %s\n", "redacted", "inputs, output, error and metadata, and those of all steps")
	}
	if len(v.Output) == 0 || string(v.Output) == "null" {
		return nil
	}
	fmt.Fprintln(w, "output")
	return writeOutput(w, v.Output)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// compact returns a text, or nothing where it says nothing.
func compact(text, nothing string) string {
	if text == nothing {
		return ""
	}
	return text
}
