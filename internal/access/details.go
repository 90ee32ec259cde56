package access

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/explain"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/store"
)

// Details are reads of an engine beside those of link.Engine: what pages show of one job. See
// explain.Reader.
type Details interface {
	PastSteps(ctx context.Context, id pawl.ID, at pawl.Moment, q pawl.StepQuery) (steps []pawl.StepView, next string, err error)
	Grid(ctx context.Context, id pawl.ID, node string, at pawl.Moment) (*explain.Grid, error)
	Timeline(ctx context.Context, id pawl.ID, step string, at pawl.Moment) (*explain.Timeline, error)
	Moments(ctx context.Context, id pawl.ID, buckets int) (*explain.Moments, error)
	Choose(ctx context.Context, q pawl.JobQuery, most int) (chosen []explain.Chosen, next string, err error)

	// Remember returns what a request of an actor has made, and whether it was made before: with
	// a request id, the first result is stored, for an hour. Another request with that id is
	// refused (J8).
	Remember(ctx context.Context, workspace, endpoint string, c pawl.Change, request any, make func() (json.RawMessage, error)) (made json.RawMessage, again bool, err error)

	// SubmitOnce makes the jobs of a batch in one commit with the response to it, and returns the
	// response that is stored; again reports whether it was stored before, and then makes none (J8).
	// done has the outcomes so far: a submission that has an error is refused already. Submissions
	// that are too many for one commit get an error of kind Unavailable, and are not made.
	SubmitOnce(ctx context.Context, b *link.Batch, subs []pawl.Submission, done []pawl.Submitted) (response []byte, again bool, err error)

	CountApprovals(ctx context.Context, workspace string, most int) (n int, more bool, err error)
	Context(ctx context.Context, step pawl.ID) (*explain.Context, error)
	StepLog(ctx context.Context, step pawl.ID, claim int, after store.LogPlace) ([]pawl.Chunk, error)
	CheckRetry(ctx context.Context, id pawl.ID, r pawl.Retry) (*explain.RetryPlan, error)
	Processes(ctx context.Context) ([]*pawl.Node, error)
	Rates(ctx context.Context, workspaces []string, span time.Duration) (*explain.Rates, error)
	Attempts(ctx context.Context, step pawl.ID) (all []explain.Attempt, omitted int, err error)
}

var _ Details = (*Engine)(nil)

func (e *Engine) PastSteps(ctx context.Context, id pawl.ID, at pawl.Moment, q pawl.StepQuery) ([]pawl.StepView, string, error) {
	if err := e.job(ctx, id); err != nil {
		return nil, "", err
	}
	return e.of.PastSteps(ctx, id, at, q)
}

func (e *Engine) Grid(ctx context.Context, id pawl.ID, node string, at pawl.Moment) (*explain.Grid, error) {
	return when(e.job(ctx, id), func() (*explain.Grid, error) { return e.of.Grid(ctx, id, node, at) })
}

func (e *Engine) Timeline(ctx context.Context, id pawl.ID, step string, at pawl.Moment) (*explain.Timeline, error) {
	return when(e.job(ctx, id), func() (*explain.Timeline, error) { return e.of.Timeline(ctx, id, step, at) })
}

func (e *Engine) Moments(ctx context.Context, id pawl.ID, buckets int) (*explain.Moments, error) {
	return when(e.job(ctx, id), func() (*explain.Moments, error) { return e.of.Moments(ctx, id, buckets) })
}

// Choose looks at one workspace: the named one, or the default one.
func (e *Engine) Choose(ctx context.Context, q pawl.JobQuery, most int) ([]explain.Chosen, string, error) {
	if err := in(ctx, q.Workspace); err != nil {
		return nil, "", err
	}
	q.Workspace = cmp.Or(q.Workspace, pawl.DefaultWorkspace)
	return e.of.Choose(ctx, q, most)
}

func (e *Engine) Remember(ctx context.Context, workspace, endpoint string, c pawl.Change, request any, make func() (json.RawMessage, error)) (json.RawMessage, bool, error) {
	if err := in(ctx, workspace); err != nil {
		return nil, false, err
	}
	return e.of.Remember(ctx, workspace, endpoint, c, request, make)
}

// SubmitOnce refuses the submissions to workspaces that the principal does not see, each by itself.
func (e *Engine) SubmitOnce(ctx context.Context, b *link.Batch, subs []pawl.Submission, done []pawl.Submitted) (response []byte, again bool, err error) {
	if err := in(ctx, b.Workspace); err != nil {
		return nil, false, err
	}
	for i := range subs {
		if done[i].Err == nil {
			done[i].Err = in(ctx, subs[i].Workspace)
		}
	}
	return e.of.SubmitOnce(ctx, b, subs, done)
}

// CountApprovals adds those of the principal's workspaces.
func (e *Engine) CountApprovals(ctx context.Context, workspace string, most int) (n int, more bool, err error) {
	workspaces, err := within(ctx, workspace)
	for _, w := range workspaces {
		found, others, err := e.of.CountApprovals(ctx, w, most-n)
		if err != nil {
			return 0, false, err
		}
		n, more = n+found, more || others
	}
	return n, more, err
}

func (e *Engine) Context(ctx context.Context, step pawl.ID) (*explain.Context, error) {
	if _, _, _, err := e.Step(ctx, step); err != nil {
		return nil, err
	}
	return e.of.Context(ctx, step)
}

func (e *Engine) StepLog(ctx context.Context, step pawl.ID, claim int, after store.LogPlace) ([]pawl.Chunk, error) {
	if _, _, _, err := e.Step(ctx, step); err != nil {
		return nil, err
	}
	return e.of.StepLog(ctx, step, claim, after)
}

func (e *Engine) CheckRetry(ctx context.Context, id pawl.ID, r pawl.Retry) (*explain.RetryPlan, error) {
	return when(e.job(ctx, id), func() (*explain.RetryPlan, error) { return e.of.CheckRetry(ctx, id, r) })
}

func (e *Engine) Processes(ctx context.Context) ([]*pawl.Node, error) {
	return when(everywhere(ctx), func() ([]*pawl.Node, error) { return e.of.Processes(ctx) })
}

func (e *Engine) Rates(ctx context.Context, workspaces []string, span time.Duration) (*explain.Rates, error) {
	var mine []string
	for _, named := range workspaces {
		some, err := within(ctx, named)
		if err != nil {
			return nil, err
		}
		mine = append(mine, some...)
	}
	return e.of.Rates(ctx, mine, span)
}

func (e *Engine) Attempts(ctx context.Context, step pawl.ID) ([]explain.Attempt, int, error) {
	if _, _, _, err := e.Step(ctx, step); err != nil {
		return nil, 0, err
	}
	return e.of.Attempts(ctx, step)
}
