package postgres

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/store"
)

// Most moves change few columns of a record that this very transaction has read.
// They are written by lean statements: only the columns that such moves change,
// and found by the place of the row, without an index. That costs the server
// about half. Every other change goes by key, with all columns.

// A place is where a row was when it was read: its ctid. Whoever changes the row
// moves it, so a place that is outdated finds nothing, or a row of another key or
// version, and the change is stale.
type place [6]byte

var (
	jobLean   = join(recordColumns, lineColumn, columns("bigint mark, text ending, bigint open, bigint blocked, bigint active, bigint started_at, bigint completed_at"))
	jobCounts = columns("bigint open, bigint blocked, bigint active") // which is all that the report of most steps changes
	// Of a step that is enqueued and claimed, and of one that ends.
	stepTaken = join(recordColumns, lineColumn, columns("bigint mark, bigint unmet, bigint attempts, bigint claims, bigint worker, bigint route, bigint rank, bigint enqueued_at, bigint started_at"))
	stepEnded = join(recordColumns, lineColumn, columns("bigint mark, bigint completed_at"))

	stepMoves = join(stepTaken, columns("bigint completed_at"))

	outputColumn = columns("text output")
	jobID        = columns("bigint id")
	stepID       = columns("bigint job, bigint ord")

	moveJobs  = leanly("move_jobs", "job", jobID, jobLean, outputColumn)
	countJobs = leanly("count_jobs", "job", jobID, jobCounts, nil)
	takeSteps = leanly("take_steps", "step", stepID, stepTaken, nil)
	moveSteps = leanly("move_steps", "step", stepID, stepMoves, outputColumn) // both
	endSteps  = leanly("end_steps", "step", stepID, stepEnded, outputColumn)
)

// A lean update has two forms: for rows that the transaction has read and locked, and
// for those that it only knows, which have to be the version that is known still; of
// these, next to none go one by one. The version is compared with the row that is
// updated, and not only with the one that was found: an update that had to wait for
// another meets a newer row, and servers before 15.15, 16.11, 17.7 and 18.1 do not
// compare its place again.
type lean struct {
	read, known               *statement
	alone                     *part
	readColumns, knownColumns []column
}

func leanly(name, table string, key, moving, bodies []column) *lean {
	rest := join(key, columns("bigint was"), moving, bodies)
	l := &lean{readColumns: join(columns("tid place"), rest), knownColumns: join(columns("xid xid"), rest)}
	l.read = &statement{name, narrow(table, l.readColumns, key, moving, bodies)}
	l.known = &statement{"known_" + name, exactly(len(l.knownColumns)+1, fmt.Sprintf("update %s t set %s from %s",
		table, assign(moving, bodies), found(table, l.knownColumns, key, "k.xmin = u.xid and k.seq = u.was")+" and t.xmin = u.xid and t.seq = u.was"))}
	l.alone = single("alone_"+name, l.knownColumns, fmt.Sprintf("update %s t set %s where t.xmin = u.xid%s and t.seq = u.was returning 1",
		table, assign(moving, bodies), matching(key, "t")))
	return l
}

// narrow writes columns of the rows at places, which are still what key and was say.
func narrow(table string, all, key, moving, bodies []column) string {
	return exactly(len(all)+1, fmt.Sprintf("update %s t set %s from %s u where t.ctid = u.place%s and t.seq = u.was",
		table, assign(moving, bodies), given(all), matching(key, "t")))
}

// matching says that a row has the key that is given.
func matching(key []column, alias string) string {
	var match strings.Builder
	for _, c := range key {
		fmt.Fprintf(&match, " and %s.%s = u.%[2]s", alias, c.name)
	}
	return match.String()
}

var givenColumn = regexp.MustCompile(`\bu\.(\w+)`)

// one turns a statement on given rows into one on a single row, whose columns are the
// parameters.
func one(sql string, all []column) string {
	return givenColumn.ReplaceAllStringFunc(sql, func(name string) string {
		i := slices.IndexFunc(all, func(c column) bool { return "u."+c.name == name })
		return fmt.Sprintf("$%d::%s", i+1, all[i].typ)
	})
}

// A leanRows is the rows of a lean update.
type leanRows struct {
	*rows
	lean       *lean
	optimistic bool
}

func (l *lean) collect(f *reading, n int) leanRows {
	switch {
	case f.optimistic && n <= oneByOne:
		return leanRows{collectFlat(l.knownColumns, 1), l, true} // mostly
	case f.optimistic:
		return leanRows{collect(l.knownColumns, n), l, true}
	}
	return leanRows{collect(l.readColumns, n), l, false}
}

// at begins a row: where it is, or which.
func (r leanRows) at(p place, v xid) {
	if r.optimistic {
		r.xid(v)
		return
	}
	r.blob(p[:])
}

// A foundJob is what a lean statement does not write, as it was read; of steps
// likewise.
type foundJob struct {
	place place
	xid   xid // 0: not known
	moved jobMoved
	rest  jobRest
}

// jobMoved is what stays where only counts change.
type jobMoved struct {
	record                 pawl.Record
	mark                   pawl.Mark
	ending                 machine.State
	startedAt, completedAt int64
}

func movedOf(j *pawl.Job) jobMoved {
	return jobMoved{record: j.Record, mark: j.Mark, ending: j.Ending, startedAt: j.StartedAt, completedAt: j.CompletedAt}
}

type jobRest struct {
	definition, route, rank, pool, quota int64
	version, workers, priority           int
	paused                               bool
	hooks                                pawl.HookPhase
}

func restOfJob(j *pawl.Job) jobRest {
	return jobRest{
		definition: j.Definition, route: j.Route, rank: j.Rank, pool: j.Pool, quota: j.Quota,
		version: j.Version, workers: j.WorkerCount, priority: j.Priority, paused: j.Paused, hooks: j.Hooks,
	}
}

type foundStep struct {
	place place
	xid   xid
	state machine.State
	taken stepTakes
	rest  stepRest
	ended int64 // completed_at
}

// stepTakes is what changes when a step is taken, and stays when it ends.
type stepTakes struct {
	unmet, attempts, claims                    int
	worker, route, rank, enqueuedAt, startedAt int64
}

type stepRest struct {
	skipped                             bool
	losses, priority, total, made, live int
	pool                                int64
}

func takesOf(s *pawl.Step) stepTakes {
	return stepTakes{
		unmet: s.Unmet, attempts: s.Attempts, claims: s.Claims, worker: s.Worker, route: s.Route, rank: s.Rank,
		enqueuedAt: s.EnqueuedAt, startedAt: s.StartedAt,
	}
}

func restOfStep(s *pawl.Step) stepRest {
	return stepRest{skipped: s.Skipped, losses: s.Losses, priority: s.Priority, total: s.Total, made: s.Made, live: s.Live, pool: s.Pool}
}

// foundJob reads a job and its place.
func (r *reading) foundJob(c *cursor) *pawl.Job {
	j := c.job()
	r.jobs[j.Key()] = foundJob{place: c.place(), moved: movedOf(j), rest: restOfJob(j)}
	return j
}

func (r *reading) foundStep(c *cursor) *pawl.Step {
	s := c.step()
	r.steps[s.StepKey] = foundStep{place: c.place(), state: s.State, taken: takesOf(s), rest: restOfStep(s), ended: s.CompletedAt}
	return s
}

// moveJobs writes the lean updates of jobs, and answers the others.
func (w *writing) moveJobs(f *reading, updates []store.Update[*pawl.Job]) (others []store.Update[*pawl.Job]) {
	moved, counted := moveJobs.collect(f, len(updates)), countJobs.collect(f, len(updates))
	apart := f.countedApart(updates)
	for _, u := range updates {
		j := f.changed(u.Record)
		found, ok := f.jobs[j.Key()]
		if !ok || found.rest != restOfJob(j) || j.Inputs != nil || j.Metadata != nil || j.Error != nil {
			others = append(others, u)
			continue
		}
		if f.optimistic {
			delete(f.jobs, j.Key()) // nothing more has to make sure of it
		}
		if apart && found.onlyCounts(j) {
			counted.jobAt(&found, u)
			counted.jobCounts(j)
			continue
		}
		moved.jobAt(&found, u)
		moved.record(&j.Record)
		moved.num(lineOfJob(j))
		moved.num(int64(j.Mark))
		moved.text(string(j.Ending))
		moved.jobCounts(j)
		moved.num(j.StartedAt)
		moved.num(j.CompletedAt)
		moved.body(j.Output)
	}
	w.updateAny(counted)
	w.updateAny(moved)
	return others
}

// countedApart reports whether jobs of which only counts change get a statement of their
// own. What is only known is locked as it is written, in the order of the keys like
// everywhere: two statements would break it.
func (r *reading) countedApart(updates []store.Update[*pawl.Job]) bool {
	if !r.optimistic {
		return len(updates) > fewRows
	}
	if n := len(updates); n > oneByOne && n <= fewRows {
		return false
	}
	return !slices.ContainsFunc(updates, func(u store.Update[*pawl.Job]) bool {
		found := r.jobs[u.Record.Key()]
		return !found.onlyCounts(u.Record)
	})
}

func (found *foundJob) onlyCounts(j *pawl.Job) bool {
	return found.moved == movedOf(j) && j.Output == nil
}

// jobAt writes what all lean updates of jobs begin with.
func (r leanRows) jobAt(found *foundJob, u store.Update[*pawl.Job]) {
	r.at(found.place, found.xid)
	r.num(u.Record.Key())
	r.num(u.Was)
}

func (r *rows) jobCounts(j *pawl.Job) {
	r.num(int64(j.Open))
	r.num(int64(j.Blocked))
	r.num(int64(j.Active))
}

const (
	// few rows are written by one statement, though it has more columns: what a
	// statement costs by itself is as much as many columns.
	fewRows = 16

	// So few rows go one by one, which costs the server half.
	oneByOne = 2
)

// moveSteps writes the lean updates of steps, and answers the others.
func (w *writing) moveSteps(f *reading, updates []store.Update[*pawl.Step]) (others []store.Update[*pawl.Step]) {
	taken, ended := takeSteps.collect(f, len(updates)), endSteps.collect(f, len(updates))
	moved := moveSteps.collect(f, min(len(updates), fewRows))
	few := len(updates) <= fewRows && !(f.optimistic && len(updates) <= oneByOne)
	for _, u := range updates {
		s := u.Record
		found, ok := f.steps[s.StepKey]
		switch {
		case !ok || found.rest != restOfStep(s) || s.Input != nil || s.Error != nil:
			others = append(others, u)
			continue
		case few:
			moved.stepAt(&found, u)
			moved.stepTakes(s)
			moved.num(s.CompletedAt)
			moved.body(s.Output)
		case found.taken == takesOf(s):
			ended.stepAt(&found, u)
			ended.num(s.CompletedAt)
			ended.body(s.Output)
		case found.ended == s.CompletedAt && s.Output == nil:
			taken.stepAt(&found, u)
			taken.stepTakes(s)
		default:
			others = append(others, u)
			continue
		}
		if f.optimistic {
			delete(f.steps, s.StepKey)
		}
	}
	w.updateAny(taken)
	w.updateAny(ended)
	w.updateAny(moved)
	return others
}

func (r *rows) stepTakes(s *pawl.Step) {
	r.num(int64(s.Unmet))
	r.num(int64(s.Attempts))
	r.num(int64(s.Claims))
	r.num(s.Worker)
	r.num(s.Route)
	r.num(s.Rank)
	r.num(s.EnqueuedAt)
	r.num(s.StartedAt)
}

// stepAt writes what all lean updates of steps begin with.
func (r leanRows) stepAt(found *foundStep, u store.Update[*pawl.Step]) {
	r.at(found.place, found.xid)
	r.num(u.Record.Job)
	r.num(int64(u.Record.Ord))
	r.num(u.Was)
	r.record(&u.Record.Record)
	r.num(lineOfStep(u.Record))
	r.num(int64(u.Record.Mark))
}

// updateAny queues an update unless there are no rows for it.
func (w *writing) updateAny(r leanRows) {
	switch n := r.len(); {
	case n == 0:
	case !r.optimistic:
		w.update(r.lean.read, r.rows, n)
	case !r.flat:
		w.update(r.lean.known, r.rows, n)
	default:
		w.addParts(r.lean.alone, r.rows, 1)
		w.updates += int64(n)
	}
}
