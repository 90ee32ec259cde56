package postgres

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A fused transaction is a single statement: it verifies, writes, and returns its stamp. The
// report of one step is such a transaction, and so is a submission to a known worker; fused,
// it costs the server a quarter less. The parts, and so the statement, vary; each statement is
// made when it is first used.

const (
	// fewEntries is up to how many rows of the trail are written with a parameter per value,
	// which costs the server less than arrays for so few.
	fewEntries = 6

	// maxParts of a fused statement: larger combinations are too rarely repeated to be kept.
	maxParts = 6 + oneByOne

	maxFused      = 64 // statements of a handle: later combinations are sent in parts
	roomForValues = 96 // enough for most fused statements
)

// A part is a statement that may become part of a fused one.
type part struct {
	alone *statement
	sql   string // with its parameters counted from $1
	finds bool   // exactly one row, or the transaction is stale
}

// single makes a part that finds one row; the parameters are its columns.
func single(name string, all []column, sql string) *part {
	sql = one(sql, all)
	return &part{
		alone: &statement{name, fmt.Sprintf("with done as (%s) select %s from done", sql, counted("1"))},
		sql:   sql, finds: true,
	}
}

// newFewEntries are the parts that write 1 to fewEntries rows of the trail.
var newFewEntries = func() (parts [fewEntries + 1]*part) {
	for n := 1; n <= fewEntries; n++ {
		parts[n] = inserting(fmt.Sprintf("new_entries_%d", n), "audit", trailColumns, n)
	}
	return parts
}()

var (
	newJob  = inserting("new_job", "job", jobTable.fresh, 1)
	newStep = inserting("new_step", "step", stepTable.fresh, 1)

	// newFew are the parts that write new rows as arrays: of a job with its first steps.
	newFew = map[*statement]*part{
		newJobs:    {alone: newJobs, sql: newJobs.sql},
		newSteps:   {alone: newSteps, sql: newSteps.sql},
		newEntries: {alone: newEntries, sql: newEntries.sql},
	}
)

// alone returns each part as a statement of its own.
func alone(parts ...*part) (list []*statement) {
	for _, p := range parts {
		list = append(list, p.alone)
	}
	return list
}

// inserting makes a part that writes new rows.
func inserting(name, table string, cs []column, n int) *part {
	sql := fmt.Sprintf("insert into %s (%s) values %s", table, names("", cs), tuples(cs, n))
	return &part{alone: &statement{name, sql}, sql: sql}
}

// tuples lists rows of parameters.
func tuples(cs []column, n int) string {
	list := make([]string, n)
	for row := range n {
		params := make([]string, len(cs))
		for i, c := range cs {
			params[i] = fmt.Sprintf("$%d::%s", row*len(cs)+i+1, c.typ)
		}
		list[row] = "(" + strings.Join(params, ", ") + ")"
	}
	return strings.Join(list, ", ")
}

// addParts queues a part for each group of rows, which are flat.
func (w *writing) addParts(p *part, r *rows, each int) {
	if w.values == nil {
		w.values = make([][]byte, 0, roomForValues)
	}
	from := len(w.values)
	w.values = r.appendValues(w.values)
	for params := range slices.Chunk(w.values[from:], each*len(r.spec)) {
		w.calls = append(w.calls, call{statement: p.alone, part: p, params: params})
	}
}

// addPart queues a part with these parameters.
func (w *writing) addPart(p *part, params ...[]byte) {
	if w.values == nil {
		w.values = make([][]byte, 0, roomForValues)
	}
	from := len(w.values)
	w.values = append(w.values, params...)
	w.calls = append(w.calls, call{statement: p.alone, part: p, params: w.values[from:]})
}

// condense replaces all statements by one, if they are the parts of a fused one.
func (w *writing) condense(b *fusedStatements) {
	finds := 0
	for i := range w.calls {
		c := &w.calls[i]
		if c.part == nil {
			return
		}
		if c.part.finds {
			finds++
		}
	}
	if finds == 0 || len(w.calls) > maxParts {
		return
	}
	if s := b.of(w.calls); s != nil {
		w.fused = true
		w.calls = append(w.calls[:0], call{statement: s, params: w.values, row: w.stamp.read})
	}
}

// fusedStatements are the fused statements used so far.
type fusedStatements struct {
	mu  sync.Mutex
	all map[[maxParts]*part]*statement
}

// of returns the statement made of these parts, or nil if there are too many.
func (b *fusedStatements) of(calls []call) *statement {
	b.mu.Lock()
	defer b.mu.Unlock()
	var parts [maxParts]*part
	for i := range calls {
		parts[i] = calls[i].part
	}
	if s := b.all[parts]; s != nil || len(b.all) == maxFused {
		return s
	}
	if b.all == nil {
		b.all = make(map[[maxParts]*part]*statement)
	}
	s := &statement{fmt.Sprintf("fused_%d", len(b.all)), fused(calls)}
	b.all[parts] = s
	return s
}

var param = regexp.MustCompile(`\$\d+`)

// fused combines parts. Those that find rows run in order, and nothing is inserted unless all
// have found theirs.
func fused(calls []call) string {
	var with, found []string
	params := 0
	for i := range calls {
		sql := param.ReplaceAllStringFunc(calls[i].part.sql, func(p string) string {
			n, _ := strconv.Atoi(p[1:])
			return fmt.Sprintf("$%d", params+n)
		})
		with = append(with, fmt.Sprintf("p%d as (%s)", i, sql))
		if calls[i].part.finds {
			found = append(found, fmt.Sprintf("select from p%d", i))
		}
		params += len(calls[i].params)
	}
	return fmt.Sprintf("with %s select pg_current_xact_id(), %s, %s from (%s) n",
		strings.Join(with, ", "), clock, counted(strconv.Itoa(len(found))), strings.Join(found, " union all "))
}
