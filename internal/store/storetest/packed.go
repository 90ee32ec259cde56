package storetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

var packedTests = []test{
	{name: "K6/PackedTrail", run: packedTrail},
	{name: "K6/PackedTrailDownAndUp", run: packedDownAndUp},
	{name: "K6/PackedTrailDamaged", run: packedDamaged},
	{name: "K6/PackedTrailTampered", run: packedTampered},
	{name: "K6/PackedTrailOfManySteps", run: packedWide},
}

// oddReasons are texts that a list of entries has to keep unchanged.
var oddReasons = []string{"", `say "no" \ or C:\new`, "ünïcode 日本 \U0001F600", "two\nlines\tand a bell\a", "\x01\"quoted\"", "</script>&\u2028"}

// packed adds jobs, in two commits each, with odd reasons everywhere, and returns them with
// all their entries.
func (e *env) packed(jobs, steps int) (ids []rowkey.Job, entries []store.Entry) {
	e.Helper()
	n := 0
	odd := func(b *Batch) {
		b.Reason = func() string { n++; return oddReasons[n%len(oddReasons)] }
	}
	var all []made
	e.do(&store.Query{}, func(f *store.Facts, b *Batch) {
		odd(b)
		for range jobs {
			m := e.build(f.Now, steps, b, enqueued(1, 0))
			all, ids = append(all, m), append(ids, m.key())
		}
		entries = append(entries, b.Entries...)
	})
	q := &store.Query{Jobs: ids}
	for _, m := range all {
		for _, s := range m.steps {
			q.Steps = append(q.Steps, s.StepKey)
		}
	}
	e.do(q, func(f *store.Facts, b *Batch) {
		odd(b)
		for _, k := range slices.Backward(q.Steps) {
			b.MoveStep(f.Jobs[k.Job], f.Steps[k], lifecycle.StepCancel)
		}
		for _, id := range ids {
			b.MoveJob(f.Jobs[id], lifecycle.JobPause, lifecycle.JobResume)
		}
		entries = append(entries, b.Entries...)
	})
	return ids, entries
}

// packedTrail: many entries are in few rows, and are read back as they were written, each
// entity's in its order, by the program and in SQL.
func packedTrail(e *env) {
	ids, entries := e.packed(3, 2)
	want, shown := map[store.EntityKey][]audit.Entry{}, [][]string{}
	for _, n := range entries {
		want[n.EntityKey] = append(want[n.EntityKey], n.Entry)
		shown = append(shown, []string{decimal(int64(n.Job)), decimal(int64(n.Ord)), decimal(n.Sequence), string(n.To), string(n.Event), n.RequestID, n.Actor, decimal(n.At)})
	}
	got := map[store.EntityKey][]audit.Entry{}
	e.ok(e.st.Trails(e.ctx, 0, func(t store.TrailOf) error { got[t.EntityKey] = t.Entries; return nil }))
	e.diff("all trails", want, got)
	for k, entries := range want {
		own, err := e.st.Trail(e.ctx, k, 0, 0)
		e.ok(err)
		e.diff(fmt.Sprint("the trail of ", k), entries, own)
		for _, n := range entries {
			found, err := e.st.Settle(e.ctx, k, &n)
			if err != nil || !found {
				e.Errorf("entry %d of %v: settled %v, %v", n.Sequence, k, found, err)
			}
		}
	}
	for _, id := range ids {
		e.verify(id)
	}
	e.diff("the view trail", sortedRows(shown), sortedRows(e.sql("select job, ord, seq, state, event, request_id, actor, at from trail")))
	e.diff("hashes", [][]string{{decimal(int64(len(entries)))}}, e.sql("select count(distinct hash) from trail where metadata is null or seq = 2"))
	e.diff("fewer rows than half of the entries", [][]string{{"1"}}, e.sql(fmt.Sprintf("select count(*) from (select count(*) as n from audit) a where n < %d", len(entries)/2)))
}

func sortedRows(rows [][]string) [][]string {
	slices.SortFunc(rows, func(a, b []string) int { return strings.Compare(strings.Join(a, "\x00"), strings.Join(b, "\x00")) })
	return rows
}

// packedDownAndUp: the previous version has a row for each entry, and nothing is lost.
func packedDownAndUp(e *env) {
	ids, entries := e.packed(2, 3)
	read := func() map[store.EntityKey][]audit.Entry {
		all := map[store.EntityKey][]audit.Entry{}
		e.ok(e.st.Trails(e.ctx, 0, func(t store.TrailOf) error { all[t.EntityKey] = t.Entries; return nil }))
		return all
	}
	before, transitions := read(), e.sql("select * from job_state_transitions")
	_, newest := e.version()
	e.ok(e.st.Migrate(e.ctx, 4))
	e.diff("rows of version 4", decimal(int64(len(entries))), e.sql("select count(*) from audit")[0][0])
	e.diff("transitions of version 4", transitions, e.sql("select * from job_state_transitions"))
	e.ok(e.st.Migrate(e.ctx, newest))
	if e.db.Name != "" {
		e.st = e.open()
	}
	e.diff("trails", before, read())
	e.verify(ids[0])
}

// packedDamaged: a row whose list cannot be read is omitted, and does not hide the others.
func packedDamaged(e *env) {
	ids, _ := e.packed(2, 2)
	_, _, err := e.db.SQL(e.ctx, fmt.Sprintf("update audit set more = '[[1,2]]' where more is not null and job = %d", ids[0]))
	e.ok(err)
	whole := map[rowkey.Job]bool{}
	e.ok(e.st.Trails(e.ctx, 0, func(t store.TrailOf) error {
		if t.Record.Seq == int64(len(t.Entries)) {
			whole[t.Job] = true
		}
		return nil
	}))
	if whole[ids[0]] || !whole[ids[1]] {
		e.Errorf("trails are whole: %v; want those of the second job alone", whole)
	}
	if _, err := e.st.Trail(e.ctx, store.JobEntity(ids[0]), 0, 0); err != nil {
		e.Error(err)
	}
}

// packedTampered: any change to a list or a row causes a fault in the trails of its job, and
// of no other job.
func packedTampered(e *env) {
	for name, sql := range map[string]string{
		"an entry changed":     `set more = replace(more, 'r-st_', 'R-st_')`,
		"a list dropped":       `set more = null`,
		"a list of no entries": `set more = '[]'`,
		"entries of nobody":    `set more = replace(more, '[1048', '[9048')`,
		"a job's list moved":   `set more = (select b.more from audit b where b.job = %[2]d and b.ord = audit.ord and b.seq = audit.seq)`,
		"a list twice":         `set more = replace(more, ']]', '],' || substr(more, 2, length(more) - 2) || ']')`,
		"a row dropped":        ``,
		"a row moved":          `set seq = seq + 7`,
	} {
		ids, _ := e.packed(2, 2)
		statement := "delete from audit"
		if sql != "" {
			statement = "update audit " + sql
			if strings.Contains(sql, "%[2]") {
				statement = fmt.Sprintf(statement, ids[0], ids[1])
			}
		}
		_, _, err := e.db.SQL(e.ctx, fmt.Sprintf("%s where more is not null and job = %d", statement, ids[0]))
		e.ok(err)
		if !e.faulty(ids[0]) {
			e.Errorf("%s: nobody sees it", name)
		}
		e.verify(ids[1])
	}
}

// faulty reports whether a trail of the job has a fault.
func (e *env) faulty(job rowkey.Job) (found bool) {
	e.ok(e.st.Trails(e.ctx, job, func(t store.TrailOf) error {
		f := audit.Verify(lifecycle.ByName(t.Kind), t.Entries, audit.Stored{Entity: t.ID, State: t.Record.State, Seq: t.Record.Seq, Head: t.Record.Head})
		found = found || f != nil
		return nil
	}))
	return found
}

// packedWide: a job of hundreds of steps has rows of a bounded size.
func packedWide(e *env) {
	ids, entries := e.packed(1, 300)
	e.verify(ids[0])
	row := e.sql("select max(length(more)), count(*) from audit")[0]
	var longest, rows int
	if _, err := fmt.Sscan(row[0]+" "+row[1], &longest, &rows); err != nil || longest > 1100 || rows < len(entries)/20 {
		e.Errorf("the longest list has %d characters, in %d rows for %d entries, %v", longest, rows, len(entries), err)
	}
}
