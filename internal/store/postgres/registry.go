package postgres

import (
	"cmp"
	"context"
	"math"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// What users have registered: versions of workflows, and quotas.
var (
	readVersions = &statement{"read_versions", "select " + names("v", versionColumns) + ` from
  (select unnest($1::text[]) as workspace, unnest($2::text[]) as name) u cross join lateral
  (select * from registered t where t.workspace = u.workspace and t.name = u.name order by version desc limit 1) v`}
	newVersions = &statement{"new_versions", insert("registered", versionColumns, "")}

	readQuotas = &statement{"read_quotas", "select " + names("v", quotaColumns) + ` from
  (select distinct unnest($1::text[]) as workspace, unnest($2::text[]) as name order by 1, 2) u cross join lateral
  (select * from quota t where t.workspace = u.workspace and t.name = u.name for update) v`}
	setQuotas = &statement{"set_quotas", insert("quota", quotaColumns,
		"on conflict (workspace, name) do update set slots = excluded.slots, at = excluded.at, actor = excluded.actor, reason = excluded.reason")}
	dropQuotas = &statement{"drop_quotas", "delete from quota t using " + found("quota", quotaColumns[:2], quotaColumns[:2], "")}
)

func (c *cursor) version() *pawl.Version {
	return &pawl.Version{
		Workspace: c.text(), Name: c.text(), Version: c.int(), Definition: rowkey.Definition(c.num()), Dir: c.text(), At: c.num(), Actor: c.text(), Reason: c.text(),
	}
}

func (c *cursor) quota() *pawl.Quota {
	return &pawl.Quota{Workspace: c.text(), Name: c.text(), Slots: c.int(), At: c.num(), Actor: c.text(), Reason: c.text()}
}

func (r *reading) queueNames(p *pipe) {
	if len(r.q.Names) == 0 {
		return
	}
	workspaces, names := make([]string, len(r.q.Names)), make([]string, len(r.q.Names))
	for i, n := range r.q.Names {
		workspaces[i], names[i] = n.Workspace, n.Name
	}
	p.add(readVersions, func(c *cursor) {
		if v := c.version(); c.err == nil {
			r.Versions[pawl.WorkflowName{Workspace: v.Workspace, Name: v.Name}] = v
		}
	}, texts(workspaces), texts(names))
}

func (r *reading) queueQuotas(p *pipe) {
	if len(r.q.Limits) == 0 {
		return
	}
	workspaces, names := make([]string, len(r.q.Limits)), make([]string, len(r.q.Limits))
	for i, n := range r.q.Limits {
		workspaces[i], names[i] = n.Workspace, n.Name
	}
	p.add(readQuotas, func(c *cursor) {
		if q := c.quota(); c.err == nil {
			r.Limits[pawl.WorkflowName{Workspace: q.Workspace, Name: q.Name}] = q
		}
	}, texts(workspaces), texts(names))
}

func (w *writing) versions(list []*pawl.Version) {
	r := collect(versionColumns, len(list))
	for _, v := range list {
		r.text(v.Workspace)
		r.text(v.Name)
		r.num(int64(v.Version))
		r.num(int64(v.Definition))
		r.text(v.Dir)
		r.num(v.At)
		r.text(v.Actor)
		r.text(v.Reason)
	}
	w.addRows(newVersions, r)
}

func (w *writing) quotas(list []*pawl.Quota) {
	set, gone := collect(quotaColumns, len(list)), collect(quotaColumns[:2], 0)
	for _, q := range list {
		if q.Slots < 0 {
			gone.text(q.Workspace)
			gone.text(q.Name)
			continue
		}
		set.text(q.Workspace)
		set.text(q.Name)
		set.num(int64(q.Slots))
		set.num(q.At)
		set.text(q.Actor)
		set.text(q.Reason)
	}
	w.addRows(setQuotas, set)
	w.addRows(dropQuotas, gone)
}

// Quotas reads the limits of a workspace, or of all if it is empty, by name.
func (db *DB) Quotas(ctx context.Context, workspace string, after pawl.WorkflowName, limit int) ([]*pawl.Quota, error) {
	var w where
	if workspace != "" {
		w.add("workspace = $%d", storable(workspace))
	}
	w.behind(after.Name, after.Workspace)
	var list []*pawl.Quota
	page := store.Page{Limit: limit}
	err := db.query(ctx, "list quotas", "select "+names("", quotaColumns)+" from quota"+w.String()+byName+limited(limit), func(c *cursor) {
		if page.Full() {
			return
		}
		if q := c.quota(); c.err == nil {
			list = append(list, q)
			page.Add(len(q.Workspace) + len(q.Name) + len(q.Actor) + len(q.Reason))
		}
	}, w.args...)
	return list, err
}

// Registered reads the versions of a workflow, newest first.
func (db *DB) Registered(ctx context.Context, n pawl.WorkflowName, below, limit int) ([]*pawl.Version, error) {
	return db.versions(ctx, limit, "select "+names("", versionColumns)+
		" from registered where workspace = $1 and name = $2 and version < $3 order by version desc"+limited(limit),
		storable(n.Workspace), storable(n.Name), cmp.Or(below, math.MaxInt32))
}

// Workflows reads the newest version of each workflow, by name; of all workspaces if the
// workspace is empty.
func (db *DB) Workflows(ctx context.Context, workspace string, after pawl.WorkflowName, limit int) ([]*pawl.Version, error) {
	w := where{list: []string{"$1 in ('', workspace)"}, args: []any{storable(workspace)}}
	w.behind(after.Name, after.Workspace)
	return db.versions(ctx, limit, "select distinct on ("+nameOrder+") "+names("", versionColumns)+
		" from registered"+w.String()+byName+", version desc"+limited(limit), w.args...)
}

// RegisteredVersion reads a version of a workflow; version 0 is the newest.
func (db *DB) RegisteredVersion(ctx context.Context, n pawl.WorkflowName, version int) (*pawl.Version, error) {
	list, err := db.versions(ctx, 0, "select "+names("", versionColumns)+` from registered
		where workspace = $1 and name = $2 and ($3::int = 0 or version = $3::int) order by version desc limit 1`,
		storable(n.Workspace), storable(n.Name), version)
	if err = missing(err, len(list) == 0); err != nil {
		return nil, err
	}
	return list[0], nil
}

func (db *DB) versions(ctx context.Context, limit int, sql string, args ...any) ([]*pawl.Version, error) {
	var list []*pawl.Version
	page := store.Page{Limit: limit}
	err := db.query(ctx, "read registered workflows", sql, func(c *cursor) {
		if page.Full() {
			return
		}
		if v := c.version(); c.err == nil {
			list = append(list, v)
			page.Add(len(v.Workspace) + len(v.Name) + len(v.Dir) + len(v.Actor) + len(v.Reason))
		}
	}, args...)
	return list, err
}
