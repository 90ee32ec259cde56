package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/store"
)

// A column of a table, with the type in which its values travel in arrays.
type column struct {
	name string
	typ  string // bigint, text, bytea, bool, uuid, tid, xid
}

// columns reads "bigint id, text name" into columns. It is used for the tables
// of this package only, and panics on what it cannot read.
func columns(spec string) []column {
	var cs []column
	for field := range strings.SplitSeq(spec, ",") {
		typ, name, ok := strings.Cut(strings.TrimSpace(field), " ")
		if !ok || arrayOID[typ] == 0 {
			panic("postgres: column " + field)
		}
		cs = append(cs, column{name: name, typ: typ})
	}
	return cs
}

// A table is where the records of one kind are, with its columns as statements
// have them.
type table[R any] struct {
	*store.Table[R]
	key   []column
	plain []column // what is read of a record without bodies,
	whole []column // and with them

	fresh, change      []column // of new rows, and of changes: the key, was, the rest
	moving, bodies     []column
	keyOf, readOf      []*store.Column[R]
	freshOf, changesOf []*store.Column[R]
	bodiesOf           []*store.Column[R]
}

func tableOf[R any](t *store.Table[R]) *table[R] {
	o := &table[R]{
		Table: t, moving: typed(t.Of(store.Moving, store.Derived)), bodies: typed(t.Of(store.Body)),
		keyOf: t.Of(store.Key), readOf: stored(t.Of(store.Key, store.Fixed, store.Moving)),
		freshOf: t.Columns, changesOf: t.Of(store.Moving, store.Derived, store.Body), bodiesOf: t.Of(store.Body),
	}
	o.key, o.fresh = typed(o.keyOf), typed(t.Columns)
	o.change = join(o.key, wasColumn, o.moving, o.bodies)
	o.plain = typed(o.readOf)
	o.whole = join(o.plain, o.bodies)
	return o
}

// wasColumn is the version that a change assumes.
var wasColumn = columns("bigint was")

// stored leaves out what is computed.
func stored[R any](list []*store.Column[R]) []*store.Column[R] {
	return slices.DeleteFunc(list, func(c *store.Column[R]) bool { return c.From != nil })
}

// typed returns columns with the types of their kinds.
func typed[R any](list []*store.Column[R]) []column {
	cs := make([]column, len(list))
	for i, c := range list {
		cs[i] = column{name: c.Name, typ: types[c.Kind]}
	}
	return cs
}

var types = map[store.Kind]string{
	store.KindNumber: "bigint", store.KindBool: "bool", store.KindText: "text",
	store.KindHash: "bytea", store.KindUUID: "uuid", store.KindJSON: "text", store.KindTree: "bytea",
}

// The tables of the records.
var (
	jobTable      = tableOf(store.Jobs.With(store.DerivedColumn("line", lineOfJob)))
	stepTable     = tableOf(store.Steps.With(store.DerivedColumn("line", lineOfStep)))
	workerTable   = tableOf(store.Workers)
	scheduleTable = tableOf(store.Schedules)

	recordColumns = typed(store.RecordColumns)
)

// more is the column of the further entries of a row of the trail.
const more = "further"

// The columns of what is no record. The order is that of the code that fills them.
var (
	entryColumns         = columns("bigint job, bigint ord, bigint seq, text state, text event, text reason, text actor, text request_id, bytea metadata, bigint at, bytea hash, bytea seals")
	trailColumns         = join(entryColumns, columns("text "+more))
	workerEntryColumns   = join(columns("bigint worker"), entryColumns[2:])
	scheduleEntryColumns = join(columns("bigint schedule"), workerEntryColumns[1:])
	definitionColumns    = columns("bigint id, bytea hash, text name, bytea source, bigint created_at")
	versionColumns       = columns("text workspace, text name, bigint version, bigint definition, text dir, bigint at, text actor, text reason")
	quotaColumns         = columns("text workspace, text name, bigint slots, bigint at, text actor, text reason")
	signalColumns        = columns("bigint job, bigint seq, text name, text data, bigint at, text actor, bigint taken")
	refusalColumns       = columns("bigint job, bigint ord, bigint at, bigint claim, text event, text actor, text why, text data")
	answerColumns        = columns("text workspace, text key, text endpoint, bytea request_hash, bigint status, bytea body, bigint expires_at")
	chunkColumns         = columns("bigint job, bigint ord, bigint claim, text stream, bigint off, bigint at, bytea data")
)

func join(parts ...[]column) []column {
	var all []column
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// names lists the columns, each behind the alias if there is one: "s.job, s.ord".
func names(alias string, cs []column) string {
	list := make([]string, len(cs))
	for i, c := range cs {
		list[i] = c.name
		if alias != "" {
			list[i] = alias + "." + c.name
		}
	}
	return strings.Join(list, ", ")
}

// shaped lists a pattern once per column, with the name in the place of *.
func shaped(pattern string, cs []column) string {
	list := make([]string, len(cs))
	for i, c := range cs {
		list[i] = strings.ReplaceAll(pattern, "*", c.name)
	}
	return strings.Join(list, ", ")
}

// given turns one array parameter per column, counted from $1, into rows. In a
// list of results arrays of one length are read side by side, at a third of the
// cost of a function in FROM.
func given(cs []column) string {
	list := make([]string, len(cs))
	for i, c := range cs {
		list[i] = fmt.Sprintf("unnest($%d::%s[]) as %s", i+1, c.typ, c.name)
	}
	return "(select " + strings.Join(list, ", ") + few + ")"
}

// few is a limit that is none, but lets the planner expect next to no rows: so
// it looks up each one by key, and does not read a table that was small when
// it was last analyzed.
const few = " limit (select 1000000000)"

// insert writes rows into a table; more stands at its end.
func insert(table string, cs []column, more string) string {
	return fmt.Sprintf("insert into %s (%s) select * from %s u %s", table, names("", cs), given(cs), more)
}

// update writes the moving columns, and the bodies that are not null, of the
// rows that key and seq (the column was) name.
func update[R any](t *table[R]) string {
	return exactly(len(t.change)+1, fmt.Sprintf("update %s t set %s from %s", t.Name, assign(t.moving, t.bodies), found(t.Name, t.change, t.key, "k.seq = u.was")))
}

// assign sets the moving columns, and the bodies that are not null.
func assign(moving, bodies []column) string {
	var set []string
	for _, c := range moving {
		set = append(set, fmt.Sprintf("%s = u.%s", c.name, c.name))
	}
	for _, c := range bodies {
		set = append(set, fmt.Sprintf("%s = coalesce(u.%s, t.%s)", c.name, c.name, c.name))
	}
	return strings.Join(set, ", ")
}

// exactly divides by zero, which is how ErrStale comes about, unless the
// statement has changed as many rows as the numbered parameter says: so the
// commit behind it in the pipeline is not run.
func exactly(param int, statement string) string {
	return fmt.Sprintf("with done as (\n  %s returning 1\n) select 1 / (count(*) = $%d)::int from done", statement, param)
}

// found looks up the rows of a table that the parameters name by key, and
// joins them by their place. A join by key could also be done by reading all
// of the table, which the planner prefers while it believes it all but empty.
func found(table string, all, key []column, more string) string {
	match := []string{}
	for _, c := range key {
		match = append(match, fmt.Sprintf("k.%s = u.%s", c.name, c.name))
	}
	if more != "" {
		match = append(match, more)
	}
	return fmt.Sprintf("%s u cross join lateral (select ctid as place from %s k where %s offset 0) k where t.ctid = k.place",
		given(all), table, strings.Join(match, " and "))
}
