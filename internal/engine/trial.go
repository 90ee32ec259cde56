package engine

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/explain"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/workflow"
)

// errTried undoes a command that has worked.
var errTried = errors.New("the command works: it was tried, and nothing has changed")

// trialKey is the context key of a trial.
type trialKey struct{}

// Try returns a context in which the commands of operators change nothing: each is decided on
// the present records, and undone. Its error says why it is refused; see Tried.
func Try(ctx context.Context) context.Context { return context.WithValue(ctx, trialKey{}, true) }

func trying(ctx context.Context) bool { return ctx.Value(trialKey{}) != nil }

// Tried returns why a command that was tried is refused, or nil if it works.
func Tried(err error) error {
	if errors.Is(err, errTried) {
		return nil
	}
	return err
}

// A trial is a command that is undone.
type trial struct{ command }

func (t trial) decide(in *tx) error {
	if err := t.command.decide(in); err != nil {
		return err
	}
	return errTried
}

func (t trial) weight() int { return weightOf(t.command) }

func (t trial) renew() {
	if r, ok := t.command.(renewer); ok {
		r.renew()
	}
}

// CheckRetry says what a retry would do, and changes nothing. The error is that of RetryJob.
func (e *Engine) CheckRetry(ctx context.Context, id pawl.ID, r pawl.Retry) (*explain.RetryPlan, error) {
	old, err := store.FindJob(ctx, e.store, id)
	if err != nil {
		return nil, err
	}
	p := &retry{e: e, old: old}
	if err := p.prepare(ctx, &r); err != nil {
		return nil, err
	}
	plan := &explain.RetryPlan{Inputs: p.inputs, Steps: []explain.RetriedStep{}}
	for n := 1; n <= len(p.def.Nodes); n++ {
		node, does := p.def.Node(n), explain.RunsAgain
		_, kept := p.adopted[n]
		_, given := p.preset[n]
		switch {
		case node.Hook != workflow.NoHook:
			continue
		case given:
			does = explain.IsGiven
		case kept:
			does = explain.IsKept
		}
		plan.Steps = append(plan.Steps, explain.RetriedStep{Step: node.ID, Does: does, Fans: node.Fans()})
	}
	return plan, nil
}
