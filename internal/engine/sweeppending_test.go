package engine_test

import (
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
)

// TestPendingJobsNeedNoSweep: the scans and claims of processes that got no hint find a
// pending job, whatever it waits for: here a slot is freed by hand.
func TestPendingJobsNeedNoSweep(t *testing.T) { // K8
	for name, source := range map[string]string{
		"a concurrency key": "concurrency: {key: k, limit: 1}\nsteps: [{id: a, handler: h}]",
		"a quota":           "steps: [{id: a, handler: h}]",
		"several kinds":     "steps: [{id: a, handler: h}, {id: b, handler: other}]",
		"no worker":         "steps: [{id: a, sleep: 1ms}]",
	} {
		t.Run(name, func(t *testing.T) {
			onShared(t, func(t *testing.T, db *database) {
				quiet := startPassive(t, db.open(), nil)
				def := define(t, "name: waits\n"+source+"\n")
				id, holder := quiet.submit(def, ""), quiet.submit(def, "")
				db.holds(holder, lifecycle.JobRunning, 3)
				if name == "a quota" {
					db.sql("insert into quota (workspace, name, slots, at, actor, reason) values ('default', 'depth/0', 0, 1, 'x', 'x')")
				}
				p := startProcess(t, db.open(), map[string]worker.Handler{"h": nop, "other": nop})
				if name != "a quota" { // which nothing passes
					p.wait(p.submit(define(t, "name: beside\nsteps: []\n"), ""))
				}
				db.sql("delete from quota")
				db.holds(holder, lifecycle.JobCanceled, 0)
				if v := p.wait(id); v.Status != lifecycle.JobCompleted {
					t.Errorf("the job is %s", v.Status)
				}
			})
		})
	}
}

// holds makes a job of a concurrency key hold a slot or not, by hand.
func (db *database) holds(id pawl.ID, state machine.State, line int) {
	db.t.Helper()
	set := fmt.Sprintf("state = '%s'", state)
	if db.kind == "postgres" {
		set += fmt.Sprintf(", line = %d", line)
	}
	db.sql(fmt.Sprintf("update job set %s where id = %d and pool <> 0", set, id.JobKey()))
}

// TestTheSweepFindsPendingJobs that are in no queue, and no others.
func TestTheSweepFindsPendingJobs(t *testing.T) { // K8
	for name, lose := range map[string]string{
		"a route of nobody": "update job set route = 12345 where id = %d",
		"no line":           "update job set line = 0 where id = %d",
	} {
		t.Run(name, func(t *testing.T) {
			onShared(t, func(t *testing.T, db *database) {
				if name == "no line" && db.kind != "postgres" {
					return // SQLite has no lines: its indexes are on the state
				}
				quiet := startPassive(t, db.open(), nil)
				def := define(t, "name: lost\nsteps: [{id: a, handler: h}]\n")
				id, paused := quiet.submit(def, ""), quiet.submit(def, "")
				must(t, errorOf(quiet.engine.PauseJob(t.Context(), paused, why)))
				unserved := quiet.submit(define(t, "name: unserved\nsteps: [{id: a, handler: nobody}]\n"), "")
				db.sql(fmt.Sprintf(lose, id.JobKey()))

				p := startProcess(t, db.open(), map[string]worker.Handler{"h": nop})
				p.wait(p.submit(define(t, "name: beside\nsteps: [{id: a, handler: h}]\n"), ""))
				if v := p.job(id); v.Status != lifecycle.JobPending {
					t.Fatalf("the job is %s without a sweep", v.Status)
				}
				if n := p.sweepAll(); n != 1 {
					t.Errorf("%d were found, want one", n)
				}
				if v := p.wait(id); v.Status != lifecycle.JobCompleted {
					t.Errorf("the job is %s", v.Status)
				}
				for _, other := range []pawl.ID{paused, unserved} {
					if v := p.job(other); v.Status != lifecycle.JobPending {
						t.Errorf("another job is %s", v.Status)
					}
				}
				if n := p.sweepAll(); n != 0 {
					t.Errorf("%d were found again", n)
				}
				verify(t, p.store)
			})
		})
	}
}
