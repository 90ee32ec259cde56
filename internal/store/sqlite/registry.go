package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

func (c *columns) version() *pawl.Version {
	v := &pawl.Version{Workspace: c.text(), Name: c.text()}
	v.Version, v.Definition, v.Dir = int(c.int()), rowkey.Definition(c.int()), c.text()
	v.At, v.Actor, v.Reason = c.int(), c.text(), c.text()
	return v
}

// names reads the newest versions of registered workflows.
func (r *reading) names(q *store.Query) error {
	for _, n := range q.Names {
		err := r.c.each(selectNewestVersion, func(b *row) { b.workflowName(n) }, func(c *columns) error {
			r.f.Versions[n] = c.version()
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *row) workflowName(n pawl.WorkflowName) {
	r.text(n.Workspace)
	r.text(n.Name)
}

func writeVersions(c *conn, _ *store.Facts, ch *store.Changes) error {
	for _, v := range ch.Versions {
		err := c.run(insertVersion, func(r *row) {
			r.text(v.Workspace)
			r.text(v.Name)
			r.ints(int64(v.Version), int64(v.Definition))
			r.text(v.Dir)
			r.int(v.At)
			r.text(v.Actor)
			r.text(v.Reason)
		})
		if err != nil {
			return inserted(err, "version", fmt.Sprintf("%d of workflow %s in workspace %s", v.Version, v.Name, v.Workspace))
		}
	}
	return nil
}

// Registered reads the versions of a workflow, newest first.
func (db *DB) Registered(ctx context.Context, n pawl.WorkflowName, below, limit int) ([]*pawl.Version, error) {
	return db.versions(ctx, selectVersions, limit, func(b *row) {
		b.workflowName(n)
		b.ints(int64(cmp.Or(below, math.MaxInt32)), bound(limit))
	})
}

// Workflows reads the newest version of each workflow, by name; of all workspaces if the
// workspace is empty.
func (db *DB) Workflows(ctx context.Context, workspace string, after pawl.WorkflowName, limit int) ([]*pawl.Version, error) {
	return db.versions(ctx, selectNewestVersions, limit, func(b *row) { b.behind(workspace, after, limit) })
}

// behind binds the parameters of a list by name: the workspace, the name after which it
// begins, and the limit.
func (r *row) behind(workspace string, after pawl.WorkflowName, limit int) {
	r.text(workspace)
	r.text(after.Name)
	r.text(after.Workspace)
	r.int(bound(limit))
}

func (db *DB) versions(ctx context.Context, s statement, limit int, bind func(*row)) (versions []*pawl.Version, err error) {
	err = db.read(ctx, "list versions", func(c *conn) error {
		return c.page(s, limit, bind, func(cols *columns) int {
			v := cols.version()
			versions = append(versions, v)
			return len(v.Workspace) + len(v.Name) + len(v.Dir) + len(v.Actor) + len(v.Reason)
		})
	})
	return versions, err
}

// RegisteredVersion reads a version of a workflow; 0 is the newest.
func (db *DB) RegisteredVersion(ctx context.Context, n pawl.WorkflowName, version int) (*pawl.Version, error) {
	var found *pawl.Version
	s := selectVersion
	if version == 0 {
		s = selectNewestVersion
	}
	err := db.read(ctx, "read version", func(c *conn) error {
		return c.each(s, func(b *row) {
			b.workflowName(n)
			if version != 0 {
				b.int(int64(version))
			}
		}, func(cols *columns) error {
			found = cols.version()
			return nil
		})
	})
	if err == nil && found == nil {
		err = fmt.Errorf("version %d of workflow %s in workspace %s: %w", version, n.Name, n.Workspace, store.ErrNotFound)
	}
	return found, err
}
