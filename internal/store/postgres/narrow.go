package postgres

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// Most transitions change few columns of a record that this transaction has read. Narrow
// statements write them: only the columns that such transitions change, found by the place of
// the row, without an index. That costs the server about half. Every other change goes by key,
// with all columns.

// A place is where a row was when it was read: its ctid. Every change moves the row, so an
// outdated place finds nothing, or a row of another key or version, and the change is stale.
type place [6]byte

// Columns that every transition of a job or a step changes, or may change.
const moved = "state seq head due_at due_event updated_at line mark "

var (
	moveJobs  = narrowly("move_jobs", jobTable, moved+"ending open blocked active tree started_at completed_at output")
	countJobs = narrowly("count_jobs", jobTable, "open blocked active tree") // the only columns that the report of most steps changes

	// For the jobs of a batch that begin, and that end, with no deadline and no mark.
	startJobs  = narrowly("start_jobs", jobTable, "state seq head updated_at line active started_at")
	finishJobs = narrowly("finish_jobs", jobTable, "state seq head updated_at ending open active tree completed_at output")

	// For a step that is enqueued and claimed, for one that ends, and for both.
	takeSteps = narrowly("take_steps", stepTable, moved+taken)
	endSteps  = narrowly("end_steps", stepTable, moved+"folded completed_at output")
	moveSteps = narrowly("move_steps", stepTable, moved+taken+" folded completed_at output")

	// The same in a batch, for steps with no deadline, no mark and no instances.
	startSteps  = narrowly("start_steps", stepTable, "state seq head updated_at unmet attempts claims worker route rank enqueued_at started_at")
	finishSteps = narrowly("finish_steps", stepTable, "state seq head updated_at folded completed_at output")

	// For the node of a fan-out whose instances end and are made. It is the row with the list.
	spreadSteps = narrowly("spread_steps", stepTable, "mark made live tree")
)

const taken = "unmet attempts claims worker route rank enqueued_at started_at"

// A narrow update has two forms: for rows that the transaction has read and locked, and for
// cached rows, which must still have the known version; very few of the latter go one by one.
// The version is compared with the row that is updated, and not only with the one that was
// found: an update that had to wait for another one meets a newer row, and servers before
// 15.15, 16.11, 17.7 and 18.1 do not compare its place again.
type narrow struct {
	read, known               *statement
	alone                     *part
	readColumns, knownColumns []column
}

// A narrowOf is a narrow update of records of one kind.
type narrowOf[R any] struct {
	*narrow
	*store.Narrow[R]
	key []*store.Column[R]
}

// narrowly makes the narrow update of the listed columns.
func narrowly[R any](name string, t *table[R], list string) *narrowOf[R] {
	n := t.Narrow(strings.Fields(list)...)
	plain, bodies := n.Columns, []*store.Column[R](nil)
	if i := slices.IndexFunc(n.Columns, func(c *store.Column[R]) bool { return c.Role == store.Body }); i >= 0 {
		plain, bodies = n.Columns[:i], n.Columns[i:]
	}
	return &narrowOf[R]{newNarrow(name, t.Name, t.key, typed(plain), typed(bodies)), n, t.keyOf}
}

func newNarrow(name, table string, key, moving, bodies []column) *narrow {
	rest := join(key, wasColumn, moving, bodies)
	l := &narrow{readColumns: join(columns("tid place"), rest), knownColumns: join(columns("xid xid"), rest)}
	l.read = &statement{name, updateByPlace(table, l.readColumns, key, moving, bodies)}
	l.known = &statement{"known_" + name, exactly(len(l.knownColumns)+1, fmt.Sprintf("update %s t set %s from %s",
		table, assign(moving, bodies), found(table, l.knownColumns, key, "k.xmin = u.xid and k.seq = u.was")+" and t.xmin = u.xid and t.seq = u.was"))}
	l.alone = single("alone_"+name, l.knownColumns, fmt.Sprintf("update %s t set %s where t.xmin = u.xid%s and t.seq = u.was returning 1",
		table, assign(moving, bodies), matching(key, "t")))
	return l
}

// updateByPlace writes columns of the rows at places, if they still have the given key and
// was.
func updateByPlace(table string, all, key, moving, bodies []column) string {
	return exactly(len(all)+1, fmt.Sprintf("update %s t set %s from %s u where t.ctid = u.place%s and t.seq = u.was",
		table, assign(moving, bodies), given(all), matching(key, "t")))
}

// matching returns the condition that a row has the given key.
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

// A narrowRows is the rows of a narrow update: cached ones, or such that were read.
type narrowRows struct {
	*rows
	narrow *narrow
	cached bool
}

func (l *narrow) collect(room *room, cached bool, n int) narrowRows {
	r := &rows{spec: l.readColumns, room: room, hint: n}
	if cached {
		r.spec = l.knownColumns
	}
	if cached && n <= oneByOne {
		r.flat, r.hint = true, 1 // mostly
	}
	return narrowRows{r, l, cached}
}

// at begins a row: its place, or its version.
func (r narrowRows) at(p place, v xid) {
	if r.cached {
		r.xid(v)
		return
	}
	r.blob(p[:])
}

// A foundRow is a row as it was when it was read or cached.
type foundRow[R any] struct {
	place   place      // unless it is cached
	xid     xid        // 0: not known
	cached  bool       // it was not read: its version is still to be verified
	written bool       // early
	head    audit.Hash // of the trail, as it was written early
	was     R          // without bodies
}

// add adds an update, unless it changes more than the columns of l.
func (l *narrowOf[R]) add(w *writing, r narrowRows, f *foundRow[R], u store.Update[*R]) bool {
	if !l.Covers(&f.was, u.Record) {
		return false
	}
	r.at(f.place, f.xid)
	w.check(writeColumns(r.rows, l.key, u.Record))
	r.num(u.Was)
	w.check(writeColumns(r.rows, l.Columns, u.Record))
	return true
}

// collectEach begins the rows of several updates, of which most stay empty.
func collectEach[R any](room *room, forms []*narrowOf[R], cached bool, n int) []narrowRows {
	rows := make([]narrowRows, len(forms))
	for i, l := range forms {
		rows[i] = l.collect(room, cached, n)
	}
	return rows
}

// addToFirst adds an update to the rows of the first form that covers it, if one does.
func addToFirst[R any](w *writing, forms []*narrowOf[R], rows []narrowRows, f *foundRow[R], u store.Update[*R]) bool {
	for i, l := range forms {
		if l.add(w, rows[i], f, u) {
			return true
		}
	}
	return false
}

// foundJob reads a job and its place. The first row stays: it is locked, or cached, and then its
// version is what has to be verified.
func (r *reading) foundJob(c *cursor) *pawl.Job {
	j, at := jobTable.read(c), c.place()
	if r.jobs[j.Key()] == nil {
		r.jobs[j.Key()] = r.room.job(foundRow[pawl.Job]{was: *j, place: at})
	}
	return j
}

func (r *reading) foundStep(c *cursor) *pawl.Step {
	s, at := stepTable.read(c), c.place()
	if f := r.steps[s.StepKey]; f == nil || !f.cached && !f.written {
		r.steps[s.StepKey] = r.room.step(foundRow[pawl.Step]{was: *s, place: at})
	}
	return s
}

// moveJobs writes the narrow updates of jobs, and returns the others.
func (w *writing) moveJobs(f *reading, updates []store.Update[*pawl.Job]) (others []store.Update[*pawl.Job]) {
	read, cached, others, err := apart(f.jobs, updates, func(j *pawl.Job) (rowkey.Job, *pawl.Record) { return j.Key(), &j.Record })
	w.check(err)
	for _, some := range [][]store.Update[*pawl.Job]{read, cached} {
		others = append(others, w.moveSomeJobs(f, some)...)
	}
	return others
}

// moveSomeJobs does so for jobs that are all cached, or all read.
func (w *writing) moveSomeJobs(f *reading, updates []store.Update[*pawl.Job]) (others []store.Update[*pawl.Job]) {
	if len(updates) == 0 {
		return nil
	}
	for i := range updates {
		updates[i].Record = f.changed(updates[i].Record)
	}
	isCached := f.jobs[updates[0].Record.Key()].cached
	forms := f.formsOfJobs(updates, isCached)
	rows := collectEach(w.room, forms, isCached, len(updates))
	for _, u := range updates {
		found := f.jobs[u.Record.Key()]
		if !addToFirst(w, forms, rows, found, u) {
			others = append(others, u)
			continue
		}
		found.cached = false // it needs no further check
	}
	for _, r := range rows {
		w.updateAny(r)
	}
	return others
}

// apart returns the updates of rows that were read, of those that are cached, and of those of
// which neither is known. It leaves out those that were written early, which must be what they were
// then. of returns the key of a record, and what all kinds of records have.
func apart[K comparable, R any](found map[K]*foundRow[R], updates []store.Update[*R], of func(*R) (K, *pawl.Record)) (read, cached, others []store.Update[*R], err error) {
	n := len(updates)
	for i, u := range updates {
		key, now := of(u.Record)
		switch f := found[key]; {
		case f == nil:
			others = append(others, u)
		case f.written:
			if f.head != now.Head {
				err = fmt.Errorf("%v was written early at %x, and is at %x now", key, f.head, now.Head)
			}
		case f.cached:
			cached = append(slices.Grow(cached, n-i), u)
		default:
			read = append(slices.Grow(read, n-i), u)
		}
	}
	return read, cached, others, err
}

// formsOfJobs returns the updates of jobs to be tried, that with the fewest columns first. Cached rows
// are locked as they are written, in the order of the keys as everywhere: two statements would break
// that order.
func (r *reading) formsOfJobs(updates []store.Update[*pawl.Job], cached bool) []*narrowOf[pawl.Job] {
	switch n := len(updates); {
	case n > fewRows && !cached:
		return []*narrowOf[pawl.Job]{countJobs, startJobs, finishJobs, moveJobs}
	case n > fewRows:
		return []*narrowOf[pawl.Job]{r.covering(updates, countJobs, startJobs, finishJobs)}
	case n <= oneByOne && cached:
		return []*narrowOf[pawl.Job]{r.covering(updates, countJobs)}
	}
	return []*narrowOf[pawl.Job]{moveJobs}
}

// covering returns the first of the updates that covers all jobs, or moveJobs.
func (r *reading) covering(updates []store.Update[*pawl.Job], forms ...*narrowOf[pawl.Job]) *narrowOf[pawl.Job] {
	for _, l := range forms {
		if !slices.ContainsFunc(updates, func(u store.Update[*pawl.Job]) bool { return !l.Covers(&r.jobs[u.Record.Key()].was, u.Record) }) {
			return l
		}
	}
	return moveJobs
}

const (
	// fewRows is up to how many rows share one statement, though it has more columns: a
	// statement by itself costs as much as many columns.
	fewRows = 16

	// Up to this many rows go one by one, which costs the server half.
	oneByOne = 2
)

// moveSteps writes the narrow updates of steps, and returns the others.
func (w *writing) moveSteps(f *reading, updates []store.Update[*pawl.Step]) (others []store.Update[*pawl.Step]) {
	read, cached, others, err := apart(f.steps, updates, func(s *pawl.Step) (pawl.StepKey, *pawl.Record) { return s.StepKey, &s.Record })
	w.check(err)
	for _, some := range [][]store.Update[*pawl.Step]{read, cached} {
		others = append(others, w.moveSomeSteps(f, some)...)
	}
	return others
}

// moveSomeSteps does so for steps that are all cached, or all read.
func (w *writing) moveSomeSteps(f *reading, updates []store.Update[*pawl.Step]) (others []store.Update[*pawl.Step]) {
	if len(updates) == 0 {
		return nil
	}
	isCached := f.steps[updates[0].Record.StepKey].cached
	forms := formsOfSteps(len(updates), isCached)
	rows := collectEach(w.room, forms, isCached, len(updates))
	for _, u := range updates {
		if !addToFirst(w, forms, rows, f.steps[u.Record.StepKey], u) {
			others = append(others, u)
			continue
		}
		f.steps[u.Record.StepKey].cached = false // it needs no further check
	}
	for _, r := range rows {
		w.updateAny(r)
	}
	return others
}

// The updates of steps to be tried, that with the fewest columns first.
var (
	manySteps  = []*narrowOf[pawl.Step]{finishSteps, startSteps, endSteps, takeSteps, spreadSteps}
	fewSteps   = []*narrowOf[pawl.Step]{moveSteps, spreadSteps}
	aloneSteps = []*narrowOf[pawl.Step]{endSteps, takeSteps, spreadSteps}
)

func formsOfSteps(n int, cached bool) []*narrowOf[pawl.Step] {
	switch {
	case n > fewRows:
		return manySteps
	case cached && n <= oneByOne:
		return aloneSteps
	}
	return fewSteps
}

// updateAny queues an update unless it has no rows.
func (w *writing) updateAny(r narrowRows) {
	switch n := r.len(); {
	case n == 0:
	case !r.cached:
		w.update(r.narrow.read, r.rows, n)
	case !r.flat:
		w.update(r.narrow.known, r.rows, n)
	default:
		w.addParts(r.narrow.alone, r.rows, 1)
		w.updates += int64(n)
	}
}
