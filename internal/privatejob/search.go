package privatejob

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

// A Search finds the job that a file and inputs continue.
type Search struct {
	Store      store.Store
	Client     *client.Client
	Workspace  string
	File       string // for people
	Definition *workflow.Definition
	Inputs     func() (json.RawMessage, error) // as the definition binds them
	Given      bool                            // the job has to have these inputs
}

// unfinished are the states of a job that can be continued.
var unfinished = []machine.State{lifecycle.JobSubmitted, lifecycle.JobPending, lifecycle.JobRunning}

// unfinishedPage is how many unfinished jobs are read at once.
const unfinishedPage = 50

// eachUnfinished calls f with the unfinished private jobs of the same workflow, newest first,
// page by page, until f returns true.
func (r *Search) eachUnfinished(ctx context.Context, f func(*pawl.Job) (found bool, err error)) error {
	filter := store.JobFilter{Workspace: r.Workspace, States: unfinished, Workflow: r.Definition.Name, Limit: unfinishedPage}
	for {
		page, err := r.Store.Jobs(ctx, filter)
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

// Newest returns the newest job that the file and the inputs continue.
func (r *Search) Newest(ctx context.Context) (pawl.ID, error) {
	inputs, err := r.Inputs()
	if err != nil {
		return pawl.ID{}, err
	}
	var found, newest, closest *pawl.Job // closest: the newest with the same file
	err = r.eachUnfinished(ctx, func(j *pawl.Job) (bool, error) {
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

// A Mismatch is the reason why a job cannot be continued.
type Mismatch int

// The reasons.
const (
	IsEnded Mismatch = iota
	IsSubmitted
	OtherWorkspace
	OtherWorkflow
	OtherDefinition
	OtherInputs
	NoneUnfinished
)

// A MismatchError says why a job cannot be continued, or that there is none. It is of kind
// Conflict or NotFound.
type MismatchError struct {
	Why       Mismatch
	Workspace string // of the job, or the one without a match
	err       *pawl.Error
}

func (e *MismatchError) Error() string { return e.err.Error() }
func (e *MismatchError) Unwrap() error { return e.err }

// Fits returns a MismatchError if a job cannot be continued: the file or the inputs differ
// from those it was made from, or it is not a private job.
func (r *Search) Fits(ctx context.Context, id pawl.ID) error {
	v, err := r.Client.Jobs.Get(ctx, id)
	if err != nil {
		return err
	}
	j, err := r.Store.Job(ctx, id.JobKey())
	if err != nil {
		return err
	}
	refuse := func(why Mismatch, format string, args ...any) error {
		return &MismatchError{why, j.Workspace, pawl.Errorf(pawl.Conflict, "job %s %s", v.ID, fmt.Sprintf(format, args...))}
	}
	switch {
	case lifecycle.Job.Ended(j.State):
		return refuse(IsEnded, "cannot be continued: it is %s", j.State)
	case j.Private != j.Key():
		return refuse(IsSubmitted, "was submitted for workers to run")
	case j.Workspace != r.Workspace:
		return refuse(OtherWorkspace, "is in workspace %s, not in %s", j.Workspace, r.Workspace)
	case j.Workflow != r.Definition.Name:
		return refuse(OtherWorkflow, "is of workflow %s, and %s has %s", j.Workflow, r.File, r.Definition.Name)
	case v.DefinitionHash != r.Definition.HashString():
		return refuse(OtherDefinition, "was created from another version of %s: the file has changed since", r.File)
	}
	if !r.Given {
		return nil
	}
	inputs, err := r.Inputs()
	if err != nil {
		return err
	}
	if !equalJSON(j.Inputs, inputs) {
		return refuse(OtherInputs, "has other inputs: %s", differences(j.Inputs, inputs))
	}
	return nil
}

func (r *Search) same(ctx context.Context, j *pawl.Job) (bool, error) {
	d, err := r.Store.Definition(ctx, j.Definition)
	if err != nil {
		return false, err
	}
	return d.Hash == r.Definition.Hash(), nil
}

// nothing returns the error for no job to continue. It says what differs in the closest job:
// the newest with the same file, else the newest.
func (r *Search) nothing(newest, closest *pawl.Job, inputs json.RawMessage) *MismatchError {
	e := &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("there is no unfinished job of %s with these inputs in workspace %s", r.File, r.Workspace)}
	switch {
	case closest != nil:
		e.Hint = fmt.Sprintf("unfinished job %s has other inputs: %s", closest.ID.Public(pawl.JobPrefix), differences(closest.Inputs, inputs))
	case newest != nil:
		e.Hint = fmt.Sprintf("unfinished job %s was created from another version of the file", newest.ID.Public(pawl.JobPrefix))
		if !equalJSON(newest.Inputs, inputs) {
			e.Hint += ", with other inputs: " + differences(newest.Inputs, inputs)
		}
	}
	return &MismatchError{NoneUnfinished, r.Workspace, e}
}

// Abandoned returns an unfinished job that could be continued because its owner is gone.
func (r *Search) Abandoned(ctx context.Context, inputs json.RawMessage) (id pawl.ID, ok bool) {
	err := r.eachUnfinished(ctx, func(j *pawl.Job) (bool, error) {
		if same, err := r.same(ctx, j); err != nil || !same || !equalJSON(j.Inputs, inputs) {
			return false, nil
		}
		release, err := hold(ctx, r.Store, j.ID)
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

// maxShownValue bounds how much of an input's value is shown, in bytes.
const maxShownValue = 60

// differences names the inputs that differ.
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
