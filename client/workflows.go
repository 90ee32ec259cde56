package client

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/workflow"
)

// Workflows registers workflows by name. Their versions never change.
type Workflows struct{ base }

// Register makes a definition the next version of the workflow with its name. If it is
// the newest version already, nothing changes, and made is false. The folder is that of
// its file, in which child jobs of "pawl run" start commands; it may be empty.
func (s *Workflows) Register(ctx context.Context, def *workflow.Definition, folder string, c pawl.Change) (v *pawl.Version, made bool, err error) {
	return s.engine.RegisterWorkflow(ctx, s.config.Workspace, def.Canonical(), folder, s.by(c))
}

// Get returns a version of a workflow by its reference, NAME or NAME@VERSION.
func (s *Workflows) Get(ctx context.Context, reference string) (*pawl.Version, *workflow.Definition, error) {
	name, version, err := workflow.ParseReference(reference)
	if err != nil {
		return nil, nil, err
	}
	return s.engine.Lookup(ctx, pawl.WorkflowName{Workspace: s.config.Workspace, Name: name}, version)
}

// List calls f with the newest version of each workflow, by name. It ends with the first
// error of f.
func (s *Workflows) List(ctx context.Context, f func(*pawl.Version) error) error {
	return s.engine.Workflows(ctx, s.config.Workspace, f)
}

// Versions calls f with the versions of a workflow, newest first, likewise.
func (s *Workflows) Versions(ctx context.Context, name string, f func(*pawl.Version) error) error {
	return s.engine.Versions(ctx, pawl.WorkflowName{Workspace: s.config.Workspace, Name: name}, f)
}

// PlanMoves returns what a definition, which is or will be a version of a workflow,
// means for the unfinished jobs of that workflow: newest first, at most 1,000. It
// changes nothing.
func (s *Workflows) PlanMoves(ctx context.Context, def *workflow.Definition) (*workflow.MovePlans, error) {
	return s.engine.PlanMoves(ctx, s.config.Workspace, def.Canonical())
}

// Move moves an unfinished job to another version of its workflow, from 1 on. A dry run
// changes nothing and returns the same. If the job cannot move, the error is of
// kind Conflict and wraps decide.Obstacles.
func (s *Workflows) Move(ctx context.Context, job pawl.ID, version int, dryRun bool, c pawl.Change) (*workflow.Moved, error) {
	return s.engine.MoveJob(ctx, job, version, dryRun, s.by(c))
}
