package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// RetryJob makes a job that continues one that FAILED or was CANCELED, and returns its
// receipt. The new job has the same definition, reuses the results of complete steps and of
// complete instances of fan-outs, and runs everything else again. A COMPLETED job is run
// again only From a step. The same retry with the same request id returns the existing job
// (J8).
func (e *Engine) RetryJob(ctx context.Context, id pawl.ID, r pawl.Retry, c pawl.Change) (pawl.Receipt, error) {
	if err := checkChange(c); err != nil {
		return pawl.Receipt{}, err
	}
	old, err := store.FindJob(ctx, e.store, id)
	if err != nil {
		return pawl.Receipt{}, err
	}
	again, err := e.newRequest(c, old.Workspace, "POST /api/jobs/{id}/retry", id, r)
	if err != nil {
		return pawl.Receipt{}, err
	}
	p := &retry{e: e, old: old, change: c, private: r.Private}
	if known, done, err := again.earlier(ctx); done || err != nil {
		return known, err
	}
	if err := p.prepare(ctx, &r); err != nil {
		return e.refuseAction(ctx, again, err)
	}
	return e.act(ctx, again, p, c)
}

type retry struct {
	e       *Engine
	old     *pawl.Job
	def     *workflow.Definition
	change  pawl.Change
	private bool
	id      pawl.ID
	inputs  json.RawMessage
	from    []string
	key     string
	adopted map[int]json.RawMessage // by node
	preset  map[int]json.RawMessage
}

func (p *retry) prepare(ctx context.Context, r *pawl.Retry) (err error) {
	if p.def, err = p.e.defs.Get(ctx, p.old.Definition); err != nil {
		return err
	}
	if err := p.allowed(r); err != nil {
		return err
	}
	by, err := p.e.withheld(ctx, p.old)
	if err != nil {
		return err
	}
	if by.Job() {
		return p.refused("was redacted: its inputs are gone, which a new job needs", "submit the workflow anew")
	}
	if p.inputs, err = p.bind(r.Set); err != nil {
		return err
	}
	if p.key, err = concurrencyKey(p.def, p.inputs); err != nil {
		return err
	}
	if err := p.results(r); err != nil {
		return err
	}
	p.renew()
	return p.reuse(ctx, by)
}

func (p *retry) renew() { p.id = p.e.NewID() }

func (p *retry) allowed(r *pawl.Retry) error {
	switch p.old.State {
	case lifecycle.JobFailed, lifecycle.JobCanceled:
		return nil
	case lifecycle.JobCompleted:
		if len(r.From) > 0 {
			return nil
		}
		return p.refused("is COMPLETED: there is nothing left to run", "run a part of it again with --from STEP")
	}
	return p.refused("is "+string(p.old.State)+": only a job that has ended can be retried", "retry one of its steps with: pawl step retry "+p.old.ID.Public(pawl.JobPrefix)+" STEP")
}

// refused returns the error of a job that cannot be retried.
func (p *retry) refused(why, hint string) error {
	id := p.old.ID.Public(pawl.JobPrefix)
	return &pawl.Error{Kind: pawl.Conflict, Entity: id, Message: "job " + id + " " + why, Hint: hint}
}

// bind returns the inputs of the old job with the changes in set.
func (p *retry) bind(set map[string]any) (json.RawMessage, error) {
	if len(set) == 0 {
		return p.old.Inputs, nil
	}
	given := make(map[string]any)
	d := json.NewDecoder(bytes.NewReader(p.old.Inputs))
	d.UseNumber()
	if err := d.Decode(&given); err != nil {
		return nil, err
	}
	maps.Copy(given, set)
	return p.def.BindInputs(given)
}

// results checks the steps that r names.
func (p *retry) results(r *pawl.Retry) error {
	p.preset = make(map[int]json.RawMessage)
	for _, id := range r.From {
		if n := p.def.NodeByID(id); n == 0 || p.def.Node(n).Hook != workflow.NoHook {
			return p.noStep(id)
		}
	}
	p.from = slices.Clone(r.From)
	for id, output := range r.Resolve {
		n := p.def.NodeByID(id)
		if n == 0 || p.def.Node(n).Hook != workflow.NoHook {
			return p.noStep(id)
		}
		data, err := checkData("output of "+id, output)
		if err != nil {
			return err
		}
		p.preset[n] = data
		p.from = append(p.from, id) // its dependents used another result
	}
	slices.Sort(p.from)
	p.from = slices.Compact(p.from)
	return nil
}

func (p *retry) noStep(id string) error {
	var ids []string
	for i := range p.def.Nodes {
		if p.def.Nodes[i].Hook == workflow.NoHook {
			ids = append(ids, p.def.Nodes[i].ID)
		}
	}
	return pawl.Errorf(pawl.NotFound, "workflow %s has no step %q: want one of %s", p.def.Name, id, strings.Join(ids, ", "))
}

// reuse reads the results that the new job takes over.
func (p *retry) reuse(ctx context.Context, by *audit.Withheld) error {
	again := rerun(p.def, origin{Rerun: p.from}.json())
	var keys []pawl.StepKey
	for n := 1; n <= len(p.def.Nodes); n++ {
		if _, settled := p.preset[n]; !settled && !again[n] && p.def.Node(n).Hook == workflow.NoHook {
			keys = append(keys, pawl.StepKey{Job: p.old.Key(), Ord: pawl.MakeOrd(n, 0)})
		}
	}
	bodies, err := p.e.store.Bodies(ctx, keys)
	p.adopted = make(map[int]json.RawMessage)
	for k, b := range bodies {
		taken := b.State == lifecycle.StepComplete || b.State == lifecycle.StepResolvedManually
		if node := p.def.Node(k.Ord.Node()); by.Step(int64(k.Ord)) && (taken || node.Fans() && b.State != lifecycle.StepSkipped) { // for a fan-out, its instances
			return p.gone(node.ID)
		}
		if taken {
			p.adopted[k.Ord.Node()] = decide.OrNull(b.Output)
		}
	}
	return err
}

// gone returns the refusal to reuse the result of a redacted step.
func (p *retry) gone(step string) error {
	id := p.old.ID.Public(pawl.JobPrefix)
	return &pawl.Error{Kind: pawl.Conflict, Entity: id, Message: "step " + step + " of job " + id + " was redacted: its result is gone, which a new job would take over",
		Hint: "run it again with --from " + step + ", or give its output with --resolve " + step + "=JSON"}
}

func (p *retry) weight() int {
	bytes := 0
	for _, out := range p.adopted {
		bytes += len(out)
	}
	return 1 + len(p.inputs)/heavyBytes + len(p.def.Nodes)/heavyRows + bytes/heavyBytes
}

func (p *retry) subject() store.EntityKey { return store.JobEntity(p.id.JobKey()) }

// The old job is locked, so that retention does not remove it meanwhile.
func (p *retry) query(q *store.Query) { q.Jobs = append(q.Jobs, p.old.Key()) }

func (p *retry) decide(t *tx) error {
	switch old := t.job(p.old.Key()); {
	case old == nil:
		id := p.old.ID.Public(pawl.JobPrefix)
		return &pawl.Error{Kind: pawl.NotFound, Entity: id, Message: "job " + id + " was removed"}
	case old.Seq != p.old.Seq:
		return &passing{p.refused("was redacted at this moment", "try again")}
	}
	private := rowkey.Job(0)
	if p.private {
		private = p.id.JobKey()
	}
	err := p.e.createJob(t, &creation{
		id: p.id, def: p.def, workspace: p.old.Workspace, version: p.old.Version, inputs: p.inputs, description: p.old.Description,
		metadata: p.metadata(), workers: p.workers(), private: private, priority: p.old.Priority,
		continues: p.old.Key(), key: p.key,
		note: decide.Note{Actor: p.change.Actor, Reason: p.change.Reason, RequestID: p.change.RequestID,
			Metadata: []byte(`{"continues":"` + p.old.ID.Public(pawl.JobPrefix) + `"}`)},
	})
	if err != nil {
		return err
	}
	d := p.e.decisionBy(t, p.id.JobKey(), p.def, decide.Answers{})
	for n := 1; n <= len(p.def.Nodes); n++ {
		s, err := d.JobTx.Step(pawl.MakeOrd(n, 0))
		if err == nil {
			err = p.settle(d, s, n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *retry) settle(d *decide.Decision, s *pawl.Step, n int) error {
	if output, ok := p.preset[n]; ok {
		return d.Preset(s, output, noteOf(p.change))
	}
	if output, ok := p.adopted[n]; ok {
		return d.Adopt(s, output)
	}
	return nil
}

// metadata returns that of the new job: what its submitter has given stays.
func (p *retry) metadata() json.RawMessage {
	o, err := originOf(p.old.Metadata)
	if err != nil {
		o = origin{}
	}
	o.Rerun = p.from
	return o.json()
}

// workers returns the number of workers that the old job was submitted with, or 0.
func (p *retry) workers() int {
	if p.old.Quota != 0 || p.old.WorkerCount == p.def.Workers {
		return 0
	}
	return p.old.WorkerCount
}
