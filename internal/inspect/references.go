package inspect

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/lifecycle"
)

const (
	minFirst  = 6      // first digits needed to identify a job
	minLast   = 4      // last digits needed
	sureLast  = 8      // last digits needed if there are more than refWithin jobs
	refWithin = 10_000 // how many of the newest jobs are searched
	shownOf   = 5      // how many jobs the error for an ambiguous reference lists
)

// refLast refers to the newest job. It cannot be an id, since ids are hexadecimal.
const refLast = "last"

const jobRefs = "want j_ and 32 digits, its last 4 digits or more, its first 6 or more, last, or last:WORKFLOW"

// Job resolves a text to a job of a workspace: an id, some of its digits, or the newest job.
func Job(ctx context.Context, cl *client.Client, workspace, text string) (pawl.ID, error) {
	if text == refLast {
		return newestJob(ctx, cl, workspace, "", func(j *pawl.Job) bool { return j.Parent == 0 })
	}
	if name, ok := strings.CutPrefix(text, refLast+":"); ok && name != "" {
		return newestJob(ctx, cl, workspace, " of workflow "+name, func(j *pawl.Job) bool { return j.Workflow == name })
	}
	digits := strings.TrimPrefix(text, pawl.JobPrefix)
	if len(digits) == 32 {
		return pawl.ParseID(pawl.JobPrefix, pawl.JobPrefix+digits)
	}
	if !isHex(digits) || len(digits) < minLast || len(digits) > 32 {
		return pawl.ID{}, pawl.Errorf(pawl.Invalid, "job %q: %s", text, jobRefs)
	}
	return pickJob(ctx, cl, workspace, digits)
}

// newestJob returns the newest job for which meant returns true. If there is none, the error
// describes it as which.
func newestJob(ctx context.Context, cl *client.Client, workspace, which string, meant func(*pawl.Job) bool) (id pawl.ID, err error) {
	found := false
	err = cl.Inspect.Recent(ctx, workspace, refWithin, func(j *pawl.Job) bool {
		if found = meant(j); found {
			id = j.ID
		}
		return !found
	})
	if err == nil && !found {
		err = noJob(workspace, which)
	}
	return id, err
}

// pickJob returns the one job that has these digits.
func pickJob(ctx context.Context, cl *client.Client, workspace, digits string) (pawl.ID, error) {
	var found []*pawl.Job
	seen := 0
	err := cl.Inspect.Recent(ctx, workspace, refWithin, func(j *pawl.Job) bool {
		seen++
		if hasDigits(j.ID.Public(""), digits) {
			found = append(found, j)
		}
		return true
	})
	switch {
	case err != nil:
		return pawl.ID{}, err
	case len(found) == 0:
		return pawl.ID{}, noJob(workspace, " "+digits)
	case len(found) == 1 && seen == refWithin && len(digits) < sureLast:
		return pawl.ID{}, unclear(fmt.Sprintf("give %d digits, such as %s", sureLast, lastOf(found[0], sureLast)),
			"job %s: there are more than %d jobs, and one of the older ones may have these digits, too", digits, refWithin)
	case len(found) == 1:
		return found[0].ID, nil
	}
	return pawl.ID{}, unclear("give more of its digits; jobs of one day differ in their last ones", "job %s: %d jobs have these digits: %s", digits, len(found), named(found))
}

// lastOf returns the last n digits of a job's id.
func lastOf(j *pawl.Job, n int) string {
	id := j.ID.Public("")
	return id[len(id)-n:]
}

func noJob(workspace, which string) error {
	return pawl.Errorf(pawl.NotFound, "there is no job%s among the newest %d of workspace %s", which, refWithin, workspace)
}

// unclear returns the error for an ambiguous reference.
func unclear(hint, format string, args ...any) error {
	return &pawl.Error{Kind: pawl.Invalid, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// hasDigits reports whether digits identify the id.
func hasDigits(id, digits string) bool {
	return strings.HasSuffix(id, digits) || len(digits) >= minFirst && strings.HasPrefix(id, digits)
}

// named lists the newest of several jobs.
func named(jobs []*pawl.Job) string {
	var names []string
	for _, j := range jobs[:min(len(jobs), shownOf)] {
		names = append(names, j.ID.Public(pawl.JobPrefix)+" ("+j.Workflow+")")
	}
	text := strings.Join(names, ", ")
	if more := len(jobs) - shownOf; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Worker resolves a text to a worker of a workspace: an id, enough of its first or last
// digits, or the name of a living worker.
func Worker(ctx context.Context, cl *client.Client, workspace, text string) (pawl.ID, error) {
	digits := strings.TrimPrefix(text, pawl.WorkerPrefix)
	if len(digits) == 32 && isHex(digits) {
		return pawl.ParseID(pawl.WorkerPrefix, pawl.WorkerPrefix+digits)
	}
	all, err := cl.Workers.List(ctx, pawl.WorkerQuery{Workspace: workspace, Statuses: lifecycle.Worker.States, Limit: ListPage})
	if err != nil {
		return pawl.ID{}, err
	}
	var found []string
	for _, w := range all {
		id := w.ID[len(pawl.WorkerPrefix):]
		short := len(digits) >= minFirst && (strings.HasPrefix(id, digits) || strings.HasSuffix(id, digits))
		if short || w.Name == text && !lifecycle.Worker.Ended(w.Status) {
			found = append(found, w.ID)
		}
	}
	switch len(found) {
	case 0:
		return pawl.ID{}, pawl.Errorf(pawl.NotFound, "there is no worker %s in workspace %s", text, workspace)
	case 1:
		return pawl.ParseID(pawl.WorkerPrefix, found[0])
	}
	return pawl.ID{}, unclear("give its id", "worker %s: %d workers match, such as %s and %s", text, len(found), found[0], found[1])
}

func isHex(s string) bool {
	for _, c := range s {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
