package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// The lists of columns that views read.
var (
	jobWhole    = names("", jobTable.whole)
	workerWhole = names("", workerTable.whole)
)

// query passes every row of a result to row. A row that cannot be decoded is logged and
// omitted.
func (db *DB) query(ctx context.Context, doing, sql string, row func(*cursor), args ...any) error {
	return db.again(ctx, func() (begun bool, err error) {
		err = db.queryOn(ctx, db.lookups, doing, sql, func(c *cursor) { begun = true; row(c) }, args...)
		return begun, err
	})
}

// again runs f, and once more if a dead connection ended it before it returned any result.
func (db *DB) again(ctx context.Context, f func() (begun bool, err error)) error {
	begun, err := f()
	if err == nil || begun || !severed(err) || ctx.Err() != nil {
		return err
	}
	db.distrust(ctx, err)
	_, err = f()
	return err
}

// A querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func (db *DB) queryOn(ctx context.Context, on querier, doing, sql string, row func(*cursor), args ...any) error {
	rows, err := on.Query(ctx, sql, append([]any{pgx.QueryResultFormats(inBinary)}, args...)...)
	if err != nil {
		return queryError(doing, err)
	}
	defer rows.Close()
	for rows.Next() {
		c := cursor{vals: rows.RawValues()}
		if row(&c); c.err != nil {
			db.log.Error("row left out", "doing", doing, "error", c.err)
		}
	}
	return queryError(doing, rows.Err())
}

// Job reads a job with its bodies.
func (db *DB) Job(ctx context.Context, key rowkey.Job) (*pawl.Job, error) {
	var found *pawl.Job
	there := false
	read := jobInto(func(j *pawl.Job) { found = j })
	err := db.query(ctx, "read a job", "select "+jobWhole+" from job where id = $1", func(c *cursor) { there = true; read(c) }, int64(key))
	if err == nil && there && found == nil {
		return nil, store.Damaged(lifecycle.Job.Name, key)
	}
	return found, missing(err, found == nil)
}

func jobInto(f func(*pawl.Job)) func(*cursor) {
	return func(c *cursor) {
		if j := jobTable.readWhole(c); c.err == nil {
			f(j)
		}
	}
}

// Jobs lists jobs with their bodies, newest first.
func (db *DB) Jobs(ctx context.Context, f store.JobFilter) ([]*pawl.Job, error) {
	var w where
	w.keys(f)
	w.records(f)
	from := "job"
	if openOnly(f) {
		from = openJobs + " job"
	}
	if f.Keys != nil {
		w.add("id = any($%d)", bigints(f.Keys))
	}
	var jobs []*pawl.Job
	if f.Bare {
		sql := "select " + names("", jobTable.plain) + " from " + from + w.String() + " order by id desc" + limited(f.Limit)
		err := db.query(ctx, "list jobs", sql, func(c *cursor) {
			if j := jobTable.read(c); c.err == nil {
				jobs = append(jobs, j)
			}
		}, w.args...)
		return jobs, err
	}
	sql := jobTable.page("id desc", "select * from "+from+w.String(), f.Limit)
	err := db.query(ctx, "list jobs", sql, jobInto(func(j *pawl.Job) { jobs = append(jobs, j) }), w.args...)
	return jobs, err
}

// openOnly reports whether a filter selects only jobs in flight.
func openOnly(f store.JobFilter) bool {
	return len(f.States) > 0 && !f.TimedOut && !slices.ContainsFunc(f.States, lifecycle.Job.Ended)
}

// keys adds the conditions of a filter that an index of jobs satisfies.
func (w *where) keys(f store.JobFilter) {
	if f.Parent != 0 {
		w.add("parent = $%d and parent <> 0", int64(f.Parent))
	}
	if f.Continues != 0 {
		w.add("continues = $%d and continues <> 0", int64(f.Continues))
	}
	if f.From != 0 {
		w.add("id >= $%d", int64(f.From))
	}
	if f.Before != 0 {
		w.add("id < $%d", int64(f.Before))
	}
}

// records adds the conditions of a filter that the records of jobs have to satisfy.
func (w *where) records(f store.JobFilter) {
	if f.TimedOut {
		w.add("(state = any($%d) or "+strings.ReplaceAll(store.TimedOut, "%", "%%")+")", append([]machine.State{}, f.States...))
	} else if len(f.States) > 0 {
		w.add("state = any($%d)", f.States)
	}
	if f.Workspace != "" {
		w.add("workspace = $%d", storable(f.Workspace))
	}
	if f.Workflow != "" {
		w.add("workflow = $%d", storable(f.Workflow))
	}
	if f.Definition != 0 {
		w.add("definition = $%d", int64(f.Definition))
	}
	if f.Depth != nil {
		w.add("depth = $%d", *f.Depth)
	}
	if f.MadeFrom != 0 {
		w.add("created_at >= $%d", f.MadeFrom)
	}
	if f.MadeBefore != 0 {
		w.add("created_at < $%d", f.MadeBefore)
	}
	if f.Schedule != 0 {
		w.add("schedule = $%d", int64(f.Schedule))
	}
	if f.Text != "" {
		w.add(`position(lower($%d collate "C") in lower((workflow || chr(10) || description) collate "C")) > 0`, storable(f.Text))
	}
	if f.Still != 0 {
		w.add("updated_at < $%[1]d and not exists (select from step where step.job = job.id and step.updated_at >= $%[1]d offset 0)", f.Still)
	}
}

// metadata adds a condition that all jobs satisfy that have the metadata of a filter; see
// store.JobFilter.MetadataPairs.
func (w *where) metadata(f store.JobFilter) {
	for _, pairs := range f.MetadataPairs() {
		w.add(`(exists (select from unnest($%d::text[]) pair where position(pair in metadata) > 0) or position('\' in metadata) > 0)`, storables(pairs))
	}
}

func storables(all []string) []string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = storable(s)
	}
	return out
}

// A where collects conditions and their arguments.
type where struct {
	list []string
	args []any
}

// add adds a condition with the number of its argument in place of %d.
func (w *where) add(condition string, arg any) {
	w.args = append(w.args, arg)
	w.list = append(w.list, fmt.Sprintf(condition, len(w.args)))
}

func (w *where) String() string {
	if len(w.list) == 0 {
		return ""
	}
	return " where " + strings.Join(w.list, " and ")
}

// jobThere is for views of the steps of a job: they do not show the rest of a job that
// retention is removing.
const jobThere = "exists (select from job where id = $1)"

// Steps reads steps of a job with their bodies, by ord.
func (db *DB) Steps(ctx context.Context, job rowkey.Job, after pawl.Ord, limit int) ([]*pawl.Step, error) {
	sql := stepTable.page("ord", "select * from step where job = $1 and ord > $2 and "+jobThere, limit)
	var steps []*pawl.Step
	err := db.query(ctx, "read steps", sql, stepInto(func(s *pawl.Step) { steps = append(steps, s) }), int64(job), int64(after))
	return steps, err
}

func limited(limit int) string {
	if limit == 0 {
		return ""
	}
	return fmt.Sprintf(" limit %d", limit)
}

// page returns the query for records with their bodies, or for a page of them: the lengths of
// bodies are known without reading them.
func (t *table[R]) page(order, from string, limit int) string {
	if limit == 0 {
		return fmt.Sprintf("select %s from (%s) t order by %s", names("", t.whole), from, order)
	}
	var bytes []string
	for _, c := range t.bodiesOf {
		bytes = append(bytes, fmt.Sprintf("coalesce(octet_length(%s), 0)", c.Name))
	}
	return fmt.Sprintf(`select %[1]s from (
  select *, sum(%[2]s) over (order by %[3]s rows between unbounded preceding and 1 preceding) as bytes from (%[4]s order by %[3]s%[5]s) t
) t where coalesce(bytes, 0) < %[6]d order by %[3]s`, names("", t.whole), strings.Join(bytes, " + "), order, from, limited(limit), store.PageBytes)
}

func stepInto(f func(*pawl.Step)) func(*cursor) {
	return func(c *cursor) {
		if s := stepTable.readWhole(c); c.err == nil {
			f(s)
		}
	}
}

var readBodies = "select s.job, s.ord, s.state, " + names("s", stepTable.bodies) + `
from (select unnest($1::bigint[]) as job, unnest($2::bigint[]) as ord) u cross join lateral
  (select * from step where step.job = u.job and step.ord = u.ord offset 0) s`

// Bodies reads the state, input, output and error of those steps that exist.
func (db *DB) Bodies(ctx context.Context, keys []pawl.StepKey) (map[pawl.StepKey]*pawl.Step, error) {
	jobs, ords := make([]int64, len(keys)), make([]int64, len(keys))
	for i, k := range keys {
		jobs[i], ords[i] = int64(k.Job), int64(k.Ord)
	}
	found := make(map[pawl.StepKey]*pawl.Step, len(keys))
	err := db.query(ctx, "read results", readBodies, func(c *cursor) {
		s := new(pawl.Step)
		s.Job = rowkey.Job(c.num())
		s.Ord = pawl.Ord(c.num())
		s.State = machine.State(c.word())
		readColumns(c, stepTable.bodiesOf, s)
		if c.err == nil {
			found[s.StepKey] = s
		}
	}, jobs, ords)
	return found, err
}

// Marked reads the steps of a job marked Attention, without bodies.
func (db *DB) Marked(ctx context.Context, job rowkey.Job) ([]*pawl.Step, error) {
	var steps []*pawl.Step
	sql := "select " + names("", stepTable.plain) + fmt.Sprintf(" from step where mark = 1 and job = $1 order by mark_at, ord limit %d", store.MaxMarked)
	err := db.query(ctx, "read marked steps", sql, func(c *cursor) {
		if s := stepTable.read(c); c.err == nil {
			steps = append(steps, s)
		}
	}, int64(job))
	return steps, err
}

const countSteps = "select state, count(*) from step where job = $1 and " + jobThere + " group by state"

// StepCounts counts the steps of a job by state.
func (db *DB) StepCounts(ctx context.Context, job rowkey.Job) (map[machine.State]int, error) {
	counts := map[machine.State]int{}
	err := db.query(ctx, "count steps", countSteps, func(c *cursor) {
		counts[machine.State(c.word())] = c.int()
	}, int64(job))
	return counts, err
}

const newestSteps = "select job, ord, state, enqueued_at, started_at, completed_at from step order by job desc, ord desc limit $1"

// NewestSteps reads times of steps in the order of the primary key; see store.Views.
func (db *DB) NewestSteps(ctx context.Context, limit int) (all []store.StepTimes, err error) {
	err = db.query(ctx, "read times of steps", newestSteps, func(c *cursor) {
		s := store.StepTimes{StepKey: c.stepKey(), State: machine.State(c.word()), EnqueuedAt: c.num(), StartedAt: c.num(), CompletedAt: c.num()}
		if c.err == nil {
			all = append(all, s)
		}
	}, limit)
	return all, err
}

// Each part reads only rows of work in flight.
const inFlightSteps = `select false, route, count(*) from step where line = 1 group by route
union all select true, worker, count(*) from ` + heldSteps + ` h group by worker
union all select true, 0, count(*) from step where line = 2 and worker = 0 having count(*) > 0`

// InFlight counts the steps enqueued by route, and in progress by worker.
func (db *DB) InFlight(ctx context.Context) (enqueued map[rowkey.Route]int, running map[rowkey.Worker]int, err error) {
	enqueued, running = map[rowkey.Route]int{}, map[rowkey.Worker]int{}
	err = db.query(ctx, "count steps in flight", inFlightSteps, func(c *cursor) {
		ofWorker, key, n := c.flag(), c.num(), c.int()
		if ofWorker {
			running[rowkey.Worker(key)] = n
		} else {
			enqueued[rowkey.Route(key)] = n
		}
	})
	return enqueued, running, err
}

// Worker reads a worker.
func (db *DB) Worker(ctx context.Context, key rowkey.Worker) (*pawl.Worker, error) {
	var found *pawl.Worker
	err := db.query(ctx, "read a worker", "select "+workerWhole+" from worker where id = $1", workerInto(func(w *pawl.Worker) { found = w }), int64(key))
	return found, missing(err, found == nil)
}

// Workers lists the workers in a living state, or all, by id.
func (db *DB) Workers(ctx context.Context, f store.WorkerFilter) ([]*pawl.Worker, error) {
	var w where
	if f.Living {
		w.list = append(w.list, livingWorker)
	}
	if f.Before != 0 {
		w.add("id < $%d", int64(f.Before))
	}
	var workers []*pawl.Worker
	err := db.query(ctx, "list workers", workerTable.page("id desc", "select * from worker"+w.String(), f.Limit),
		workerInto(func(w *pawl.Worker) { workers = append(workers, w) }), w.args...)
	return workers, err
}

func workerInto(f func(*pawl.Worker)) func(*cursor) {
	return func(c *cursor) {
		if w := workerTable.readWhole(c); c.err == nil {
			f(w)
		}
	}
}

// Definition reads a definition.
func (db *DB) Definition(ctx context.Context, key rowkey.Definition) (*pawl.Definition, error) {
	var found *pawl.Definition
	err := db.query(ctx, "read a definition", "select "+names("", definitionColumns)+" from definition where id = $1", func(c *cursor) {
		d := &pawl.Definition{Key: rowkey.Definition(c.num())}
		c.fixed(d.Hash[:])
		d.Name = c.text()
		d.Source = c.blob()
		d.CreatedAt = c.num()
		found = d
	}, int64(key))
	return found, missing(err, found == nil)
}

// Refusals reads the refused facts of a job, by time.
func (db *DB) Refusals(ctx context.Context, job rowkey.Job, after store.RefusalPlace, limit int) ([]pawl.Refusal, error) {
	var list []pawl.Refusal
	page := store.Page{Limit: limit}
	sql := "select id, " + names("", refusalColumns) + " from refusal where job = $1 and (at, id) > ($2, $3) order by at, id" + limited(limit)
	err := db.query(ctx, "read refusals", sql, func(c *cursor) {
		if page.Full() {
			return
		}
		var f pawl.Refusal
		f.ID = c.num()
		f.Job = rowkey.Job(c.num())
		f.Ord = pawl.Ord(c.num())
		f.At = c.num()
		f.Claim = c.int()
		f.Event = machine.Event(c.text())
		f.Actor = c.text()
		f.Why = c.text()
		f.Data = c.body()
		if c.err == nil {
			list = append(list, f)
			page.Add(len(f.Actor) + len(f.Why) + len(f.Data))
		}
	}, int64(job), after.At, after.ID)
	return list, err
}

func missing(err error, none bool) error {
	if err == nil && none {
		return store.ErrNotFound
	}
	return err
}
