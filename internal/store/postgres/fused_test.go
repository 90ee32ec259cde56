package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// report ends the first step and takes the second one, as the report of a step of a
// chain does.
func (p *pair) report(f *store.Facts, d *draft) {
	end, take, j := f.Steps[p.first], f.Steps[p.second], f.Jobs[p.job.Key()]
	end.CompletedAt, end.Output = f.Now, []byte(`{"ok": true}`)
	d.moveStep(p.job.ID, end, lifecycle.StepSuccess, lifecycle.StepComplete)
	take.Unmet, take.Claims, take.Attempts, take.Worker, take.EnqueuedAt, take.StartedAt = 0, 1, 1, p.worker.Key(), f.Now, f.Now
	d.moveStep(p.job.ID, take, lifecycle.StepEnqueue, lifecycle.StepEnqueued, lifecycle.StepClaim, lifecycle.StepInProgress)
	j.Open--
	d.Jobs = append(d.Jobs, store.Update[*pawl.Job]{Record: j, Was: j.Seq})
}

// state returns all that the transactions of a pair may change.
func (p *pair) state() (rows []string) {
	p.Helper()
	for _, sql := range []string{
		"select j::text, xmin::text from job j", "select s::text, xmin::text from step s order by job, ord", "select w::text, xmin::text from worker w",
		"select a::text, '' from audit a order by job, ord, seq",
	} {
		_, list, err := query(p.Context(), p.a.cfg.URL, sql)
		if err != nil {
			p.Fatal(err)
		}
		for _, r := range list {
			rows = append(rows, fmt.Sprint(r))
		}
	}
	return rows
}

// TestFusedReport: the report of a step is one statement, which writes all of it.
func TestFusedReport(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	before := len(p.a.fusedStatements.all)
	do(t, p.a, p.q, p.report)
	if len(p.a.fusedStatements.all) != before+1 {
		t.Fatal("it was not a statement of its own")
	}
	if n := p.look(p.a); n != 1 {
		t.Errorf("decided %d times on what it has written, want once", n)
	}
	j, err := p.b.Job(t.Context(), p.job.Key())
	if err != nil || j.Open != p.job.Open-1 {
		t.Errorf("the job has %d open steps, %v; want %d", j.Open, err, p.job.Open-1)
	}
	steps, err := p.b.Steps(t.Context(), p.job.Key(), 0, 0)
	if err != nil || len(steps) != 2 || steps[0].State != lifecycle.StepComplete || string(steps[0].Output) != `{"ok": true}` ||
		steps[1].State != lifecycle.StepInProgress || steps[1].Seq != 3 || steps[1].Worker != p.worker.Key() {
		t.Errorf("the steps are %v, %v", steps, err)
	}
	_, trail, err := query(t.Context(), p.a.cfg.URL, "select ord, seq, state, event from trail where ord > 0 order by 1, 2")
	want := [][]string{
		{fmt.Sprint(p.first.Ord), "1", "pending", "create"}, {fmt.Sprint(p.first.Ord), "2", "complete", "success"},
		{fmt.Sprint(p.second.Ord), "1", "pending", "create"}, {fmt.Sprint(p.second.Ord), "2", "enqueued", "enqueue"}, {fmt.Sprint(p.second.Ord), "3", "in_progress", "claim"},
	}
	if diff := cmp.Diff(want, trail); diff != "" || err != nil {
		t.Errorf("trail, %v:\n%s", err, diff)
	}
}

// TestFusedIsBounded: only so many statements are made; what comes later goes in parts.
func TestFusedIsBounded(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.a.fusedStatements.all = make(map[[maxParts]*part]*statement)
	for range maxFused {
		p.a.fusedStatements.all[[maxParts]*part{new(part)}] = new(statement)
	}
	if n := p.look(p.a); n != 1 || len(p.a.fusedStatements.all) != maxFused {
		t.Errorf("decided %d times, %d statements; want once, and %d", n, len(p.a.fusedStatements.all), maxFused)
	}
	do(t, p.a, p.q, p.report)
	p.q.Steps = []pawl.StepKey{p.second} // the first has ended
	if !p.knows(p.a) {
		t.Error("what went in parts is not known")
	}
}

// TestFusedLeavesNothing (K5): a report that meets a row which is not as it was known
// writes nothing at all, whichever row that is, and is decided anew.
func TestFusedLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"the job":              "update job set active = active",
		"the step that ends":   "update step set claims = claims where ord = (select min(ord) from step)",
		"the step that begins": "update step set claims = claims where ord = (select max(ord) from step)",
		"the worker":           "update worker set capacity = capacity",
		"an entry of the same number": `insert into audit (job, ord, seq, state, event, reason, actor, request_id, at, hash)
			select job, (select min(ord) from step), 2, state, event, reason, actor, request_id, at, hash from audit where ord = 0 limit 1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			execute(t, p.b, change)
			before, decided := p.state(), 0
			enough := errors.New("enough")
			err := p.a.Do(t.Context(), p.q, func(f *store.Facts) (*store.Changes, error) {
				if decided++; decided > 1 {
					return nil, enough
				}
				d := &draft{now: f.Now}
				p.report(f, d)
				return &d.Changes, nil
			})
			if !errors.Is(err, enough) || decided != 2 {
				t.Fatalf("decided %d times, %v; want twice", decided, err)
			}
			if diff := cmp.Diff(before, p.state()); diff != "" {
				t.Errorf("something was written:\n%s", diff)
			}
		})
	}
}

// TestFusedWaits (K5): a report waits for who changes one of its rows, whichever that is,
// and then sees it: the statement compares the row that it finds once it has waited.
func TestFusedWaits(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"the job":              "update job set blocked = 9",
		"the step that ends":   "update step set losses = 9 where ord = (select min(ord) from step)",
		"the step that begins": "update step set losses = 9 where ord = (select max(ord) from step)",
		"the worker":           "update worker set capacity = 9",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			tx, err := p.b.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.Background())
			if _, err := tx.Exec(t.Context(), change); err != nil {
				t.Fatal(err)
			}
			var seen []bool
			done := make(chan error, 1)
			go func() {
				done <- try(p.a, p.q, func(f *store.Facts, d *draft) {
					seen = append(seen, slices.Contains([]int{f.Jobs[p.job.Key()].Blocked, f.Steps[p.first].Losses, f.Steps[p.second].Losses, f.Workers[p.worker.Key()].Capacity}, 9))
					p.report(f, d)
				})
			}()
			await(t, p.b, "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')")
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil || !slices.Equal(seen, []bool{false, true}) {
				t.Errorf("decided with what was committed in sight: %v, %v; want false, and true once it was", seen, err)
			}
		})
	}
}

// TestOptimisticCommitFails: the server commits when it has answered each statement. What
// it refuses then is an error, and what it does not answer is not known (T10).
func TestOptimisticCommitFails(t *testing.T) {
	t.Parallel()
	const trigger = "create constraint trigger late after insert on audit deferrable initially deferred for each row execute function late()"
	for name, tt := range map[string]struct {
		does string
		want error
	}{
		"refused":  {"raise exception 'no' using errcode = '40001'", store.ErrStale},
		"cut":      {"perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(1)", store.ErrUnknown},
		"disabled": {"raise exception 'no' using errcode = '25006'", nil},
	} {
		for _, kind := range []string{"fused", "long"} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				p := newPair(t)
				execute(t, p.a, "create function late() returns trigger language plpgsql as $$ begin "+tt.does+"; return new; end $$")
				execute(t, p.a, trigger)
				before, entries := p.state(), []store.Entry(nil)
				err := p.a.Do(t.Context(), p.q, func(f *store.Facts) (*store.Changes, error) {
					if entries != nil {
						return nil, store.ErrStale // it was, and is not tried again
					}
					d := &draft{now: f.Now}
					p.report(f, d)
					if kind == "long" {
						for range fewEntries {
							p.keep(f, d)
						}
						d.Jobs = d.Jobs[:1]
					}
					entries = d.Entries
					return &d.Changes, nil
				})
				if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
					t.Fatalf("got %v, want %v", err, tt.want)
				}
				if errors.Is(err, store.ErrUnknown) {
					if got, err := p.a.Settle(t.Context(), entries[0].EntityKey, &entries[0].Entry); got || err != nil {
						t.Errorf("settled as %v, %v; want false", got, err)
					}
				}
				if diff := cmp.Diff(before, p.state()); diff != "" {
					t.Errorf("something was written:\n%s", diff)
				}
				execute(t, p.b, "drop trigger late on audit")
				do(t, p.a, p.q, p.report)
			})
		}
	}
}

// TestFusedSubmission: a job with its steps, handed over to a worker that is known, is
// one statement.
func TestFusedSubmission(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	before := len(p.a.fusedStatements.all)
	var j *pawl.Job
	do(t, p.a, &store.Query{Watched: []rowkey.Worker{p.worker.Key()}}, func(_ *store.Facts, d *draft) {
		j = d.newJob(1)
		for n := range 9 {
			d.newStep(j, n+1, 1)
		}
	})
	if len(p.a.fusedStatements.all) != before+1 {
		t.Error("it was not a statement of its own")
	}
	steps, err := p.b.Steps(t.Context(), j.Key(), 0, 0)
	if err != nil || len(steps) != 9 {
		t.Errorf("%d steps, %v; want all 9", len(steps), err)
	}
	_, trail, err := query(t.Context(), p.a.cfg.URL, fmt.Sprintf("select count(*) from trail where job = %d", j.Key()))
	if want := [][]string{{"11"}}; err != nil || !cmp.Equal(trail, want) {
		t.Errorf("trail of %v entries, %v; want %v", trail, err, want)
	}
}
