package sqlite

import (
	"cmp"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// A candidate is a step, or a job that has yet to start, on a route.
type candidate struct {
	rank int64
	key  pawl.StepKey // Ord 0 for a job
}

func compareCandidates(a, b candidate) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), compareKeys(a.key, b.key))
}

// claims runs the claim queries: selectClaimableSteps and selectClaimableJobs find what may be
// claimed, and the update of a step claims it. A later query of the same transaction never gets a row that
// an earlier one got.
func (r *reading) claims(q *store.Query) error {
	given := map[pawl.StepKey]bool{}
	for i := range q.Claims {
		facts, err := r.claim(&q.Claims[i], given)
		if err != nil {
			return err
		}
		r.f.Claims = append(r.f.Claims, facts)
	}
	return nil
}

func (r *reading) claim(q *store.ClaimQuery, given map[pawl.StepKey]bool) (store.ClaimFacts, error) {
	var facts store.ClaimFacts
	ready, err := r.candidates(selectClaimableSteps, q.Routes, q.Limit, given)
	if err != nil {
		return facts, err
	}
	for _, c := range ready {
		if err := r.ready(c.key); err != nil {
			return facts, err
		}
		if r.f.Steps[c.key] != nil && r.f.Jobs[c.key.Job] != nil {
			facts.Steps = append(facts.Steps, c.key)
		}
	}
	sought := max(q.Limit-len(facts.Steps), q.Starts)
	starts, err := r.candidates(selectClaimableJobs, q.Routes, sought, given)
	if err != nil {
		return facts, err
	}
	facts.More = len(ready) >= q.Limit || sought > 0 && len(starts) == sought
	for _, c := range starts {
		if err := r.start(c.key.Job); err != nil {
			return facts, err
		}
		if r.f.Jobs[c.key.Job] != nil {
			facts.Starts = append(facts.Starts, c.key.Job)
		}
	}
	return facts, nil
}

// candidates returns the first limit rows of all the routes that were not given out before,
// and marks them as given.
func (r *reading) candidates(s statement, routes []rowkey.Route, limit int, given map[pawl.StepKey]bool) ([]candidate, error) {
	if limit <= 0 {
		return nil, nil
	}
	var list []candidate
	for _, route := range slices.Compact(slices.Sorted(slices.Values(routes))) {
		err := r.c.each(s, func(b *row) { b.ints(int64(route), int64(limit+len(given))) }, func(c *columns) error {
			found := candidate{rank: c.int(), key: pawl.StepKey{Job: rowkey.Job(c.int())}}
			if s == selectClaimableSteps {
				found.key.Ord = pawl.Ord(c.int())
			}
			if !given[found.key] {
				list = append(list, found)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, compareCandidates)
	list = list[:min(limit, len(list))]
	for _, c := range list {
		given[c.key] = true
	}
	return list, nil
}

// ready reads a step that may be claimed, and its job.
func (r *reading) ready(k pawl.StepKey) error {
	if err := r.step(k); err != nil {
		return err
	}
	return r.jobInputs(k.Job)
}

// start reads a job that may be started, and its steps without needs.
func (r *reading) start(job rowkey.Job) error {
	if err := r.jobInputs(job); err != nil {
		return err
	}
	_, err := r.steps(selectRootSteps, int64(job))
	return err
}
