package postgres

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// The statements of WholeJob. They are sent together, in a transaction that sees one moment.
var (
	beginWhole = &statement{"begin_whole", "begin isolation level repeatable read read only"}
	wholeJob   = &statement{"whole_job", "select " + jobWhole + ", seq + coalesce((select sum(seq) from step where job = $1::bigint), 0)::bigint from job where id = $1::bigint"}
	wholeCount = &statement{"whole_count", countSteps}
	wholeKin   = &statement{"whole_kin", "select " + names("", jobTable.plain) + fmt.Sprintf(" from job where parent = $1 and parent <> 0 order by id desc limit %d", store.MaxChildren)}
	wholeSteps = &statement{"whole_steps", stepTable.page("ord", "select * from step where job = $1 and "+jobThere, store.ListPage)}
	wholeTrail = &statement{"whole_trail", "select " + names("", trailColumns) + fmt.Sprintf(" from audit where job = $1 and ord = 0 order by seq limit %d", store.ListPage)}
)

// WholeJob reads a job with what belongs to it in one round trip; see store.Views.
func (db *DB) WholeJob(ctx context.Context, key rowkey.Job) (w *store.WholeJob, err error) {
	err = db.again(ctx, func() (bool, error) {
		w, err = db.wholeJob(ctx, key)
		return false, err
	})
	return w, err
}

func (db *DB) wholeJob(ctx context.Context, key rowkey.Job) (*store.WholeJob, error) {
	conn, err := db.lookups.Acquire(ctx)
	if err != nil {
		return nil, connectError(err)
	}
	defer conn.Release()
	w, there := &store.WholeJob{Counts: map[machine.State]int{}}, false
	page := &store.TrailPage{Limit: store.ListPage}
	p, id := db.pipe(conn), num(int64(key))
	p.add(beginWhole, nil)
	p.add(wholeJob, func(c *cursor) {
		there = true
		j, sum := jobTable.readWhole(c), c.num()
		if c.err == nil {
			w.Job, w.Sequence = j, sum
		}
	}, id)
	p.add(wholeCount, func(c *cursor) { w.Counts[machine.State(c.word())] = c.int() }, id)
	p.add(wholeKin, func(c *cursor) {
		if j := jobTable.read(c); c.err == nil {
			w.Children = append(w.Children, j)
		}
	}, id)
	p.add(wholeSteps, stepInto(func(s *pawl.Step) { w.Steps = append(w.Steps, s) }), id)
	p.add(wholeTrail, func(c *cursor) {
		if c.num(); !page.Full() { // the job, by which a damaged row is named
			c.entries(func(ord pawl.Ord, e audit.Entry) {
				if ord == 0 {
					page.Add(e)
				}
			})
		}
	}, id)
	p.add(commit, nil)
	if err := p.run(ctx); err != nil {
		return nil, queryError("read a job", err)
	}
	switch {
	case w.Job != nil:
		w.Entries = page.Entries(w.Job.ID.Public(pawl.JobPrefix))
		return w, nil
	case there:
		return nil, store.Damaged(lifecycle.Job.Name, key)
	}
	return nil, store.ErrNotFound
}
