package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/store"
)

// A column of a table, with the type of its values in arrays.
type column struct {
	name string
	typ  string // bigint, text, bytea, bool, uuid, tid, xid
}

// columns parses "bigint id, text name". It is used only for the tables of this package, and
// panics on a syntax error.
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

// A table holds the columns of one kind of record in the form of statements.
type table[R any] struct {
	*store.Table[R]
	key   []column
	plain []column // read for a record without bodies,
	whole []column // and with them

	fresh, change      []column // for new rows, and for changes: the key, was, the rest
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

// stored omits computed columns.
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
	store.KindHash: "bytea", store.KindBlob: "bytea", store.KindUUID: "uuid", store.KindJSON: "text", store.KindTree: "bytea",
}

// The tables of the records.
var (
	jobTable      = tableOf(store.Jobs.With(store.DerivedColumn("line", lineOfJob)))
	stepTable     = tableOf(store.Steps.With(store.DerivedColumn("line", lineOfStep)))
	workerTable   = tableOf(store.Workers)
	scheduleTable = tableOf(store.Schedules)
	tokenTable    = tableOf(store.Tokens)
	pauseTable    = tableOf(store.QueuePauses)
	webhookTable  = tableOf(store.Webhooks)

	recordColumns = typed(store.RecordColumns)
)

// more is the column of the further entries of a row of the trail.
const more = "further"

// The columns of tables that are not records, in the order of the code that fills them.
var (
	entryColumns         = columns("bigint job, bigint ord, bigint seq, text state, text event, text reason, text actor, text request_id, bytea metadata, bigint at, bytea hash, bytea seals")
	trailColumns         = join(entryColumns, columns("text "+more))
	workerEntryColumns   = join(columns("bigint worker"), entryColumns[2:])
	scheduleEntryColumns = join(columns("bigint schedule"), workerEntryColumns[1:])
	tokenEntryColumns    = join(columns("bigint token"), workerEntryColumns[1:])
	pauseEntryColumns    = join(columns("bigint queue_pause"), workerEntryColumns[1:])
	webhookEntryColumns  = join(columns("bigint webhook"), workerEntryColumns[1:])
	definitionColumns    = columns("bigint id, bytea hash, text name, bytea source, bigint created_at")
	versionColumns       = columns("text workspace, text name, bigint version, bigint definition, text dir, bigint at, text actor, text reason")
	reservationColumns   = columns("bytea uuid, text workspace, bigint depth, bigint slots, bigint pool, bigint expires_at, text actor, text reason")
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

// names lists the columns, each with the alias as prefix if there is one: "s.job, s.ord".
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

// given turns one array parameter per column, counted from $1, into rows. Arrays of one length
// in a select list are read side by side, at a third of the cost of a function in FROM.
func given(cs []column) string {
	list := make([]string, len(cs))
	for i, c := range cs {
		list[i] = fmt.Sprintf("unnest($%d::%s[]) as %s", i+1, c.typ, c.name)
	}
	return "(select " + strings.Join(list, ", ") + few + ")"
}

// few is a limit that never applies, but makes the planner expect very few rows: it then looks
// up each one by key, and does not read a table that was small when it was last analyzed.
const few = " limit (select 1000000000)"

// insert returns the statement that writes rows into a table; it ends with more.
func insert(table string, cs []column, more string) string {
	return fmt.Sprintf("insert into %s (%s) select * from %s u %s", table, names("", cs), given(cs), more)
}

// A columnSet has the columns of a table by their index.
type columnSet uint64

// maxColumns is how many columns of a table can be in a set.
const maxColumns = 63

func (s columnSet) has(i int) bool { return s>>i&1 == 1 }

// insertAlike returns the statement that writes rows which are the same in some columns: each of
// these has a value as its parameter, not an array.
func insertAlike(table string, cs []column, same columnSet) string {
	var values, arrays []string
	for i, c := range cs {
		if same.has(i) {
			values = append(values, fmt.Sprintf("$%d::%s", i+1, c.typ))
			continue
		}
		values = append(values, "u."+c.name)
		arrays = append(arrays, fmt.Sprintf("unnest($%d::%s[]) as %s", i+1, c.typ, c.name))
	}
	return fmt.Sprintf("insert into %s (%s) select %s from (select %s%s) u", table, names("", cs), strings.Join(values, ", "), strings.Join(arrays, ", "), few)
}

// update returns the statement that writes the moving columns, and the bodies that are not
// null, of the rows with the given key and seq (the column was).
func update[R any](t *table[R]) string {
	return exactly(len(t.change)+1, fmt.Sprintf("update %s t set %s from %s", t.Name, assign(t.moving, t.bodies), found(t.Name, t.change, t.key, "k.seq = u.was")))
}

// assign lists the assignments of the moving columns, and of the bodies that are not null.
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

// exactly makes a statement fail, which becomes ErrStale, unless it has changed as many rows as
// the numbered parameter says. The commit behind it in the pipeline is then not run.
func exactly(param int, statement string) string {
	return fmt.Sprintf("with done as (\n  %s returning 1\n) select %s from done", statement, counted(fmt.Sprintf("$%d", param)))
}

// whatIsStale is what the log of the server says of a transaction that is stale: nothing has happened then.
const whatIsStale = "pawl: a row has changed since it was read, or an idempotency key is in use; the transaction begins anew"

// counted returns an expression that is null if there are as many rows as it says. Otherwise it fails with
// codeStale.
func counted(rows string) string { return provided("count(*) = "+rows, whatIsStale) }

// provided returns an expression that is null if the condition is true. Otherwise it fails with codeStale, since
// the message is no date.
func provided(condition, message string) string {
	return fmt.Sprintf("(case when %s then null else '%s' end)::date", condition, message)
}

// found looks up the rows of a table by the keys in the parameters, and joins them by place.
// For a join by key the planner could read the whole table, which it prefers while it believes
// the table nearly empty.
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
