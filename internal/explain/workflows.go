package explain

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/workflow"
)

// Lookup returns a version of a registered workflow; 0 is the newest.
func (r *Reader) Lookup(ctx context.Context, n pawl.WorkflowName, version int) (*pawl.Version, *workflow.Definition, error) {
	v, err := r.store.RegisteredVersion(ctx, n, version)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil, r.noWorkflow(ctx, n, version)
	}
	if err != nil {
		return nil, nil, err
	}
	def, err := r.defs.Get(ctx, v.Definition)
	return v, def, err
}

// noWorkflow returns an error that says whether the name or the version is unknown.
func (r *Reader) noWorkflow(ctx context.Context, n pawl.WorkflowName, version int) error {
	if v, err := r.store.RegisteredVersion(ctx, n, 0); err == nil {
		return &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("workflow %s has no version %d: the newest is %d", n.Name, version, v.Version),
			Hint: "list them with: pawl workflow versions " + n.Name}
	}
	return &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("no workflow %q is registered in workspace %s", n.Name, n.Workspace),
		Hint: "register it with: pawl workflow register FILE"}
}

// Workflows calls f with the newest version of each registered workflow of a workspace, by
// name. It reads pages, and ends with the first error of f.
func (r *Reader) Workflows(ctx context.Context, workspace string, f func(*pawl.Version) error) error {
	after := pawl.WorkflowName{}
	read := func() ([]*pawl.Version, error) { return r.store.Workflows(ctx, workspace, after, store.ListPage) }
	return store.EachOf(read, func(v *pawl.Version) error {
		after = pawl.WorkflowName{Workspace: v.Workspace, Name: v.Name}
		return f(v)
	})
}

// Versions calls f with the versions of one workflow, newest first. It reads pages, and
// ends with the first error of f. The error is of kind NotFound if there are none.
func (r *Reader) Versions(ctx context.Context, n pawl.WorkflowName, f func(*pawl.Version) error) error {
	below := 0
	read := func() ([]*pawl.Version, error) {
		if below == 1 {
			return nil, nil
		}
		return r.store.Registered(ctx, n, below, store.ListPage)
	}
	err := store.EachOf(read, func(v *pawl.Version) error {
		below = v.Version
		return f(v)
	})
	if err == nil && below == 0 {
		return r.noWorkflow(ctx, n, 0)
	}
	return err
}
