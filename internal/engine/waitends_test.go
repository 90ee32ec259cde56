package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
)

// A quietDatabase is a database with a server and workers that never scan by themselves:
// everything that happens is due to a commit that marked it, moved it, or sent a hint.
type quietDatabase struct {
	*testing.T
	db     *database
	server *process // evaluates
	other  *process // another process, which ends the causes of waits
	held   *gate    // of the handler "block"
}

const never = 24 * time.Hour

func newQuietDatabase(t *testing.T, db *database) *quietDatabase {
	l := &quietDatabase{T: t, db: db, held: newGate(false)}
	open := func(passive bool) *process {
		p := &process{t: t, store: db.open()}
		p.engine = engine.New(engine.Config{Store: p.store, Poll: never, Silence: 3 * never, Passive: passive, Jitter: func() float64 { return 0 }})
		t.Cleanup(p.stop)
		return p
	}
	l.server, l.other = open(false), open(true)
	until(t, "hints are heard", func() bool { return l.server.store.Hears() && l.other.store.Hears() })
	t.Cleanup(l.held.release)
	return l
}

// staff starts a worker of the other process.
func (l *quietDatabase) staff(capacity int, handlers map[string]worker.Handler) {
	l.Helper()
	w, err := worker.Start(l.Context(), l.other.engine, worker.Config{Handlers: handlers, Capacity: capacity, Poll: never, Beat: never})
	must(l.T, err)
	l.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = w.Drain(ctx)
	})
}

// usual returns a worker's handlers, including one that waits until the test releases it.
func (l *quietDatabase) usual() map[string]worker.Handler {
	return map[string]worker.Handler{"h": nop, "block": l.held.run}
}

// submit submits a job to the other process.
func (l *quietDatabase) submit(source string) pawl.ID { return l.other.submit(define(l.T, source), "") }

func (l *quietDatabase) state(id pawl.ID) machine.State { return l.server.job(id).Status }

func (l *quietDatabase) stepIs(id pawl.ID, step string, state machine.State) func() bool {
	return func() bool { return steps(l.server.job(id))[step].Status == state }
}

func (l *quietDatabase) jobIs(id pawl.ID, state machine.State) func() bool {
	return func() bool { return l.state(id) == state }
}

// waits are the kinds of waits. Each starts one, and returns a function that ends its cause
// and one that reports whether the wait is over.
var waits = map[string]func(l *quietDatabase) (end func(), over func() bool){
	"a slot of the job": func(l *quietDatabase) (func(), func() bool) {
		l.staff(5, l.usual())
		id := l.submit("name: w\nworkers: 1\nsteps: [{id: o, handler: h}, {id: a, needs: [o], handler: block}, {id: b, needs: [o], handler: h}]\n")
		l.held.wait(l.T)
		until(l.T, "it waits", l.stepIs(id, "b", lifecycle.StepPending))
		return l.held.release, l.stepIs(id, "b", lifecycle.StepComplete)
	},
	"a worker's turn": func(l *quietDatabase) (func(), func() bool) {
		l.staff(1, l.usual())
		l.submit("name: w\nsteps: [{id: a, handler: block}]\n")
		l.held.wait(l.T)
		id := l.submit("name: w\nsteps: [{id: a, handler: h}]\n")
		return l.held.release, l.jobIs(id, lifecycle.JobCompleted)
	},
	"a worker": func(l *quietDatabase) (func(), func() bool) {
		id := l.submit("name: w\nsteps: [{id: a, handler: h}, {id: b, handler: other}]\n")
		return func() { l.staff(2, map[string]worker.Handler{"h": nop, "other": nop}) }, l.jobIs(id, lifecycle.JobCompleted)
	},
	"a slot of a queue": func(l *quietDatabase) (func(), func() bool) {
		l.server.limit("queue/default", 1)
		l.staff(5, l.usual())
		l.submit("name: w\nsteps: [{id: a, handler: block}]\n")
		l.held.wait(l.T)
		id := l.submit("name: w\nsteps: [{id: a, handler: h}]\n")
		return l.held.release, l.jobIs(id, lifecycle.JobCompleted)
	},
	"a quota that is raised": func(l *quietDatabase) (func(), func() bool) {
		l.server.limit("queue/default", 0)
		l.staff(5, l.usual())
		id := l.submit("name: w\nsteps: [{id: a, handler: h}]\n")
		return func() { l.other.limit("queue/default", 1) }, l.jobIs(id, lifecycle.JobCompleted)
	},
	"slots of a depth": func(l *quietDatabase) (func(), func() bool) {
		l.server.limit("depth/0", 1)
		l.staff(5, l.usual())
		first := l.submit("name: w\nworkers: 1\nsteps: [{id: a, handler: block}]\n")
		l.held.wait(l.T)
		id := l.submit("name: w\nworkers: 1\nsteps: [{id: a, handler: h}]\n")
		until(l.T, "the first runs", l.jobIs(first, lifecycle.JobRunning))
		return l.held.release, l.jobIs(id, lifecycle.JobCompleted)
	},
	"a concurrency key": func(l *quietDatabase) (func(), func() bool) {
		l.staff(5, l.usual())
		const source = "name: keyed\nconcurrency: {limit: 1}\nsteps: [{id: a, handler: block}]\n"
		l.submit(source)
		l.held.wait(l.T)
		id := l.submit(source)
		return l.held.release, l.jobIs(id, lifecycle.JobCompleted)
	},
	"what a step needs": func(l *quietDatabase) (func(), func() bool) {
		l.staff(5, l.usual())
		id := l.submit("name: w\nsteps: [{id: a, handler: block}, {id: b, needs: [a], if: true, handler: h}]\n")
		l.held.wait(l.T)
		return l.held.release, l.jobIs(id, lifecycle.JobCompleted)
	},
	"instances": func(l *quietDatabase) (func(), func() bool) {
		l.staff(5, l.usual())
		id := l.submit("name: w\nsteps: [{id: a, matrix: {x: [1, 2]}, handler: block}]\n")
		l.held.wait(l.T)
		l.held.wait(l.T)
		return l.held.release, l.jobIs(id, lifecycle.JobCompleted)
	},
	"a child job": func(l *quietDatabase) (func(), func() bool) {
		l.staff(5, l.usual())
		l.server.register(define(l.T, "name: leaf\nsteps: [{id: a, handler: block}]\n"))
		id := l.submit("name: w\nsteps: [{id: down, workflow: leaf}]\n")
		l.held.wait(l.T)
		return l.held.release, l.jobIs(id, lifecycle.JobCompleted)
	},
	"the end of a cancelled child": func(l *quietDatabase) (func(), func() bool) {
		l.staff(5, l.usual())
		l.server.register(define(l.T, "name: leaf\nsteps: [{id: nap, sleep: 24h}]\nhooks: {always: [{id: a, handler: block}]}\n"))
		id := l.submit("name: w\nsteps: [{id: down, workflow: leaf}]\n")
		until(l.T, "the child runs", l.stepIs(id, "down", lifecycle.StepInProgress))
		must(l.T, errorOf(l.other.engine.Cancel(l.Context(), id, note("enough"))))
		l.held.wait(l.T)
		return l.held.release, l.jobIs(id, lifecycle.JobCanceled)
	},
	"a signal": func(l *quietDatabase) (func(), func() bool) {
		id := l.submit("name: w\nsteps: [{id: told, event: {name: go_on}}]\n")
		until(l.T, "it waits", l.stepIs(id, "told", lifecycle.StepInProgress))
		return func() { must(l.T, errorOf(l.other.engine.Signal(l.Context(), id, "go_on", nil, ann))) }, l.jobIs(id, lifecycle.JobCompleted)
	},
	"an approval": func(l *quietDatabase) (func(), func() bool) {
		id := l.submit("name: w\nsteps: [{id: asked, approval: {prompt: Well?}}, {id: then, needs: [asked], if: true, approval: {prompt: Sure?}}]\n")
		until(l.T, "it waits", l.stepIs(id, "asked", lifecycle.StepInProgress))
		return func() { must(l.T, errorOf(l.other.engine.Approve(l.Context(), id, "asked", nil, ann))) }, l.stepIs(id, "then", lifecycle.StepInProgress)
	},
	"a pause": func(l *quietDatabase) (func(), func() bool) {
		l.staff(5, l.usual())
		id := l.submit("name: w\nsteps: [{id: a, handler: block}, {id: b, needs: [a], handler: h}, {id: c, needs: [a], if: true, handler: h}]\n")
		l.held.wait(l.T)
		must(l.T, errorOf(l.other.engine.PauseJob(l.Context(), id, ann)))
		l.held.release()
		until(l.T, "they wait", func() bool {
			return l.stepIs(id, "a", lifecycle.StepComplete)() && l.server.sees(id, func(_ *pawl.Job, s *pawl.Step) bool { return s.Mark == pawl.Waiting })
		})
		return func() { must(l.T, errorOf(l.other.engine.ResumeJob(l.Context(), id, ann))) }, l.jobIs(id, lifecycle.JobCompleted)
	},
	"a delay that an operator ends": func(l *quietDatabase) (func(), func() bool) {
		first := true
		l.staff(5, map[string]worker.Handler{"h": func(ctx context.Context, task *worker.Task) worker.Result {
			if first {
				first = false
				return worker.Result{Failure: &pawl.Failure{Class: "test", Message: "not yet", Delay: pawl.Duration(never)}}
			}
			return nop(ctx, task)
		}})
		id := l.submit("name: w\nsteps: [{id: a, handler: h}]\n")
		until(l.T, "it waits", func() bool { return steps(l.server.job(id))["a"].NotBefore != 0 })
		return func() { must(l.T, errorOf(l.other.engine.RetryStep(l.Context(), id, "a", ann))) }, l.jobIs(id, lifecycle.JobCompleted)
	},
	"a deadline": func(l *quietDatabase) (func(), func() bool) { // the deadline is its own cause
		id := l.submit("name: w\nsteps: [{id: nap, sleep: 100ms}]\n")
		return func() {}, l.jobIs(id, lifecycle.JobCompleted)
	},
	"the job of the time before": func(l *quietDatabase) (func(), func() bool) {
		l.staff(5, l.usual())
		l.server.register(define(l.T, "name: slow\nsteps: [{id: a, handler: block}]\n"))
		name := pawl.ScheduleName{Workspace: pawl.DefaultWorkspace, Name: "s"}
		must(l.T, errorOf(l.server.engine.PutSchedule(l.Context(), pawl.SchedulePlan{Name: name.Name, Workflow: "slow", Cron: "@every 1s", Overlap: schedule.Queue}, false, ann)))
		l.held.wait(l.T)
		until(l.T, "a time waits", func() bool { s := l.schedule(); return s != nil && s.Waiting != 0 })
		// From here on its own time would come in a day.
		l.db.sql("update schedule set due_at = due_at + 86400000000")
		return l.held.release, func() bool { s := l.schedule(); return s.Waiting == 0 }
	},
}

func (l *quietDatabase) schedule() *pawl.Schedule {
	all, err := l.server.store.Schedules(l.Context(), pawl.ScheduleName{Workspace: pawl.DefaultWorkspace}, pawl.ScheduleName{}, 0)
	must(l.T, err)
	if len(all) == 0 {
		return nil
	}
	return all[0]
}

// TestACommitEndsEachWait: no wait depends on an occasional scan, on the sweep, or on a
// deadline, except the waits for a deadline.
func TestACommitEndsEachWait(t *testing.T) { // K8, T2, T3, J7
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			onShared(t, func(t *testing.T, db *database) {
				l := newQuietDatabase(t, db)
				end, over := wait(l)
				end()
				until(t, "it goes on", over)
			})
		})
	}
}
