package console

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// shownChildren is how many child jobs the text lists.
const shownChildren = 5

func listChildren(ids []string) string {
	if len(ids) <= shownChildren {
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("%s and %d more; see -o json", strings.Join(ids[:shownChildren], ", "), len(ids)-shownChildren)
}

// Job writes a job for people.
func Job(w io.Writer, v *pawl.JobView, f Frame) error {
	if v.AsOf != 0 {
		fmt.Fprintf(w, "as of %s\n\n", exactly(v.AsOf, f.Zone))
	}
	for _, line := range drawTree(v, f) {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintln(w)
	for _, fact := range [][2]string{
		{"description", OneLine(v.Description)},
		{"workspace", v.Workspace},
		{"continues", deref(v.Continues)},
		{"parent", deref(v.ParentJobID)},
		{"children", listChildren(v.ChildJobs)},
		{"version", versionText(v.Version)},
		{"definition", v.DefinitionHash},
		{"created", exactly(v.CreatedAt, f.Zone)},
		{"started", exactly(v.StartedAt, f.Zone)},
		{"completed", exactly(v.CompletedAt, f.Zone)},
		{"inputs", compact(string(v.Inputs), "{}")},
		{"error", Printable(Message(v.Error))},
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
	return Output(w, v.Output)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// compact returns the text, or "" if it equals nothing, the text without information.
func compact(text, nothing string) string {
	if text == nothing {
		return ""
	}
	return text
}

func StuckRows(jobs []pawl.StuckJob, now time.Time) [][]string {
	rows := [][]string{{"ID", "WORKFLOW", "STATUS", "STILL", "WHY"}}
	for i := range jobs {
		j := &jobs[i]
		rows = append(rows, []string{j.ID, j.Workflow, string(j.Status), elapsed(j.Still, 0, now), mainWhy(j.Reason)})
	}
	return rows
}

func mainWhy(r *pawl.Reason) string {
	switch {
	case r == nil:
		return ""
	case r.Step != "":
		return r.Step + ": " + r.Text
	}
	return r.Text
}

func JobRows(jobs []pawl.JobView, now time.Time, zone *time.Location) [][]string {
	rows := [][]string{{"ID", "WORKFLOW", "STATUS", "STEPS", "CREATED", "TOOK"}}
	for i := range jobs {
		j := &jobs[i]
		rows = append(rows, []string{
			j.ID, j.Workflow, string(j.Status), stepsOf(j.StepCounts),
			Second(j.CreatedAt, zone), elapsed(j.StartedAt, j.CompletedAt, now),
		})
	}
	return rows
}

// JobLine returns a line about a job: when it changed, its id and workflow, its state, and how
// many of its steps have ended.
func JobLine(j *pawl.JobView, zone *time.Location) string {
	return OneLine(fmt.Sprintf("%s %s %s %s %s", Second(j.UpdatedAt, zone), j.ID, j.Workflow, j.Status, stepsOf(j.StepCounts)))
}

// DrawJobs draws jobs as a table.
func DrawJobs(jobs []pawl.JobView, f Frame) []string {
	if len(jobs) == 0 {
		return []string{f.cut("no unfinished jobs")}
	}
	var b strings.Builder
	_ = Table(&b, JobRows(jobs, f.Now, f.Zone)) // a builder takes all
	lines := f.fold(strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n"))
	for i := range lines {
		lines[i] = f.cut(strings.TrimRight(lines[i], " "))
	}
	return lines
}

// stepsOf says how many of the steps have ended.
func stepsOf(counts map[machine.State]int) string {
	ended, all := 0, 0
	for state, n := range counts {
		all += n
		if lifecycle.Step.Ended(state) {
			ended += n
		}
	}
	return fmt.Sprintf("%d/%d", ended, all)
}

// AsOf returns the time up to which unfinished work counts as having taken time.
func AsOf(v *pawl.JobView, now time.Time) time.Time {
	if v.AsOf != 0 {
		return v.AsOf.Time()
	}
	return now
}

// Reasons writes reasons for people, one block each.
func Reasons(w io.Writer, reasons []pawl.Reason) error {
	var b strings.Builder
	for i := range reasons {
		r := &reasons[i]
		of := r.Step
		if of == "" {
			of = "job"
		}
		fmt.Fprintf(&b, "%s  %s: %s\n", Printable(of), r.Status, Printable(r.Text))
		if r.Hint != "" {
			fmt.Fprintf(&b, "  unblock: %s\n", Printable(r.Hint))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
