package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

var ledgerTests = []test{
	{name: "K5/InsertsComeBack", run: insertsComeBack},
	{name: "K5/UpdatesComeBack", run: updatesComeBack},
	{name: "K5/NilBodiesStay", run: nilBodiesStay},
	{name: "K5/Stale", run: stale},
	{name: "K5/AllOrNothing", run: allOrNothing},
	{name: "K5/Endings", run: endings},
	{name: "K5/DecideRefuses", run: decideRefuses},
	{name: "K5/DecidePanics", run: decidePanics},
	{name: "K5/CanceledContext", run: canceledContext},
	{name: "K5/Racers", run: racers},
	{name: "K5/Settle", run: settle},
	{name: "J8/Keys", run: keys},
	{name: "J8/ExpiredKey", run: expiredKey},
	{name: "J8/RacingKeys", run: racingKeys},
	{name: "J8/UnansweredKey", run: unansweredKey},
	{name: "DefinitionsOnce", run: definitionsOnce},
	{name: "LargeValues", run: largeValues},
	{name: "LargeBatches", run: largeBatches},
	{name: "Stats", run: stats},
	{name: "ViewsWhileDeciding", run: viewsWhileDeciding},
}

// full returns a job, a step and a worker with a value in every field.
func (e *env) full(now int64) (*pawl.Job, *pawl.Step, *pawl.Worker) {
	j := &pawl.Job{ID: e.mint.ID(now), Workspace: "ws", Definition: 11, Workflow: "flow", Description: "what \"it\" does\n",
		Version: 17, Parent: 12, ParentStep: pawl.MakeOrd(4, 2), Continues: 13, Schedule: 18, Depth: 5, WorkerCount: 3, Private: 19,
		Route: 14, Priority: -2, Rank: -1 << 60, Pool: 1<<62 + 1, Quota: 1<<62 + 2, Paused: true, Mark: pawl.Attention, MarkAt: 1 << 60, MarkTries: 7,
		Ending: lifecycle.JobFailed, Hooks: pawl.HooksRun, Open: 4, Blocked: 6, Active: 2, StartedAt: 21, CompletedAt: 22,
		Inputs: json.RawMessage(`{"a":"ü"}`), Output: json.RawMessage(`[1]`), Error: failure("job"), Metadata: json.RawMessage(`{"m":2}`)}
	j.DueAt, j.DueEvent = 1<<60, lifecycle.JobCancel
	s := &pawl.Step{StepKey: pawl.StepKey{Ord: pawl.MakeOrd(3, 9)}, Mark: pawl.Waiting, MarkAt: 1<<60 + 4, MarkTries: 8, Unmet: 2, Skipped: true, Attempts: 3, Claims: 4,
		Losses: 1, Worker: 15, Route: 16, Priority: 6, Rank: -1 << 61, Pool: 1<<62 + 3, Total: 100, Made: 50, Live: 25, EnqueuedAt: 31, StartedAt: 32, CompletedAt: 33,
		Input: json.RawMessage(`"item"`), Output: json.RawMessage(`null`), Error: failure("step")}
	s.DueAt, s.DueEvent = 1<<60+1, lifecycle.StepTimeout
	w := &pawl.Worker{ID: e.mint.ID(now), Workspace: "ws", Name: "h-1", Host: "h", PID: 77, Silence: time.Minute, Capacity: 8,
		Routes: []rowkey.Route{5, 1 << 62}, Handlers: []string{"q/a", "q/b"}, Metadata: json.RawMessage(`{"w":3}`)}
	w.DueAt, w.DueEvent = 1<<60+2, lifecycle.WorkerTerminate
	return j, s, w
}

func failure(class string) *pawl.Failure {
	return &pawl.Failure{Class: class, Message: "it broke", Permanent: true, Delay: 1500, Step: "s", Metadata: json.RawMessage(`{"code":1}`)}
}

func (e *env) diff(what string, want, got any) {
	e.Helper()
	if d := cmp.Diff(want, got, wholeText); d != "" {
		e.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// wholeText compares a payload as a whole: byte by byte, a page of megabytes takes minutes
// under the race detector.
var wholeText = cmp.Comparer(func(a, b json.RawMessage) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) })

// addFull stores one of each.
func (e *env) addFull() (*pawl.Job, *pawl.Step, *pawl.Worker) {
	e.Helper()
	var j *pawl.Job
	var s *pawl.Step
	var w *pawl.Worker
	e.do(&store.Query{}, func(f *store.Facts, b *Batch) {
		j, s, w = e.full(f.Now)
		b.AddJob(j)
		b.AddStep(j, s)
		b.AddWorker(w)
	})
	return j, s, w
}

func (e *env) compare(j *pawl.Job, s *pawl.Step, w *pawl.Worker) {
	e.Helper()
	gotJob, err := e.st.Job(e.ctx, j.Key())
	e.ok(err)
	e.diff("job", j, gotJob)
	gotSteps, err := e.st.Steps(e.ctx, j.Key(), 0, 0)
	e.ok(err)
	e.diff("steps", []*pawl.Step{s}, gotSteps)
	gotWorker, err := e.st.Worker(e.ctx, w.Key())
	e.ok(err)
	e.diff("worker", w, gotWorker)
}

func insertsComeBack(e *env) {
	e.compare(e.addFull())
}

func updatesComeBack(e *env) {
	j, s, w := e.addFull()
	e.do(&store.Query{Jobs: []rowkey.Job{j.Key()}, Steps: []pawl.StepKey{s.StepKey}, Workers: []rowkey.Worker{w.Key()}}, func(f *store.Facts, b *Batch) {
		id := j.ID
		*j = *f.Jobs[j.Key()]
		e.diff("id", id, j.ID)
		*s = *f.Steps[s.StepKey]
		*w = *f.Workers[w.Key()]
		b.MoveJob(j, lifecycle.JobValidate)
		b.MoveStep(j, s, lifecycle.StepEnqueue)
		b.MoveWorker(w, lifecycle.WorkerStartTask)
		j.Route, j.Priority, j.Paused, j.Mark, j.Ending, j.Open, j.Active = 41, 42, false, pawl.Clear, "", 43, 44
		j.Definition, j.Version, j.WorkerCount, j.Rank, j.Pool, j.Quota, j.Hooks, j.Blocked = 31, 32, 33, 34, 35, 36, pawl.HooksCancelled, 37
		j.StartedAt, j.CompletedAt, j.DueAt, j.DueEvent = 45, 46, 0, ""
		j.Inputs, j.Output, j.Error, j.Metadata = json.RawMessage(`{}`), json.RawMessage(`2`), failure("other"), json.RawMessage(`{"n":1}`)
		j.MarkAt, j.MarkTries, s.MarkAt, s.MarkTries = 47, 48, 49, 50
		s.Mark, s.Unmet, s.Skipped, s.Attempts, s.Claims, s.Losses, s.Worker, s.Route, s.Priority = pawl.Attention, 51, false, 52, 53, 54, 55, 56, 57
		s.Rank, s.Pool = 1<<61, 65
		s.Total, s.Made, s.Live, s.EnqueuedAt, s.StartedAt, s.CompletedAt, s.DueAt, s.DueEvent = 58, 59, 60, 61, 62, 63, 64, "x"
		s.Input, s.Output, s.Error = json.RawMessage(`1`), json.RawMessage(`2`), failure("third")
		w.DueAt, w.DueEvent, w.Capacity, w.Routes, w.Handlers, w.Metadata = 71, "y", 72, []rowkey.Route{73}, []string{"74"}, json.RawMessage(`{}`)
	})
	e.compare(j, s, w)
}

func nilBodiesStay(e *env) {
	j, s, w := e.addFull()
	e.do(&store.Query{Jobs: []rowkey.Job{j.Key()}, Steps: []pawl.StepKey{s.StepKey}, Workers: []rowkey.Worker{w.Key()}}, func(f *store.Facts, b *Batch) {
		job, step, worker := f.Jobs[j.Key()], f.Steps[s.StepKey], f.Workers[w.Key()]
		if job.Inputs != nil || job.Output != nil || job.Error != nil || job.Metadata != nil || step.Input != nil || step.Output != nil || step.Error != nil {
			e.Errorf("facts have bodies: %+v, %+v", job, step)
		}
		worker.Metadata = nil
		b.MoveJob(job, lifecycle.JobValidate)
		b.MoveStep(job, step, lifecycle.StepEnqueue)
		b.MoveWorker(worker, lifecycle.WorkerStartTask)
		j.Record, s.Record, w.Record = job.Record, step.Record, worker.Record
	})
	e.compare(j, s, w)
	// One body alone: the others stay.
	e.do(&store.Query{Jobs: []rowkey.Job{j.Key()}, Steps: []pawl.StepKey{s.StepKey}}, func(f *store.Facts, b *Batch) {
		job, step := f.Jobs[j.Key()], f.Steps[s.StepKey]
		job.Output, step.Output = json.RawMessage(`"new"`), json.RawMessage(`"new"`)
		b.MoveJob(job, lifecycle.JobPause)
		b.MoveStep(job, step, lifecycle.StepRequeue)
		j.Record, j.Output, s.Record, s.Output = job.Record, job.Output, step.Record, step.Output
	})
	e.compare(j, s, w)
}

// stale: any record that another transaction changed or created fails the whole transaction.
func stale(e *env) {
	j, s, w := e.addFull()
	query := &store.Query{Jobs: []rowkey.Job{j.Key()}, Steps: []pawl.StepKey{s.StepKey}, Workers: []rowkey.Worker{w.Key()}}
	for name, change := range map[string]func(f *store.Facts, b *Batch){
		"job version":    func(_ *store.Facts, b *Batch) { b.MoveJob(j, lifecycle.JobValidate); b.Jobs[0].Was-- },
		"step version":   func(_ *store.Facts, b *Batch) { b.MoveStep(j, s, lifecycle.StepEnqueue); b.Steps[0].Was++ },
		"worker version": func(_ *store.Facts, b *Batch) { b.MoveWorker(w, lifecycle.WorkerStartTask); b.Workers[0].Was++ },
		"job exists":     func(_ *store.Facts, b *Batch) { b.NewJobs = append(b.NewJobs, j) },
		"step exists":    func(_ *store.Facts, b *Batch) { b.NewSteps = append(b.NewSteps, s) },
		"worker exists":  func(_ *store.Facts, b *Batch) { b.NewWorkers = append(b.NewWorkers, w) },
		"entry exists": func(_ *store.Facts, b *Batch) {
			b.Entries = append(b.Entries, store.Entry{EntityKey: JobKey(j), Entry: audit.Entry{Sequence: 1, To: lifecycle.JobSubmitted, Event: "submit"}})
		},
		"job is gone": func(f *store.Facts, b *Batch) {
			gone := *j
			gone.ID = e.mint.ID(f.Now)
			b.MoveJob(&gone, lifecycle.JobValidate)
		},
	} {
		var other *pawl.Job
		jobWas, stepWas, workerWas := *j, *s, *w
		err := e.try(e.st, query, func(f *store.Facts, b *Batch) {
			other, _, _ = e.full(f.Now)
			b.AddJob(other)
			change(f, b)
		})
		*j, *s, *w = jobWas, stepWas, workerWas
		if !errors.Is(err, store.ErrStale) {
			e.Errorf("%s: error %v, want ErrStale", name, err)
		}
		if _, err := e.st.Job(e.ctx, other.Key()); !errors.Is(err, store.ErrNotFound) {
			e.Errorf("%s: error %v of what was in the same transaction, want ErrNotFound", name, err)
		}
		e.compare(j, s, w)
	}
}

// allOrNothing: if the database refuses a part, nothing is written.
func allOrNothing(e *env) {
	var m made
	err := e.try(e.st, &store.Query{}, func(f *store.Facts, b *Batch) {
		m = e.build(f.Now, 2, b, nil)
		m.steps[1].State = "no such state"
	})
	if err == nil || errors.Is(err, store.ErrStale) || errors.Is(err, store.ErrUnknown) {
		e.Errorf("error %v of a state that does not exist, want an error of the database", err)
	}
	e.absent(m.key())
	e.add(1, nil) // the handle still works
}

// absent checks that nothing of the job is stored.
func (e *env) absent(job rowkey.Job) {
	e.Helper()
	if _, err := e.st.Job(e.ctx, job); !errors.Is(err, store.ErrNotFound) {
		e.Errorf("job: error %v, want ErrNotFound", err)
	}
	steps, err := e.st.Steps(e.ctx, job, 0, 0)
	e.ok(err)
	trail, err := e.st.Trail(e.ctx, store.EntityKey{Kind: "job", StepKey: pawl.StepKey{Job: job}}, 0, 0)
	e.ok(err)
	if len(steps)+len(trail) > 0 {
		e.Errorf("%d steps and %d entries of a transaction that was rolled back", len(steps), len(trail))
	}
}

// endings: the ending of a job is one of the defined ends, or empty.
func endings(e *env) {
	for _, ending := range append(slices.Clone(everyState()), "") {
		want := ending == "" || lifecycle.Job.Ended(ending)
		err := e.try(e.st, &store.Query{}, func(f *store.Facts, b *Batch) {
			e.build(f.Now, 0, b, func(m made, _ *Batch) { m.job.Ending = ending })
		})
		if (err == nil) != want {
			e.Errorf("ending %q: error %v", ending, err)
		}
	}
}

// decideRefuses: its error is returned unchanged, and decide runs once.
func decideRefuses(e *env) {
	refusal := &machine.Refusal{Machine: "job"}
	calls := 0
	var m made
	err := e.st.Do(e.ctx, &store.Query{}, func(f *store.Facts) (*store.Changes, error) {
		calls++
		b := NewBatch(f.Now)
		m = e.build(f.Now, 1, b, nil)
		return &b.Changes, refusal
	})
	if err != error(refusal) || calls != 1 {
		e.Errorf("error %v after %d calls, want the refusal itself after one", err, calls)
	}
	e.absent(m.key())
	e.see(&store.Query{}) // nil changes: no error
	if e.now() == 0 {
		e.Error("the facts have no time")
	}
}

func decidePanics(e *env) {
	func() {
		defer func() {
			if recover() == nil {
				e.Error("the panic of decide was swallowed")
			}
		}()
		e.st.Do(e.ctx, &store.Query{}, func(*store.Facts) (*store.Changes, error) { panic("decide") })
	}()
	e.add(1, nil)
}

func canceledContext(e *env) {
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	err := e.st.Do(ctx, &store.Query{}, func(*store.Facts) (*store.Changes, error) { return &store.Changes{}, nil })
	if !errors.Is(err, context.Canceled) {
		e.Errorf("error %v, want context.Canceled", err)
	}
	e.add(1, nil)
}

// racers: many transactions move the same job; each succeeds or is stale, and the versions add
// up.
func racers(e *env) {
	m := e.add(0, nil)
	const goroutines, rounds = 8, 10
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range rounds {
				err := e.try(e.st, &store.Query{Jobs: []rowkey.Job{m.key()}}, func(f *store.Facts, b *Batch) {
					b.MoveJob(f.Jobs[m.key()], lifecycle.JobPause)
				})
				if err != nil {
					e.Errorf("a locked job: %v", err)
				}
			}
		})
	}
	wg.Wait()
	j, err := e.st.Job(e.ctx, m.key())
	e.ok(err)
	if want := m.job.Seq + goroutines*rounds; j.Seq != want {
		e.Errorf("version %d, want %d", j.Seq, want)
	}
	e.verify(m.key())
}

// verify checks every trail of a job against its record.
func (e *env) verify(job rowkey.Job) {
	e.Helper()
	e.ok(e.st.Trails(e.ctx, job, func(t store.TrailOf) error {
		var head audit.Hash
		var state machine.State
		for i, entry := range t.Entries {
			want := entry
			want.Entity, want.From = t.ID, state
			want.Seal(head)
			if want.Hash != entry.Hash || entry.Sequence != int64(i+1) {
				return fmt.Errorf("%s: entry %d does not fit the chain", t.ID, i+1)
			}
			head, state = entry.Hash, entry.To
		}
		if t.Record.State != state || t.Record.Head != head || t.Record.Seq != int64(len(t.Entries)) {
			return fmt.Errorf("%s: the record is at %s %d, the trail at %s %d", t.ID, t.Record.State, t.Record.Seq, state, len(t.Entries))
		}
		return nil
	}))
}

func settle(e *env) {
	m := e.add(1, nil)
	w, s := e.addWorker(), e.addSchedule("s", nil)
	for _, k := range []store.EntityKey{JobKey(m.job), StepKey(m.steps[0]), WorkerKey(w), ScheduleKey(s)} {
		trail, err := e.st.Trail(e.ctx, k, 0, 0)
		e.ok(err)
		last := trail[len(trail)-1]
		for what, tt := range map[string]struct {
			change func(*audit.Entry)
			want   bool
		}{
			"committed":     {func(*audit.Entry) {}, true},
			"another hash":  {func(n *audit.Entry) { n.Hash[0]++ }, false},
			"not committed": {func(n *audit.Entry) { n.Sequence++ }, false},
		} {
			entry := last
			tt.change(&entry)
			got, err := e.st.Settle(e.ctx, k, &entry)
			e.ok(err)
			if got != tt.want {
				e.Errorf("settle %s %s: %v, want %v", k.Kind, what, got, tt.want)
			}
		}
	}
}

func keys(e *env) {
	used := store.IdempotencyKey{Workspace: "a", Key: "k"}
	other := store.IdempotencyKey{Workspace: "b", Key: "k"}
	answer := &store.Answer{Endpoint: "POST /jobs", RequestHash: [32]byte{1, 2}, Status: 201, Body: []byte("{\"x\":\n1}\x00"), ExpiresAt: e.now() + 3600e6}
	e.do(&store.Query{Keys: []store.IdempotencyKey{used}}, func(f *store.Facts, b *Batch) {
		if !f.Keys[used].New {
			e.Errorf("answer %+v to a key nobody used, want New", f.Keys[used])
		}
		b.Answer(used, answer)
	})
	f := e.see(&store.Query{Keys: []store.IdempotencyKey{used, other}})
	e.diff("answer", answer, f.Keys[used])
	if !f.Keys[other].New {
		e.Error("the key of another workspace is taken")
	}
}

func expiredKey(e *env) {
	k := store.IdempotencyKey{Workspace: "a", Key: "k"}
	for i, expires := range []int64{1, e.now() + 3600e6} {
		e.do(&store.Query{Keys: []store.IdempotencyKey{k}}, func(f *store.Facts, b *Batch) {
			if !f.Keys[k].New {
				e.Errorf("%d: answer %+v, want New", i, f.Keys[k])
			}
			b.Answer(k, &store.Answer{Endpoint: "e", Status: 200 + i, Body: []byte("x"), ExpiresAt: expires})
		})
	}
	if a := e.see(&store.Query{Keys: []store.IdempotencyKey{k}}).Keys[k]; a.New || a.Status != 201 {
		e.Errorf("answer %+v, want the second one", a)
	}
}

// racingKeys: of many transactions with one key, one finds it new; the others see its answer.
func racingKeys(e *env) {
	k := store.IdempotencyKey{Workspace: "a", Key: "race"}
	expires := e.now() + 3600e6
	var mu sync.Mutex
	won, replayed := 0, 0
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			first := false
			err := e.try(e.st, &store.Query{Keys: []store.IdempotencyKey{k}}, func(f *store.Facts, b *Batch) {
				first = f.Keys[k].New
				if first {
					b.Answer(k, &store.Answer{Endpoint: "e", Status: 200, Body: fmt.Append(nil, i), ExpiresAt: expires})
				} else if f.Keys[k].Status != 200 {
					e.Errorf("answer %+v, want the stored one", f.Keys[k])
				}
			})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				e.Errorf("racing for a key: %v", err)
			case first:
				won++
			default:
				replayed++
			}
		})
	}
	wg.Wait()
	if won != 1 || replayed != 7 {
		e.Errorf("%d found the key new and %d its answer, want 1 and 7", won, replayed)
	}
}

// unansweredKey: a key without an answer is not stored.
func unansweredKey(e *env) {
	k := store.IdempotencyKey{Workspace: "a", Key: "k"}
	q := &store.Query{Keys: []store.IdempotencyKey{k}}
	e.do(q, func(f *store.Facts, b *Batch) { e.build(f.Now, 1, b, nil) })
	if !e.see(q).Keys[k].New {
		e.Error("a key without an answer was stored")
	}
}

func definitionsOnce(e *env) {
	d := &pawl.Definition{Key: 99, Hash: [32]byte{9}, Name: "flow", Source: []byte(`{"a":1}`), CreatedAt: 5}
	for range 2 {
		e.do(&store.Query{}, func(f *store.Facts, b *Batch) {
			b.Definitions = append(b.Definitions, d)
			e.build(f.Now, 0, b, nil)
		})
	}
	got, err := e.st.Definition(e.ctx, 99)
	e.ok(err)
	e.diff("definition", d, got)
}

func largeValues(e *env) {
	big := json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	m := e.add(1, func(m made, _ *Batch) { m.steps[0].Output, m.job.Inputs = big, big })
	steps, err := e.st.Steps(e.ctx, m.key(), 0, 0)
	e.ok(err)
	j, err := e.st.Job(e.ctx, m.key())
	e.ok(err)
	if string(steps[0].Output) != string(big) || string(j.Inputs) != string(big) {
		e.Errorf("output of %d bytes and inputs of %d, want %d", len(steps[0].Output), len(j.Inputs), len(big))
	}
}

func largeBatches(e *env) {
	const n = 500
	var all []made
	e.do(&store.Query{}, func(f *store.Facts, b *Batch) {
		for range n {
			all = append(all, e.build(f.Now, 1, b, nil))
		}
	})
	q := &store.Query{}
	for _, m := range all {
		q.Jobs, q.Steps = append(q.Jobs, m.key()), append(q.Steps, m.steps1())
	}
	e.do(q, func(f *store.Facts, b *Batch) {
		if len(f.Jobs) != n || len(f.Steps) != n {
			e.Fatalf("%d jobs and %d steps, want %d", len(f.Jobs), len(f.Steps), n)
		}
		for _, m := range all {
			b.MoveJob(f.Jobs[m.key()], lifecycle.JobAllocateResources)
			b.MoveStep(m.job, f.Steps[m.steps1()], lifecycle.StepEnqueue)
		}
	})
	jobs, err := e.st.Jobs(e.ctx, store.JobFilter{States: []machine.State{lifecycle.JobRunning}})
	e.ok(err)
	if len(jobs) != n {
		e.Errorf("%d jobs are running, want %d", len(jobs), n)
	}
	e.verify(0)
}

func stats(e *env) {
	before, err := e.st.Stats(e.ctx)
	e.ok(err)
	m := e.add(2, nil)
	e.do(&store.Query{Jobs: []rowkey.Job{m.key()}}, func(f *store.Facts, b *Batch) { b.MoveJob(f.Jobs[m.key()], lifecycle.JobPause) })
	s := e.addSchedule("s", nil)
	e.do(&store.Query{Schedules: []rowkey.Schedule{s.Key()}}, func(f *store.Facts, b *Batch) {
		b.MoveSchedule(f.Schedules[s.Key()], lifecycle.SchedulePause)
	})
	e.see(&store.Query{})
	after, err := e.st.Stats(e.ctx)
	e.ok(err)
	want := store.Stats{Commits: before.Commits + 4, Inserts: before.Inserts + 4, Updates: before.Updates + 2,
		Entries: before.Entries + 7, Rollback: before.Rollback + 1}
	e.diff("stats", want, after)
}

// viewsWhileDeciding: decide may read committed data.
func viewsWhileDeciding(e *env) {
	m := e.add(1, nil)
	e.do(&store.Query{Jobs: []rowkey.Job{m.key()}}, func(_ *store.Facts, b *Batch) {
		j, err := e.st.Job(e.ctx, m.key())
		if err != nil || j.Seq != m.job.Seq {
			e.Errorf("job %+v, %v", j, err)
		}
		e.build(b.now, 1, b, nil)
	})
}
