package explain

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// Rates are computed from the newest jobs, at most maxRateJobs, and the newest steps, at most
// maxRateSteps.
const (
	maxRateJobs  = 5_000
	maxRateSteps = 10_000
)

// Rates are how many jobs and steps have begun and ended in a span of time, and how long they
// were in their states. What the newest records do not have is not counted: jobs that were made
// before these.
type Rates struct {
	From      pawl.Timestamp `json:"from"`
	To        pawl.Timestamp `json:"to"`
	Truncated bool           `json:"truncated" doc:"There were more records than are looked at, so that from is later than was asked for."`
	Workflows []Rate         `json:"workflows" doc:"Jobs by workflow."`
	Queues    []Rate         `json:"queues" doc:"Steps that workers run, by queue."`
}

// A Rate is that of the jobs of a workflow, or of the steps of a queue.
type Rate struct {
	Workspace      string                `json:"workspace_id"`
	Name           string                `json:"name" doc:"Of the workflow, or of the queue."`
	Begun          int                   `json:"begun" doc:"How many have begun to run: a step by its last attempt."`
	BegunPerMinute float64               `json:"begun_per_minute"`
	Ended          map[machine.State]int `json:"ended" doc:"How many have ended, by state."`
	EndedPerMinute float64               `json:"ended_per_minute"`
	Waited         Dwell                 `json:"waited" doc:"Of those that have begun: from their making, of a step from its place in the queue, until then. A job is PENDING, a step enqueued."`
	Ran            Dwell                 `json:"ran" doc:"Of those that have begun and ended: how long that took. A job is RUNNING, a step in_progress."`
}

// A Dwell is how long records were in a state.
type Dwell struct {
	Count int     `json:"count" doc:"Of how many."`
	P50   float64 `json:"p50_seconds"`
	P95   float64 `json:"p95_seconds"`
	Max   float64 `json:"max_seconds"`
}

// A flow collects a Rate.
type flow struct {
	begun       int
	ended       map[machine.State]int
	waited, ran []int64
}

// flows are by workspace and name.
type flows map[queueKey]*flow

// add adds a record by its times; 0 is not yet.
func (f flows) add(workspace, name string, from int64, state machine.State, queued, started, completed int64) {
	begun, ended := started >= from, completed >= from && completed != 0
	if !begun && !ended {
		return
	}
	k := queueKey{workspace, name}
	if f[k] == nil {
		f[k] = &flow{ended: map[machine.State]int{}}
	}
	if begun {
		f[k].begun++
		f[k].waited = append(f[k].waited, max(0, started-queued))
	}
	if ended {
		f[k].ended[state]++
	}
	if ended && started != 0 {
		f[k].ran = append(f[k].ran, max(0, completed-started))
	}
}

// rates returns the rates over a span of time, by workspace and name.
func (f flows) rates(span time.Duration) []Rate {
	list := []Rate{}
	for _, k := range slices.SortedFunc(maps.Keys(f), queueKey.compare) {
		of, ended := f[k], 0
		for _, n := range of.ended {
			ended += n
		}
		list = append(list, Rate{Workspace: k.workspace, Name: k.name, Begun: of.begun, BegunPerMinute: float64(of.begun) / span.Minutes(),
			Ended: of.ended, EndedPerMinute: float64(ended) / span.Minutes(), Waited: dwell(of.waited), Ran: dwell(of.ran)})
	}
	return list[:min(len(list), maxList)]
}

// dwell describes times, in microseconds: the smallest that is not exceeded by a share of them.
func dwell(times []int64) Dwell {
	if len(times) == 0 {
		return Dwell{}
	}
	slices.Sort(times)
	of := func(percent int) float64 { return float64(times[(len(times)*percent+99)/100-1]) / 1e6 }
	return Dwell{Count: len(times), P50: of(50), P95: of(95), Max: of(100)}
}

// Rates returns those of some workspaces, of which "" is all, over a span of time that ends now
// by the clock of the database.
func (r *Reader) Rates(ctx context.Context, workspaces []string, span time.Duration) (*Rates, error) {
	sees := func(workspace string) bool {
		return slices.Contains(workspaces, "") || slices.Contains(workspaces, workspace)
	}
	agenda, err := r.store.Look(ctx, store.LookQuery{Limit: 1})
	if err != nil {
		return nil, err
	}
	jobs, since, err := r.newestJobs(ctx)
	if err != nil {
		return nil, err
	}
	steps, err := r.store.NewestSteps(ctx, maxRateSteps)
	if err != nil {
		return nil, err
	}
	if len(steps) == maxRateSteps { // the last job may have others
		if j := jobs[steps[len(steps)-1].Job]; j != nil {
			since = max(since, j.CreatedAt)
		}
	}
	from := agenda.Now - span.Microseconds()
	truncated := since > from
	from = max(from, since)
	byWorkflow, byQueue := flows{}, flows{}
	for _, j := range jobs {
		if sees(j.Workspace) {
			byWorkflow.add(j.Workspace, j.Workflow, from, j.State, j.CreatedAt, j.StartedAt, j.CompletedAt)
		}
	}
	defs := map[rowkey.Definition]*workflow.Definition{}
	for _, s := range steps {
		j := jobs[s.Job]
		if j == nil || !sees(j.Workspace) || s.StartedAt == 0 {
			continue
		}
		def, known := defs[j.Definition]
		if !known {
			if def, err = r.defs.Get(ctx, j.Definition); err != nil && !store.Unreadable(err) {
				return nil, err
			}
			defs[j.Definition] = def
		}
		if queue := queueOf(def, j, s.Ord); queue != "" {
			byQueue.add(j.Workspace, queue, from, s.State, s.EnqueuedAt, s.StartedAt, s.CompletedAt)
		}
	}
	span = max(time.Second, time.Duration(agenda.Now-from)*time.Microsecond)
	return &Rates{From: pawl.Timestamp(from), To: pawl.Timestamp(agenda.Now), Truncated: truncated, Workflows: byWorkflow.rates(span), Queues: byQueue.rates(span)}, nil
}

// newestJobs reads the newest jobs, and the time at which the oldest of them was made, or 0 if
// these are all.
func (r *Reader) newestJobs(ctx context.Context) (jobs map[rowkey.Job]*pawl.Job, since int64, err error) {
	jobs = map[rowkey.Job]*pawl.Job{}
	for f := (store.JobFilter{Bare: true, Limit: recentPage}); len(jobs) < maxRateJobs; {
		page, err := r.store.Jobs(ctx, f)
		if err != nil || len(page) == 0 {
			return jobs, 0, err
		}
		for _, j := range page {
			jobs[j.Key()], since = j, j.CreatedAt
		}
		f.Before = page[len(page)-1].Key()
	}
	return jobs, since, nil
}

// queueOf returns the queue of a step that a worker runs, or "" if there is none, or it is not
// known.
func queueOf(def *workflow.Definition, j *pawl.Job, ord pawl.Ord) string {
	if def == nil || ord.Node() > len(def.Nodes) {
		return ""
	}
	n := def.Node(ord.Node())
	if n.Kind.Waits() || n.Fans() && ord.Instance() == 0 {
		return ""
	}
	if j.Private != 0 {
		return workflow.DefaultQueue
	}
	return cmp.Or(n.Queue, workflow.DefaultQueue)
}
