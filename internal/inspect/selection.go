package inspect

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
)

// A Candidate holds what a selection needs to know about a job.
type Candidate struct {
	ID, Parent string
	Paused     bool
}

// Select returns the jobs that a query selects, newest first.
func Select(ctx context.Context, cl *client.Client, q pawl.JobQuery) (all []Candidate, err error) {
	err = eachJob(ctx, cl, q, func(v *pawl.JobView) {
		c := Candidate{ID: v.ID, Paused: v.Paused}
		if v.ParentJobID != nil {
			c.Parent = *v.ParentJobID
		}
		all = append(all, c)
	})
	return all, err
}

// ListPage is how many jobs or workers are read at once.
const ListPage = 1000

// eachJob calls f with every job that a query selects, newest first.
func eachJob(ctx context.Context, cl *client.Client, q pawl.JobQuery, f func(*pawl.JobView)) error {
	q.Limit = ListPage
	for {
		jobs, err := cl.Jobs.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range jobs {
			f(&jobs[i])
		}
		if len(jobs) == 0 {
			return nil
		}
		q.Before = jobs[len(jobs)-1].ID
	}
}

// WithoutChildren drops the jobs whose parents are included, since an operation on a parent
// reaches its children.
func WithoutChildren(all []Candidate) []Candidate {
	there := make(map[string]bool)
	for _, c := range all {
		there[c.ID] = true
	}
	return slices.DeleteFunc(all, func(c Candidate) bool { return there[c.Parent] })
}

// A Lineage is the set of jobs that others continue.
type Lineage map[string]bool

// Without drops the jobs that others continue.
func (l Lineage) Without(all []Candidate) []Candidate {
	var rest []Candidate
	for _, c := range all {
		if !l[c.ID] {
			rest = append(rest, c)
		}
	}
	return rest
}

// Retried returns the jobs that have been retried: those of a workflow, or all.
func Retried(ctx context.Context, cl *client.Client, workspace, workflow string) (Lineage, error) {
	known := make(Lineage)
	return known, eachJob(ctx, cl, pawl.JobQuery{Workspace: workspace, Workflow: workflow}, func(v *pawl.JobView) {
		if v.Continues != nil {
			known[*v.Continues] = true
		}
	})
}
