package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

var (
	readPauses = &statement{"read_pauses", `with k as (
  select unnest($1::bigint[]) as id
  union
  select p.id from (select unnest($2::text[]) as workspace, unnest($3::text[]) as queue) u join queue_pause p
    on p.workspace = u.workspace and p.queue = u.queue and p.state = 'paused'
)
select ` + names("p", pauseTable.whole) + ` from (select id from k order by id) k cross join lateral
  (select * from queue_pause where queue_pause.id = k.id for update) p`}
	newPauses = &statement{"new_pauses", insert("queue_pause", pauseTable.fresh, "")}
	setPauses = &statement{"set_pauses", update(pauseTable)}
)

func (r *reading) queuePauses(p *pipe) {
	if len(r.q.Pauses)+len(r.q.Paused) == 0 {
		return
	}
	workspaces, queues := make([]string, len(r.q.Paused)), make([]string, len(r.q.Paused))
	for i, n := range r.q.Paused {
		workspaces[i], queues[i] = n.Workspace, n.Name
	}
	p.add(readPauses, r.pause, nums(r.q.Pauses), texts(workspaces), texts(queues))
}

// pause reads a row. It omits a pause that was found by its queue and ended while this
// transaction waited for its lock.
func (r *reading) pause(c *cursor) {
	p := pauseTable.readWhole(c)
	if c.err != nil || p.State != lifecycle.QueuePaused && !slices.Contains(r.q.Pauses, p.Key()) {
		return
	}
	r.Pauses[p.Key()] = p
}

func (w *writing) pauses(ch *store.Changes) {
	made, err := pauseTable.rowsOf(ch.NewPauses)
	w.check(err)
	w.insert(newPauses, made)
	change(w, setPauses, pauseTable, ch.Pauses)
}

// Pauses lists pauses of queues, newest first.
func (db *DB) Pauses(ctx context.Context, f store.PauseFilter) (list []*pawl.QueuePause, err error) {
	var w where
	if f.Workspace != "" {
		w.add("workspace = $%d", storable(f.Workspace))
	}
	if f.Queue != "" {
		w.add("queue = $%d", storable(f.Queue))
	}
	if f.Lasting {
		w.list = append(w.list, "state = 'paused'")
	}
	if f.Before != 0 {
		w.add("id < $%d", int64(f.Before))
	}
	sql := "select " + names("", pauseTable.whole) + " from queue_pause" + w.String() + " order by id desc"
	if f.Limit > 0 {
		sql += fmt.Sprintf(" limit %d", f.Limit)
	}
	err = db.query(ctx, "read pauses of queues", sql, func(c *cursor) {
		if p := pauseTable.readWhole(c); c.err == nil {
			list = append(list, p)
		}
	}, w.args...)
	return list, err
}
