package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// Job reads a job with its bodies.
func (db *DB) Job(ctx context.Context, key rowkey.Job) (*pawl.Job, error) {
	var job *pawl.Job
	err := db.read(ctx, "read job", func(c *conn) (err error) {
		job, err = db.jobIn(c, key)
		return err
	})
	return found(job, err, "job", key)
}

// jobIn returns nil if there is no such job.
func (db *DB) jobIn(c *conn, key rowkey.Job) (job *pawl.Job, err error) {
	err = c.each(selectJobAll, func(b *row) { b.int(int64(key)) }, func(cols *columns) error {
		if job = db.fullJob(cols); job == nil {
			return store.Damaged(lifecycle.Job.Name, key)
		}
		return nil
	})
	return job, err
}

// fullJob reads a job with its bodies, or returns nil if it cannot be decoded.
func (db *DB) fullJob(c *columns) *pawl.Job {
	j := jobTable.readWhole(c)
	if !decoded(db.log, c, lifecycle.Job.Name, j.Key()) {
		return nil
	}
	return j
}

// found returns r, or ErrNotFound if there is none.
func found[R any, K ~int64](r *R, err error, kind string, key K) (*R, error) {
	if err == nil && r == nil {
		err = fmt.Errorf("%s %d: %w", kind, key, store.ErrNotFound)
	}
	return r, err
}

// Jobs lists jobs with their bodies, newest first.
func (db *DB) Jobs(ctx context.Context, f store.JobFilter) ([]*pawl.Job, error) {
	var jobs []*pawl.Job
	err := db.read(ctx, "list jobs", func(c *conn) (err error) {
		jobs, err = db.jobsIn(c, f)
		return err
	})
	return jobs, err
}

func (db *DB) jobsIn(c *conn, f store.JobFilter) (jobs []*pawl.Job, err error) {
	text, bind := jobsQuery(f)
	s, _, err := c.PrepareTransient(text)
	if err != nil {
		return nil, err
	}
	defer s.Finalize()
	p := newPrepared(s)
	p.bind(bind)
	if f.Bare {
		err = p.rows(func(cols *columns) error {
			if j := jobTable.readPlain(cols); decoded(db.log, cols, lifecycle.Job.Name, j.Key()) {
				jobs = append(jobs, j)
			}
			return nil
		})
		return jobs, err
	}
	page := page[pawl.Job]{of: jobTable.bodies, at: len(jobTable.read), limit: f.Limit}
	err = page.end(p.rows(func(cols *columns) error {
		if j := db.fullJob(cols); j != nil {
			jobs = append(jobs, j)
		}
		return page.add(cols)
	}))
	return jobs, err
}

// jobsQuery returns the query of a filter, and a function that binds its values. The text
// contains the states: only then can the index of open jobs be used.
func jobsQuery(f store.JobFilter) (text string, bind func(*row)) {
	var w where
	w.keys(f)
	w.records(f)
	w.and(openOnly(f), jobsOpen)
	if f.Keys != nil {
		w.add("id IN ("+strings.TrimSuffix(strings.Repeat("?, ", len(f.Keys)), ", ")+")", bigints(f.Keys)...)
	}
	columns := jobWhole
	if f.Bare {
		columns = jobHot
	}
	text = "SELECT " + columns + " FROM job WHERE " + w.String() + " ORDER BY id DESC LIMIT ?"
	return text, binding(append(w.values, bound(f.Limit)))
}

// A where collects conditions and the values of their parameters, in this order.
type where struct {
	list   []string
	values []any
}

func (w *where) add(condition string, v ...any) {
	w.list, w.values = append(w.list, condition), append(w.values, v...)
}

func (w *where) and(wanted bool, condition string, v ...any) {
	if wanted {
		w.add(condition, v...)
	}
}

func (w *where) String() string {
	if len(w.list) == 0 {
		return "TRUE"
	}
	return strings.Join(w.list, " AND ")
}

// keys adds the conditions of a filter that an index of jobs satisfies.
func (w *where) keys(f store.JobFilter) {
	w.add("id < ?", int64(cmp.Or(f.Before, math.MaxInt64)))
	w.and(f.From != 0, "id >= ?", int64(f.From))
	w.and(f.Parent != 0, "parent <> 0 AND parent = ?", int64(f.Parent))
	w.and(f.Continues != 0, "continues <> 0 AND continues = ?", int64(f.Continues))
}

// records adds the conditions of a filter that the records of jobs have to satisfy.
func (w *where) records(f store.JobFilter) {
	w.and(len(f.States) > 0 && !f.TimedOut, "("+anyOf(lifecycle.Job, f.States)+")")
	w.and(f.TimedOut, "("+anyOf(lifecycle.Job, f.States)+" OR "+store.TimedOut+")")
	w.and(f.Workspace != "", "workspace = ?", f.Workspace)
	w.and(f.Workflow != "", "workflow = ?", f.Workflow)
	w.and(f.Definition != 0, "definition = ?", int64(f.Definition))
	if f.Depth != nil {
		w.add("depth = ?", int64(*f.Depth))
	}
	w.and(f.MadeFrom != 0, "created_at >= ?", f.MadeFrom)
	w.and(f.MadeBefore != 0, "created_at < ?", f.MadeBefore)
	w.and(f.Schedule != 0, "schedule = ?", int64(f.Schedule))
	w.and(f.Text != "", "instr(lower(workflow || char(10) || description), lower(?)) > 0", f.Text)
	w.and(f.Still != 0, "updated_at < ? AND NOT EXISTS (SELECT 1 FROM step WHERE step.job = job.id AND step.updated_at >= ?)", f.Still, f.Still)
}

// metadata adds a condition that all jobs satisfy that have the metadata of a filter; see
// store.JobFilter.MetadataPairs.
func (w *where) metadata(f store.JobFilter) {
	for _, pairs := range f.MetadataPairs() {
		found := `instr(metadata, '\') > 0`
		var values []any
		for _, p := range pairs {
			found += " OR instr(metadata, ?) > 0"
			values = append(values, p)
		}
		w.add("("+found+")", values...)
	}
}

// openOnly reports whether a filter selects only jobs in flight.
func openOnly(f store.JobFilter) bool {
	return len(f.States) > 0 && !f.TimedOut && within(f.States, lifecycle.JobSubmitted, lifecycle.JobPending, lifecycle.JobRunning)
}

func bigints[K ~int64](keys []K) []any {
	list := make([]any, len(keys))
	for i, k := range keys {
		list[i] = int64(k)
	}
	return list
}

func binding(values []any) func(*row) {
	return func(r *row) {
		for _, v := range values {
			r.any(v)
		}
	}
}

// anyOf returns a condition that is true in these states. A name that the machine does not
// have matches no state.
func anyOf(m *machine.Machine, states []machine.State) string {
	terms := make([]string, 0, len(states))
	for _, s := range states {
		if m.Has(s) {
			terms = append(terms, "state = '"+string(s)+"'")
		}
	}
	if len(terms) == 0 {
		return "FALSE"
	}
	return strings.Join(terms, " OR ")
}

func within(states []machine.State, of ...machine.State) bool {
	for _, s := range states {
		inside := false
		for _, o := range of {
			inside = inside || s == o
		}
		if !inside {
			return false
		}
	}
	return true
}

// bound returns a LIMIT; for 0 it returns -1, which is no limit.
func bound(limit int) int64 {
	if limit == 0 {
		return -1
	}
	return int64(limit)
}

// Steps reads steps of a job with their bodies, by ord, those beyond after.
func (db *DB) Steps(ctx context.Context, job rowkey.Job, after pawl.Ord, limit int) ([]*pawl.Step, error) {
	var steps []*pawl.Step
	err := db.read(ctx, "read steps", func(c *conn) (err error) {
		steps, err = db.stepsIn(c, job, after, limit)
		return err
	})
	return steps, err
}

func (db *DB) stepsIn(c *conn, job rowkey.Job, after pawl.Ord, limit int) (steps []*pawl.Step, err error) {
	page := page[pawl.Step]{of: stepTable.bodies, at: len(stepTable.read), limit: limit}
	err = page.end(c.each(selectStepsAll, func(b *row) { b.ints(int64(job), int64(after), bound(limit)) }, func(cols *columns) error {
		s := stepTable.readWhole(cols)
		if decoded(db.log, cols, lifecycle.Step.Name, s.StepKey) {
			steps = append(steps, s)
		}
		return page.add(cols)
	}))
	return steps, err
}

// A page counts the bytes of the bodies read, if it has a limit.
type page[R any] struct {
	of        []*store.Column[R]
	at, limit int // the column of the first body, and the rows
	bytes     int
}

var errPageFull = errors.New("the page is full")

// add counts the bodies of a row, and returns errPageFull if it is the last row of the page:
// the next one is not read.
func (p *page[R]) add(cols *columns) error {
	if p.limit == 0 {
		return nil
	}
	for i := range p.of {
		p.bytes += cols.s.ColumnLen(p.at + i)
	}
	if p.bytes >= store.PageBytes {
		return errPageFull
	}
	return nil
}

// end returns the error of reading a page, if there was one.
func (p *page[R]) end(err error) error {
	if errors.Is(err, errPageFull) {
		return nil
	}
	return err
}

// page passes the rows of a page to f, which returns the size of a row in bytes.
func (c *conn) page(s statement, limit int, bind func(*row), f func(*columns) int) error {
	p := store.Page{Limit: limit}
	err := c.each(s, bind, func(cols *columns) error {
		if p.Add(f(cols)); p.Full() {
			return errPageFull
		}
		return nil
	})
	if errors.Is(err, errPageFull) {
		return nil
	}
	return err
}

// Bodies reads those steps that exist, with their bodies.
func (db *DB) Bodies(ctx context.Context, keys []pawl.StepKey) (map[pawl.StepKey]*pawl.Step, error) {
	steps := make(map[pawl.StepKey]*pawl.Step, len(keys))
	err := db.read(ctx, "read steps", func(c *conn) error {
		for _, k := range keys {
			err := c.each(selectStepBodies, func(b *row) { b.ints(int64(k.Job), int64(k.Ord)) }, func(cols *columns) error {
				s := stepTable.readWhole(cols)
				if decoded(db.log, cols, lifecycle.Step.Name, k) {
					steps[k] = s
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return steps, err
}

// Marked reads the steps of a job marked Attention, without bodies.
func (db *DB) Marked(ctx context.Context, job rowkey.Job) ([]*pawl.Step, error) {
	var steps []*pawl.Step
	err := db.read(ctx, "read marked steps", func(c *conn) error {
		return c.each(selectMarked, func(b *row) { b.ints(int64(job), store.MaxMarked) }, func(cols *columns) error {
			if s := stepTable.readPlain(cols); decoded(db.log, cols, lifecycle.Step.Name, s.StepKey) {
				steps = append(steps, s)
			}
			return nil
		})
	})
	return steps, err
}

// NewestSteps reads times of steps in the order of the primary key; see store.Views.
func (db *DB) NewestSteps(ctx context.Context, limit int) (all []store.StepTimes, err error) {
	err = db.read(ctx, "read times of steps", func(c *conn) error {
		all = nil
		return c.each(selectNewestSteps, func(b *row) { b.int(int64(limit)) }, func(cols *columns) error {
			all = append(all, store.StepTimes{StepKey: cols.stepKey(), State: machine.State(cols.text()), EnqueuedAt: cols.int(), StartedAt: cols.int(), CompletedAt: cols.int()})
			return cols.finish()
		})
	})
	return all, err
}

// StepCounts counts the steps of a job by state.
func (db *DB) StepCounts(ctx context.Context, job rowkey.Job) (map[machine.State]int, error) {
	var counts map[machine.State]int
	err := db.read(ctx, "count steps", func(c *conn) (err error) {
		counts, err = stepCountsIn(c, job)
		return err
	})
	return counts, err
}

func stepCountsIn(c *conn, job rowkey.Job) (map[machine.State]int, error) {
	counts := map[machine.State]int{}
	err := c.each(selectStepCounts, func(b *row) { b.int(int64(job)) }, func(cols *columns) error {
		counts[machine.State(cols.text())] = int(cols.int())
		return nil
	})
	return counts, err
}

// InFlight counts the steps enqueued by route, and in progress by worker.
func (db *DB) InFlight(ctx context.Context) (enqueued map[rowkey.Route]int, running map[rowkey.Worker]int, err error) {
	enqueued, running = map[rowkey.Route]int{}, map[rowkey.Worker]int{}
	err = db.read(ctx, "count steps in flight", func(c *conn) error {
		return c.each(selectInFlight, nil, func(cols *columns) error {
			state, key, n := machine.State(cols.text()), cols.int(), int(cols.int())
			if state == lifecycle.StepInProgress {
				running[rowkey.Worker(key)] = n
			} else {
				enqueued[rowkey.Route(key)] = n
			}
			return nil
		})
	})
	return enqueued, running, err
}

// Worker reads a worker.
func (db *DB) Worker(ctx context.Context, key rowkey.Worker) (*pawl.Worker, error) {
	var worker *pawl.Worker
	err := db.read(ctx, "read worker", func(c *conn) error {
		return c.each(selectWorker, func(b *row) { b.int(int64(key)) }, func(cols *columns) error {
			if w := workerTable.readWhole(cols); decoded(db.log, cols, lifecycle.Worker.Name, key) {
				worker = w
			}
			return nil
		})
	})
	return found(worker, err, lifecycle.Worker.Name, key)
}

// Workers lists the workers, or those in a living state, by key.
func (db *DB) Workers(ctx context.Context, f store.WorkerFilter) ([]*pawl.Worker, error) {
	var workers []*pawl.Worker
	s := selectWorkers
	if f.Living {
		s = selectLivingWorkers
	}
	before := cmp.Or(f.Before, math.MaxInt64)
	err := db.read(ctx, "list workers", func(c *conn) error {
		page := page[pawl.Worker]{of: workerTable.bodies, at: len(workerTable.read), limit: f.Limit}
		return page.end(c.each(s, func(b *row) { b.ints(int64(before), bound(f.Limit)) }, func(cols *columns) error {
			if w := workerTable.readWhole(cols); decoded(db.log, cols, lifecycle.Worker.Name, w.Key()) {
				workers = append(workers, w)
			}
			return page.add(cols)
		}))
	})
	return workers, err
}

// Definition reads a definition.
func (db *DB) Definition(ctx context.Context, key rowkey.Definition) (*pawl.Definition, error) {
	var definition *pawl.Definition
	err := db.read(ctx, "read definition", func(c *conn) error {
		return c.each(selectDefinition, func(b *row) { b.int(int64(key)) }, func(cols *columns) error {
			d := &pawl.Definition{Key: rowkey.Definition(cols.int())}
			cols.fixed(d.Hash[:])
			d.Name, d.Source, d.CreatedAt = cols.text(), cols.blob(), cols.int()
			if decoded(db.log, cols, "definition", key) {
				definition = d
			}
			return nil
		})
	})
	return found(definition, err, "definition", key)
}

// Refusals reads the refused facts of a job, by time.
func (db *DB) Refusals(ctx context.Context, job rowkey.Job, after store.RefusalPlace, limit int) ([]pawl.Refusal, error) {
	var refusals []pawl.Refusal
	err := db.read(ctx, "read refusals", func(c *conn) error {
		return c.page(selectRefusals, limit, func(b *row) { b.ints(int64(job), after.At, after.ID, bound(limit)) }, func(cols *columns) int {
			f := pawl.Refusal{ID: cols.int(), StepKey: pawl.StepKey{Job: rowkey.Job(cols.int()), Ord: pawl.Ord(cols.int())}}
			f.At, f.Claim = cols.int(), int(cols.int())
			f.Event = machine.Event(cols.text())
			f.Actor, f.Why = cols.text(), cols.text()
			f.Data = cols.body()
			refusals = append(refusals, f)
			return len(f.Actor) + len(f.Why) + len(f.Data)
		})
	})
	return refusals, err
}
