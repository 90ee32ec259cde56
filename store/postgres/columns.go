package postgres

import (
	"fmt"
	"strings"
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

// more is the column of the further entries of a row of the trail.
const more = "further"

// The columns of the records. The order is that of the codecs in records.go.
var (
	recordColumns = columns("text state, bigint seq, bytea head, bigint due_at, text due_event, bigint updated_at")

	jobFixed  = columns("bigint id, uuid uuid, text workspace, text workflow, text description, bigint parent, bigint parent_step, bigint continues, bigint schedule, bigint depth, bigint private, bigint created_at")
	jobMoving = join(recordColumns, columns("bigint definition, bigint version, bigint worker_count, bigint route, bigint priority, bigint rank, bigint pool, bigint quota, bool paused, bigint mark, text ending, bigint hooks, bigint open, bigint blocked, bigint active, bigint started_at, bigint completed_at"))
	jobBodies = columns("text inputs, text output, text error, text metadata")
	jobPlain  = join(jobFixed[1:], jobMoving)

	stepFixed  = columns("bigint job, bigint ord, bigint created_at")
	stepMoving = join(recordColumns, columns("bigint mark, bigint unmet, bool skipped, bigint attempts, bigint claims, bigint losses, bigint worker, bigint route, bigint priority, bigint rank, bigint pool, bigint total, bigint made, bigint live, bigint enqueued_at, bigint started_at, bigint completed_at"))
	stepBodies = columns("text input, text output, text error")
	stepPlain  = join(stepFixed, stepMoving)

	workerFixed  = columns("bigint id, uuid uuid, text workspace, text name, text host, bigint pid, bigint created_at")
	workerMoving = join(recordColumns, columns("bigint capacity, text routes, text handlers"))
	workerBodies = columns("text metadata")
	workerPlain  = join(workerFixed[1:], workerMoving)

	scheduleFixed  = columns("bigint id, uuid uuid, text workspace, text name, bigint created_at")
	scheduleMoving = join(recordColumns, columns("text workflow, text cron, text time_zone, bigint catch_up, text overlap, bigint priority, bigint due, bigint last_job, bigint waiting"))
	scheduleBodies = columns("text inputs")
	scheduleWhole  = join(scheduleFixed[1:], scheduleMoving, scheduleBodies)

	entryColumns         = columns("bigint job, bigint ord, bigint seq, text state, text event, text reason, text actor, text request_id, bytea metadata, bigint at, bytea hash")
	trailColumns         = join(entryColumns, columns("text "+more))
	workerEntryColumns   = columns("bigint worker, bigint seq, text state, text event, text reason, text actor, text request_id, bytea metadata, bigint at, bytea hash")
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
// it looks each one up by key, and does not read a table that was small when
// it was last analyzed.
const few = " limit (select 1000000000)"

// insert writes rows into a table; more stands at its end.
func insert(table string, cs []column, more string) string {
	return fmt.Sprintf("insert into %s (%s) select * from %s u %s", table, names("", cs), given(cs), more)
}

// update writes the moving columns, and the bodies that are not null, of the
// rows that key and seq (the column was) name.
func update(table string, key, moving, bodies []column) string {
	all := join(key, columns("bigint was"), moving, bodies)
	return exactly(len(all)+1, fmt.Sprintf("update %s t set %s from %s", table, assign(moving, bodies), found(table, all, key, "k.seq = u.was")))
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

// found looks the rows of a table up that the parameters name by key, and
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
