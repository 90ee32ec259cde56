package engine

import (
	"cmp"
	"encoding/json"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/definitions"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// MaxDepth is the maximum depth of nested jobs (J6).
const MaxDepth = 5

// A creation is a job about to be made by a submission, a step, a schedule, or an operator
// who retries another job.
type creation struct {
	id          pawl.ID
	def         *workflow.Definition
	workspace   string
	version     int
	inputs      json.RawMessage
	description string
	metadata    json.RawMessage
	private     rowkey.Job
	priority    int
	key         string // the concurrency key
	parent      *pawl.Job
	parentStep  pawl.Ord
	workers     int // 0: as the workflow says
	continues   rowkey.Job
	schedule    rowkey.Schedule
	unrouted    bool // an evaluator starts it, not a claim
	note        decide.Note
}

// concurrencyKey evaluates the concurrency key of a job.
func concurrencyKey(def *workflow.Definition, inputs json.RawMessage) (string, error) {
	if def.Concurrency == 0 {
		return "", nil
	}
	return def.EvalConcurrency(&workflow.Scope{Inputs: inputs, Workflow: def.Name})
}

// createJob makes a PENDING job with its steps.
func (e *Engine) createJob(t *tx, b *creation) error {
	job := b.job()
	if err := t.makeJob(job, b.note); err != nil {
		return err
	}
	if !e.defs.IsStored(job.Definition) {
		t.definitions = append(t.definitions, &pawl.Definition{Key: job.Definition, Hash: b.def.Hash(), Name: b.def.Name, Source: b.def.Canonical(), CreatedAt: t.now})
	}
	job.Rank = pawl.RankAt(t.now, job.Priority)
	if err := t.moveJob(job, lifecycle.JobValidate, decide.Note{}); err != nil {
		return err
	}
	for n := range b.def.Nodes {
		s := t.makeStep(job, pawl.MakeOrd(n+1, 0))
		s.Unmet, s.Route = len(b.def.Nodes[n].Needs), decide.Route(b.def, job, n+1) // now, so that its claim changes no index
	}
	return nil
}

// job returns the new job, without the fields that the table sets.
func (b *creation) job() *pawl.Job {
	j := &pawl.Job{
		ID: b.id, Workspace: b.workspace, Definition: definitions.KeyOf(b.def.Hash()), Workflow: b.def.Name, Version: b.version,
		Description: b.description, WorkerCount: cmp.Or(b.workers, b.def.Workers), Private: b.private, Priority: b.priority,
		Continues: b.continues, Schedule: b.schedule,
		Open: len(b.def.Nodes) - len(b.def.Hooks), Inputs: b.inputs, Metadata: b.metadata,
	}
	if b.parent != nil {
		j.Parent, j.ParentStep, j.Depth = b.parent.Key(), b.parentStep, b.parent.Depth+1
	}
	if b.def.Concurrency > 0 {
		j.Pool = concurrencyPool(b.workspace, b.def, b.key)
	}
	if !b.unrouted {
		j.Route = firstRoute(b.def, j)
	}
	return j
}

func concurrencyPool(workspace string, def *workflow.Definition, key string) rowkey.Pool {
	return pawl.PoolKey(workspace, "key", def.Name, key)
}

// firstRoute returns the route that all first steps of the job share, so that a worker that
// serves it may start the job. It returns 0 if there is none: the evaluator then starts the
// job.
func firstRoute(def *workflow.Definition, j *pawl.Job) rowkey.Route {
	if j.Pool != 0 || j.Continues != 0 {
		return 0
	}
	route := rowkey.Route(0)
	for _, n := range def.Roots() {
		r := decide.Route(def, j, n)
		if route != 0 && r != route || def.Node(n).Kind.Waits() {
			return 0
		}
		route = r
	}
	return route
}
