package engine

import (
	"context"

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
	if err := e.execute(ctx, r, cmd, document{&cmd.registered}); err != nil {
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
