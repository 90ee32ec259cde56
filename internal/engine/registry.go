package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/definitions"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/workflow"
)

// RegisterWorkflow makes the definition the next version of the workflow of its name. If
// the newest version already has this definition and dir, nothing changes and made is
// false. dir is the folder of its file, where the commands of a private job's child start.
func (e *Engine) RegisterWorkflow(ctx context.Context, workspace string, canonical []byte, dir string, c pawl.Change) (v *pawl.Version, made bool, err error) {
	if err := checkChange(c); err != nil {
		return nil, false, err
	}
	def, err := e.defs.Load(canonical)
	if err != nil {
		return nil, false, err
	}
	r, err := e.newRequest(c, workspace, "POST /api/workflows", string(canonical), dir)
	if err != nil {
		return nil, false, err
	}
	cmd := &registration{e: e, def: def, dir: dir, change: c, name: pawl.WorkflowName{Workspace: workspace, Name: def.Name}}
	if err := e.committer.one(ctx, r.once(cmd, asJSON(&cmd.registered), fromJSON(&cmd.registered))); err != nil {
		return nil, false, err
	}
	return cmd.Version, cmd.Made, nil
}

type registration struct {
	e      *Engine
	def    *workflow.Definition
	dir    string
	change pawl.Change
	name   pawl.WorkflowName
	registered
}

// registered is the result of a registration.
type registered struct {
	Version *pawl.Version
	Made    bool
}

func (r *registration) query(q *store.Query) { q.Names = append(q.Names, r.name) }

func (r *registration) decide(t *tx) error {
	newest, key := t.newest(r.name), definitions.KeyOf(r.def.Hash())
	if newest != nil && newest.Definition == key && newest.Dir == r.dir {
		r.registered = registered{Version: newest}
		return nil
	}
	r.Version = &pawl.Version{Workspace: r.name.Workspace, Name: r.name.Name, Version: 1, Definition: key, Dir: r.dir,
		At: t.now, Actor: r.change.Actor, Reason: r.change.Reason}
	if newest != nil {
		r.Version.Version = newest.Version + 1
	}
	r.Made = true
	t.versions = append(t.versions, r.Version)
	if !r.e.defs.IsStored(key) {
		t.definitions = append(t.definitions, &pawl.Definition{Key: key, Hash: r.def.Hash(), Name: r.def.Name, Source: r.def.Canonical(), CreatedAt: t.now})
	}
	return nil
}

// Lookup returns a version of a registered workflow; 0 is the newest.
func (e *Engine) Lookup(ctx context.Context, n pawl.WorkflowName, version int) (*pawl.Version, *workflow.Definition, error) {
	v, err := e.store.RegisteredVersion(ctx, n, version)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil, e.noWorkflow(ctx, n, version)
	}
	if err != nil {
		return nil, nil, err
	}
	def, err := e.defs.Get(ctx, v.Definition)
	return v, def, err
}

// noWorkflow returns an error that says whether the name or the version is unknown.
func (e *Engine) noWorkflow(ctx context.Context, n pawl.WorkflowName, version int) error {
	if v, err := e.store.RegisteredVersion(ctx, n, 0); err == nil {
		return &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("workflow %s has no version %d: the newest is %d", n.Name, version, v.Version),
			Hint: "list them with: pawl workflow versions " + n.Name}
	}
	return &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("no workflow %q is registered in workspace %s", n.Name, n.Workspace),
		Hint: "register it with: pawl workflow register FILE"}
}

// Workflows calls f with the newest version of each registered workflow of a workspace, by
// name. It reads pages, and ends with the first error of f.
func (e *Engine) Workflows(ctx context.Context, workspace string, f func(*pawl.Version) error) error {
	after := pawl.WorkflowName{}
	read := func() ([]*pawl.Version, error) { return e.store.Workflows(ctx, workspace, after, store.ListPage) }
	return store.EachOf(read, func(v *pawl.Version) error {
		after = pawl.WorkflowName{Workspace: v.Workspace, Name: v.Name}
		return f(v)
	})
}

// Versions calls f with the versions of one workflow, newest first. It reads pages, and
// ends with the first error of f. The error is of kind NotFound if there are none.
func (e *Engine) Versions(ctx context.Context, n pawl.WorkflowName, f func(*pawl.Version) error) error {
	below := 0
	read := func() ([]*pawl.Version, error) {
		if below == 1 {
			return nil, nil
		}
		return e.store.Registered(ctx, n, below, store.ListPage)
	}
	err := store.EachOf(read, func(v *pawl.Version) error {
		below = v.Version
		return f(v)
	})
	if err == nil && below == 0 {
		return e.noWorkflow(ctx, n, 0)
	}
	return err
}
