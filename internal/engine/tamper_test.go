package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// everyKind is a workflow that has every kind of step: of a worker, an approval, one
// that fails at first, instances, a child, one that hears a signal, and a hook.
const everyKind = `
name: every
inputs: {secret: {required: true}}
steps:
  - {id: gate, approval: {prompt: "Really?"}}
  - {id: shaky, handler: shaky, retry: {max_attempts: 2, base: 1ms}}
  - {id: each, foreach: [1, 2, 3], handler: echo}
  - {id: told, event: {name: go}}
  - {id: sub, workflow: leaf}
hooks:
  always: [{id: tidy, handler: echo}]
output: ${{ steps.each.output }}
`

// A ledger is a database with a job of every kind of step, no longer in use.
type ledger struct {
	*testing.T
	db    *database
	store store.Store
	job   pawl.ID
	child rowkey.Job
	ords  map[string]pawl.Ord

	worker, schedule rowkey.Job
}

func newLedger(t *testing.T, db *database) *ledger {
	s := db.open()
	failed := false
	p := start(t, s, setup{handlers: map[string]worker.Handler{
		"echo": worker.Func(func(context.Context, *worker.Task) (any, error) { return json.RawMessage(`"yes"`), nil }),
		"shaky": worker.Func(func(context.Context, *worker.Task) (any, error) {
			if !failed {
				failed = true
				return nil, errors.New("the token is s3cret")
			}
			return json.RawMessage(`{"ok":true}`), nil
		}),
	}})
	p.register(define(t, "name: leaf\nsteps: [{id: one, handler: echo}]\n"))
	def := define(t, everyKind)
	p.register(def)
	must(t, errorOf(p.engine.PutSchedule(t.Context(), pawl.SchedulePlan{Name: "nightly", Workflow: "leaf", Cron: "@yearly"}, false, ann)))
	l := &ledger{T: t, db: db, store: s, job: p.submit(def, `{"secret": "hunter2"}`), ords: map[string]pawl.Ord{}}
	p.waiting(l.job, "gate")
	must(t, errorOf(p.engine.Approve(t.Context(), l.job, "gate", nil, ann)))
	p.waiting(l.job, "told")
	p.signal(l.job, "go", `{"n":1}`)
	if v := p.wait(l.job); v.Status != lifecycle.JobCompleted {
		t.Fatal(p.dump(l.job))
	}
	p.stop()
	children, err := s.Jobs(t.Context(), store.JobFilter{Parent: l.job.JobKey()})
	must(t, err)
	l.child = children[0].Key()
	for i, id := range []string{"gate", "shaky", "each", "told", "sub", "tidy"} {
		l.ords[id] = pawl.MakeOrd(i+1, 0)
	}
	l.ords["each[2]"] = pawl.MakeOrd(3, 2)
	must(t, s.Trails(t.Context(), 0, func(trail store.TrailOf) error {
		switch trail.Kind {
		case lifecycle.Worker.Name:
			l.worker = trail.Job
		case lifecycle.Schedule.Name:
			l.schedule = trail.Job
		}
		return nil
	}))
	l.sound("untouched")
	return l
}

func (l *ledger) sound(what string) {
	l.Helper()
	if f, err := verified(l.store, 0); f != nil || err != nil {
		l.Fatalf("%s: %v, %v", what, f, err)
	}
}

var ledgerTables = []string{"job", "step", "audit", "signal", "worker", "worker_audit", "schedule", "schedule_audit"}

// tampered runs statements, checks that verification reports them with the code, and
// reverts them. It returns the fault.
func (l *ledger) tampered(what string, code audit.Code, statements ...string) *audit.Fault {
	l.Helper()
	var touched []string
	for _, table := range ledgerTables {
		if strings.Contains(strings.Join(statements, "; ")+" ", " "+table+" ") {
			touched = append(touched, table)
			l.db.sql("create table was_" + table + " as select * from " + table)
		}
	}
	for _, sql := range statements {
		l.db.sql(sql)
	}
	f, err := verified(l.store, 0)
	switch {
	case err != nil:
		l.Errorf("%s: %v", what, err)
	case f == nil:
		l.Errorf("%s: nobody sees it", what)
	case code != "" && f.Code != code:
		l.Errorf("%s: %v, want the code %s", what, f, code)
	}
	for _, table := range touched {
		l.db.sql("delete from " + table)
		l.db.sql("insert into " + table + " select * from was_" + table)
		l.db.sql("drop table was_" + table)
	}
	if f == nil {
		f = &audit.Fault{}
	}
	return f
}

// unpack gives each entry of a job a row of its own, which is equivalent.
func (l *ledger) unpack(job rowkey.Job) {
	l.Helper()
	var rows []string
	must(l.T, l.store.Trails(l.Context(), job, func(t store.TrailOf) error {
		for i := range t.Entries {
			e := &t.Entries[i]
			meta := "null"
			if len(e.Metadata) > 0 {
				meta = l.bytes(e.Metadata, l.db.kind != "postgres")
			}
			rows = append(rows, fmt.Sprintf("(%d, %d, %d, '%s', '%s', '%s', '%s', '%s', %s, %d, %s, %s)", t.Job, t.Ord, e.Sequence, e.To, e.Event,
				strings.ReplaceAll(e.Reason, "'", "''"), e.Actor, e.RequestID, meta, e.At, l.bytes(e.Hash[:], false), l.bytes(e.AppendExtra(nil), false)))
		}
		return nil
	}))
	l.db.sql(fmt.Sprintf("delete from audit where job = %d", job))
	l.db.sql("insert into audit (job, ord, seq, state, event, reason, actor, request_id, metadata, at, hash, seals) values " + strings.Join(rows, ", "))
	l.sound("unpacked")
}

func (l *ledger) bytes(b []byte, text bool) string {
	switch {
	case text:
		return fmt.Sprintf("cast(x'%x' as text)", b)
	case l.db.kind == "postgres":
		return fmt.Sprintf(`'\x%x'::bytea`, b)
	}
	return fmt.Sprintf("x'%x'", b)
}

// TestK6TamperedRows: every field of every kind of row is proved, on both databases.
func TestK6TamperedRows(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		l := newLedger(t, db)
		key := l.job.JobKey()
		l.packed(key)
		l.unpack(key)
		l.unpack(l.child)
		of := func(job rowkey.Job, ord pawl.Ord) string { return fmt.Sprintf("job = %d and ord = %d", job, ord) }
		entities := map[string][2]string{ // the table of the trail, and which rows
			"job": {"audit", of(key, 0)}, "step of the child": {"audit", of(l.child, pawl.MakeOrd(1, 0))},
			"worker": {"worker_audit", fmt.Sprint("worker = ", l.worker)}, "schedule": {"schedule_audit", fmt.Sprint("schedule = ", l.schedule)},
		}
		for _, name := range []string{"each", "each[2]", "tidy"} {
			ord := l.ords[name]
			entities[name] = [2]string{"audit", of(key, ord)}
		}
		for name, e := range entities {
			l.rows(name, e[0], e[1])
		}
		for what, where := range map[string]string{
			"job": fmt.Sprint("id = ", key), "worker": fmt.Sprint("id = ", l.worker), "schedule": fmt.Sprint("id = ", l.schedule),
			"step": of(key, l.ords["tidy"]), "instance": of(key, l.ords["each[2]"]),
		} {
			table := what
			if what == "instance" {
				table = "step"
			}
			l.tampered("the record of a "+what+" removed", "", "delete from "+table+" where "+where)
		}
	})
}

// rows tampers with the rows of one trail.
func (l *ledger) rows(name, table, where string) {
	l.Helper()
	first := " where " + where + " and seq = 1"
	last := fmt.Sprintf(" where %s and seq = (select max(seq) from %s where %s)", where, table, where)
	for field, value := range map[string]string{
		"event": "'claim'", "reason": "'whatever'", "actor": "'nobody'", "request_id": "'r-9'", "at": "at + 1",
		"metadata": l.bytes([]byte(`{"x":1}`), l.db.kind != "postgres"), "hash": l.bytes(make([]byte, 32), false),
		"seals": l.bytes([]byte{2, 2, 9}, false),
	} {
		l.tampered(name+": "+field, "", "update "+table+" set "+field+" = "+value+first)
	}
	l.tampered(name+": version 1 instead", audit.FaultHash, "update "+table+" set seals = null"+first)
	l.tampered(name+": the first row removed", "", "delete from "+table+first)
	l.tampered(name+": the last row removed", "", "delete from "+table+last)
	l.tampered(name+": re-numbered", "", "update "+table+" set seq = seq + 1000"+last)
	l.tampered(name+": all rows removed", "", "delete from "+table+" where "+where)
}

// packed tampers with lists of entries.
func (l *ledger) packed(job rowkey.Job) {
	l.Helper()
	more := "more"
	if l.db.kind == "postgres" {
		more = "further"
	}
	one := fmt.Sprintf(" where job = %d and ord = 0 and seq = (select min(seq) from audit where job = %[1]d and ord = 0 and %s is not null)", job, more)
	l.tampered("a list doubled", audit.FaultOrder, fmt.Sprintf("update audit set %[1]s = substr(%[1]s, 1, length(%[1]s) - 1) || ',' || substr(%[1]s, 2)%s", more, one))
	l.tampered("a list removed", "", "update audit set "+more+" = null"+one)
	l.tampered("a list in two rows", "", fmt.Sprintf("update audit set %[1]s = (select %[1]s from audit%s) where job = %d and ord = 0 and %[1]s is null", more, one, job),
		fmt.Sprintf("update audit set %[1]s = substr(%[1]s, 1, length(%[1]s) - 1) || ',' || (select substr(%[1]s, 2) from audit%s) where job = %d and ord = 0 and seq = (select max(seq) from audit where job = %[3]d and ord = 0 and %[1]s is not null)", more, one, job))
	l.tampered("another step in a list", "", fmt.Sprintf("update audit set %[1]s = replace(%[1]s, '[%d,1,', '[%d,1,')%s", more, pawl.MakeOrd(1, 0), pawl.MakeOrd(2, 0), one))
}

// TestK6TamperedPayload: an edited, removed or added input, output, error or datum is
// reported, with its entity and field.
func TestK6TamperedPayload(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		l := newLedger(t, db)
		key := l.job.JobKey()
		job := fmt.Sprintf(" where id = %d", key)
		step := func(id string) string { return fmt.Sprintf(" where job = %d and ord = %d", key, l.ords[id]) }
		id := func(name string) string { return l.job.Step(l.ords[name]).Public(pawl.StepPrefix) }
		for _, x := range []struct{ what, sql, entity, field string }{
			{"inputs", "update job set inputs = '{\"secret\":\"hunter3\"}'" + job, l.job.Public(pawl.JobPrefix), "inputs"},
			{"no inputs", "update job set inputs = null" + job, l.job.Public(pawl.JobPrefix), "inputs"},
			{"output of the job", "update job set output = '[1]'" + job, l.job.Public(pawl.JobPrefix), "output"},
			{"metadata added", "update job set metadata = '{\"a\":1}'" + job, l.job.Public(pawl.JobPrefix), "metadata"},
			{"error added", "update job set error = '{\"class\":\"x\",\"message\":\"y\",\"permanent\":true}'" + job, l.job.Public(pawl.JobPrefix), "error"},
			{"output", "update step set output = '\"no\"'" + step("tidy"), id("tidy"), "output"},
			{"output of an instance", "update step set output = '\"no\"'" + step("each[2]"), id("each[2]"), "output"},
			{"items", "update step set input = '[1,2,4]'" + step("each"), id("each"), "input"},
			{"what was asked", "update step set input = '{\"kind\":\"approval\",\"prompt\":\"Sure?\"}'" + step("gate"), id("gate"), "input"},
			{"an earlier failure", "update step set error = null" + step("shaky"), id("shaky"), "error"},
			{"form of an approval", "update step set output = '{\"a\":1}'" + step("gate"), id("gate"), "output"},
			{"data of a signal", fmt.Sprintf("update signal set data = '{\"n\":2}' where job = %d", key), l.job.Public(pawl.JobPrefix), "data"},
			{"a signal", fmt.Sprintf("delete from signal where job = %d", key), l.job.Public(pawl.JobPrefix), "signal"},
			{"inputs of a schedule", "update schedule set inputs = '{\"a\":1}'", "", "inputs"},
		} {
			if f := l.tampered(x.what, audit.FaultPayload, x.sql); x.entity != "" && f.Entity != x.entity || !strings.Contains(f.Message, x.field) {
				t.Errorf("%s: %v, want %s of %s", x.what, f, x.field, x.entity)
			}
		}
	})
}

// TestK6RemovedStep: a step that is removed with its whole trail is reported, by its job
// and its ord; so is one that was added.
func TestK6RemovedStep(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		l := newLedger(t, db)
		key := l.job.JobKey()
		l.unpack(key)
		for name, ord := range l.ords {
			of := fmt.Sprintf(" where job = %d and ord = %d", key, ord)
			f := l.tampered("without "+name, audit.FaultTree, "delete from step"+of, "delete from audit"+of)
			if f.Entity != l.job.Public(pawl.JobPrefix) || !strings.Contains(f.Message, fmt.Sprintf("(ord %d)", ord)) {
				t.Errorf("%s was removed: %v", name, f)
			}
			if name == "each" {
				continue
			}
			l.tampered("another number of "+name, audit.FaultTree, "update step set folded = folded + 1"+of)
			l.tampered("no number of "+name, audit.FaultTree, "update step set folded = 0"+of)
		}
		// The job as it would be without the approval: four unnoticed statements.
		l.tampered("the tree of the record", "", fmt.Sprintf("delete from step where job = %d and ord = %d", key, l.ords["gate"]),
			fmt.Sprintf("delete from audit where job = %d and ord = %d", key, l.ords["gate"]),
			fmt.Sprintf("update step set folded = folded - 1 where job = %d and folded > (select max(folded) from was_step where job = %[1]d and ord = %d)", key, l.ords["gate"]))
		end := fmt.Sprint(pawl.MakeOrd(9, 0))
		l.tampered("one more", "", strings.ReplaceAll(copyRow(l, "step", key, l.ords["tidy"]), "ORD", end), strings.ReplaceAll(copyRow(l, "audit", key, l.ords["tidy"]), "ORD", end))
	})
}

// copyRow copies the rows of a step to the ord ORD.
func copyRow(l *ledger, table string, job rowkey.Job, ord pawl.Ord) string {
	list := "job, seq, state, event, reason, actor, request_id, metadata, at, hash, seals"
	if table == "step" {
		var names []string
		for _, c := range store.Steps.Columns {
			if c.Name != "ord" {
				names = append(names, c.Name)
			}
		}
		if list = strings.Join(names, ", "); l.db.kind == "sqlite" {
			list += ", place"
		}
	}
	return fmt.Sprintf("insert into %s (%s, ord) select %[2]s, ORD from %[1]s where job = %[3]d and ord = %[4]d", table, list, job, ord)
}
