package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// A search looks for the job that a file and inputs continue.
type search struct {
	store     store.Store
	client    *client.Client
	workspace string
	file      string // for people
	def       *workflow.Definition
	inputs    func() (json.RawMessage, error) // as the definition binds them
	given     bool                            // there are inputs that a job has to have
}

// unfinished are the states of a job that can be continued.
var unfinished = []machine.State{lifecycle.JobSubmitted, lifecycle.JobPending, lifecycle.JobRunning}

// privatePage is how many unfinished jobs are read at once.
const privatePage = 50

// private calls f with the unfinished jobs of the same workflow that only their
// owner runs, newest first, page by page, until it has found what it looks for.
func (r *search) private(ctx context.Context, f func(*pawl.Job) (found bool, err error)) error {
	filter := store.JobFilter{Workspace: r.workspace, States: unfinished, Workflow: r.def.Name, Limit: privatePage}
	for {
		page, err := r.store.Jobs(ctx, filter)
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
func (r *search) newest(ctx context.Context) (pawl.ID, error) {
	inputs, err := r.inputs()
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

// A mismatch is a reason why a job cannot be continued.
type mismatch int

// What does not fit.
const (
	isEnded mismatch = iota
	isSubmitted
	otherWorkspace
	otherWorkflow
	otherDefinition
	otherInputs
	noneUnfinished
)

// A mismatchError says why a job cannot be continued, or that there is none. It is of kind
// Conflict or NotFound.
type mismatchError struct {
	why       mismatch
	workspace string // of the job, or in which none was found
	err       *pawl.Error
}

func (e *mismatchError) Error() string { return e.err.Error() }
func (e *mismatchError) Unwrap() error { return e.err }

// fits returns a mismatchError if a job cannot be continued: the file and the inputs are
// no longer those that it was made of, or it is not one that its owner runs.
func (r *search) fits(ctx context.Context, id pawl.ID) error {
	v, err := r.client.Jobs.Get(ctx, id)
	if err != nil {
		return err
	}
	j, err := r.store.Job(ctx, id.Key())
	if err != nil {
		return err
	}
	refuse := func(why mismatch, format string, args ...any) error {
		return &mismatchError{why, j.Workspace, pawl.Errorf(pawl.Conflict, "job %s %s", v.ID, fmt.Sprintf(format, args...))}
	}
	switch {
	case lifecycle.Job.Ended(j.State):
		return refuse(isEnded, "cannot be continued: it is %s", j.State)
	case j.Private != j.Key():
		return refuse(isSubmitted, "was submitted for workers to run")
	case j.Workspace != r.workspace:
		return refuse(otherWorkspace, "is in workspace %s, not in %s", j.Workspace, r.workspace)
	case j.Workflow != r.def.Name:
		return refuse(otherWorkflow, "is of workflow %s, and %s holds %s", j.Workflow, r.file, r.def.Name)
	case v.DefinitionHash != r.def.HashString():
		return refuse(otherDefinition, "was made of another version of %s: the file has changed since", r.file)
	}
	if !r.given {
		return nil
	}
	inputs, err := r.inputs()
	if err != nil {
		return err
	}
	if !equalJSON(j.Inputs, inputs) {
		return refuse(otherInputs, "has other inputs: %s", differences(j.Inputs, inputs))
	}
	return nil
}

func (r *search) same(ctx context.Context, j *pawl.Job) (bool, error) {
	d, err := r.store.Definition(ctx, j.Definition)
	if err != nil {
		return false, err
	}
	return d.Hash == r.def.Hash(), nil
}

// nothing says that there is no job to continue, and what is different about
// the one that comes closest: the newest with the same file, else the newest.
func (r *search) nothing(newest, closest *pawl.Job, inputs json.RawMessage) *mismatchError {
	e := &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("there is no unfinished job of %s with these inputs in workspace %s", r.file, r.workspace)}
	switch {
	case closest != nil:
		e.Hint = fmt.Sprintf("unfinished job %s has other inputs: %s", closest.ID.Public(pawl.JobPrefix), differences(closest.Inputs, inputs))
	case newest != nil:
		e.Hint = fmt.Sprintf("unfinished job %s was made of another version of the file", newest.ID.Public(pawl.JobPrefix))
		if !equalJSON(newest.Inputs, inputs) {
			e.Hint += ", with other inputs: " + differences(newest.Inputs, inputs)
		}
	}
	return &mismatchError{noneUnfinished, r.workspace, e}
}

// abandoned returns an unfinished job that could be continued: one whose owner is gone.
func (r *search) abandoned(ctx context.Context, inputs json.RawMessage) (id pawl.ID, ok bool) {
	err := r.private(ctx, func(j *pawl.Job) (bool, error) {
		if same, err := r.same(ctx, j); err != nil || !same || !equalJSON(j.Inputs, inputs) {
			return false, nil
		}
		release, err := hold(ctx, r.store, j.ID)
		if err != nil {
			return false, nil // its owner lives
		}
		release()
		id = j.ID
		return true, nil
	})
	return id, err == nil && id != pawl.ID{}
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
