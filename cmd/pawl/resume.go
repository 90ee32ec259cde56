package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// A resumption looks for the job that a file and inputs continue.
type resumption struct {
	app    *app
	ledger *ledger
	path   string
	def    *workflow.Definition
	inputs *inputFlags
}

// unfinished are the states of a job that can be continued.
var unfinished = []machine.State{lifecycle.JobSubmitted, lifecycle.JobPending, lifecycle.JobRunning}

// privatePage is how many unfinished jobs are read at once.
const privatePage = 50

// private calls f with the unfinished jobs of the same workflow that only their
// owner runs, newest first, page by page, until it has found what it looks for.
func (r *resumption) private(ctx context.Context, f func(*pawl.Job) (found bool, err error)) error {
	filter := store.JobFilter{Workspace: r.app.workspace, States: unfinished, Workflow: r.def.Name, Limit: privatePage}
	for {
		page, err := r.ledger.store.Jobs(ctx, filter)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, j := range page {
			if j.Private != j.Key() {
				continue
			}
			if found, err := f(j); found || err != nil {
				return err
			}
		}
		filter.Before = page[len(page)-1].Key()
	}
}

// newest returns the newest job that the file and the inputs continue.
func (r *resumption) newest(ctx context.Context) (pawl.ID, error) {
	inputs, err := r.inputs.of(r.def)
	if err != nil {
		return pawl.ID{}, err
	}
	var found, newest, closest *pawl.Job // closest: the newest with the same file
	err = r.private(ctx, func(j *pawl.Job) (bool, error) {
		same, err := r.same(ctx, j)
		if err != nil {
			return false, err
		}
		if newest == nil {
			newest = j
		}
		if same && closest == nil {
			closest = j
		}
		if same && equalJSON(j.Inputs, inputs) {
			found = j
		}
		return found != nil, nil
	})
	switch {
	case err != nil:
		return pawl.ID{}, err
	case found != nil:
		return found.ID, nil
	}
	return pawl.ID{}, r.nothing(newest, closest, inputs)
}

// named returns the job of --resume=JOB, if the file and the inputs are still
// those that it was made of.
func (r *resumption) named(ctx context.Context, text string) (pawl.ID, error) {
	id, err := r.app.jobOf(ctx, r.ledger.client, text)
	if err != nil {
		return id, err
	}
	v, err := r.ledger.client.Jobs.Get(ctx, id)
	if err != nil {
		return id, err
	}
	j, err := r.ledger.store.Job(ctx, id.Key())
	if err != nil {
		return id, err
	}
	return id, r.fits(j, v)
}

// fits says why the job cannot be continued with this file and these inputs.
func (r *resumption) fits(j *pawl.Job, v *pawl.JobView) error {
	refuse := func(hint, format string, args ...any) error {
		return &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("job %s ", v.ID) + fmt.Sprintf(format, args...), Hint: hint}
	}
	switch {
	case lifecycle.Job.Ended(j.State):
		return refuse("start another job by leaving --resume out", "cannot be continued: it is %s", j.State)
	case j.Private != j.Key():
		return refuse("run a worker for it with: pawl dev"+r.app.given, "was submitted for workers to run")
	case j.Workspace != r.app.workspace:
		return refuse("name it with --workspace "+j.Workspace, "is in workspace %s, not in %s", j.Workspace, r.app.workspace)
	case j.Workflow != r.def.Name:
		return refuse("give the file that it was made of", "is of workflow %s, and %s holds %s", j.Workflow, r.path, r.def.Name)
	case v.DefinitionHash != r.def.HashString():
		return refuse("bring the old file back, from git say, or start another job by leaving --resume out", "was made of another version of %s: the file has changed since", r.path)
	}
	if !r.inputs.given() {
		return nil
	}
	inputs, err := r.inputs.of(r.def)
	if err != nil {
		return err
	}
	if !equalJSON(j.Inputs, inputs) {
		return refuse("leave the inputs out to continue with those that it has", "has other inputs: %s", differences(j.Inputs, inputs))
	}
	return nil
}

func (r *resumption) same(ctx context.Context, j *pawl.Job) (bool, error) {
	d, err := r.ledger.store.Definition(ctx, j.Definition)
	if err != nil {
		return false, err
	}
	return d.Hash == r.def.Hash(), nil
}

// nothing says that there is no job to continue, and what is different about
// the one that comes closest: the newest with the same file, else the newest.
func (r *resumption) nothing(newest, closest *pawl.Job, inputs json.RawMessage) error {
	e := &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("there is no unfinished job of %s with these inputs in workspace %s", r.path, r.app.workspace),
		Hint: "start one by leaving --resume out"}
	switch {
	case closest != nil:
		e.Hint = fmt.Sprintf("unfinished job %s has other inputs: %s", closest.ID.Public(pawl.JobPrefix), differences(closest.Inputs, inputs))
	case newest != nil:
		e.Hint = fmt.Sprintf("unfinished job %s was made of another version of the file", newest.ID.Public(pawl.JobPrefix))
		if !equalJSON(newest.Inputs, inputs) {
			e.Hint += ", with other inputs: " + differences(newest.Inputs, inputs)
		}
	}
	return e
}

// hint mentions an unfinished job that could be continued instead: one whose
// owner is gone.
func (r *resumption) hint(ctx context.Context, inputs json.RawMessage) string {
	hint := ""
	err := r.private(ctx, func(j *pawl.Job) (bool, error) {
		if same, err := r.same(ctx, j); err != nil || !same || !equalJSON(j.Inputs, inputs) {
			return false, nil
		}
		release, err := r.ledger.hold(ctx, j.ID)
		if err != nil {
			return false, nil // its owner lives
		}
		release()
		hint = fmt.Sprintf("job %s of this file and these inputs is unfinished; --resume would continue it", j.ID.Public(pawl.JobPrefix))
		return true, nil
	})
	if err != nil {
		return ""
	}
	return hint
}

func equalJSON(a, b json.RawMessage) bool { return reflect.DeepEqual(decoded(a), decoded(b)) }

func decoded(b json.RawMessage) map[string]any {
	var v map[string]any
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil || len(v) == 0 {
		return map[string]any{}
	}
	return v
}

// maxShownValue bounds what is shown of an input's value, in bytes.
const maxShownValue = 60

// differences says which inputs are not the same.
func differences(theirs, ours json.RawMessage) string {
	was, is := decoded(theirs), decoded(ours)
	names := map[string]bool{}
	for k := range was {
		names[k] = true
	}
	for k := range is {
		names[k] = true
	}
	var words []string
	for k := range names {
		if !reflect.DeepEqual(was[k], is[k]) {
			words = append(words, fmt.Sprintf("%s is %s there and %s here", k, shown(was, k), shown(is, k)))
		}
	}
	slices.Sort(words)
	return strings.Join(words, "; ")
}

func shown(m map[string]any, key string) string {
	v, ok := m[key]
	if !ok {
		return "missing"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "unreadable"
	}
	if len(b) > maxShownValue {
		return strings.ToValidUTF8(string(b[:maxShownValue]), "") + "…"
	}
	return string(b)
}
