package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// An early exchange reports the first step of a pair and ends its job, and claims another job.
type earlyExchange struct {
	*pair
	claimed        *pawl.Job
	routes         []rowkey.Route
	fails          bool   // the job
	output         []byte // of the job
	ctx            context.Context
	early, decided int
	change         func(f *store.Facts)                   // when what is claimed is decided; may be nil
	spoil          func(x *earlyExchange, d *draft) error // may be nil
}

var errRefused = errors.New("refused")

func newEarlyExchange(t *testing.T) *earlyExchange {
	p := newPair(t)
	x := &earlyExchange{pair: p, claimed: submit(t, p.b, 1, 9)[0], routes: []rowkey.Route{9}, ctx: context.Background()}
	x.job = x.stored()
	return x
}

// stored returns the job as others see it.
func (x *earlyExchange) stored() *pawl.Job {
	x.Helper()
	j, err := x.b.Job(x.Context(), x.job.Key())
	if err != nil {
		x.Fatal(err)
	}
	return j
}

// report ends the step and the job.
func (x *earlyExchange) report(f *store.Facts) *draft {
	d := &draft{now: f.Now}
	f.Jobs[x.job.Key()].Output = x.output
	if x.fails {
		f.Jobs[x.job.Key()].Error = &pawl.Failure{Message: "no"}
	}
	d.moveStep(x.job.ID, f.Steps[x.first], lifecycle.StepSuccess, lifecycle.StepComplete)
	d.moveJob(f.Jobs[x.job.Key()], lifecycle.JobCompleted, lifecycle.JobSuccess)
	return d
}

func (x *earlyExchange) run() error {
	var known *store.Facts
	var d *draft
	q := x.claiming()
	q.Early = func(f *store.Facts) *store.Changes {
		x.early++
		if f.Claims != nil {
			x.Errorf("early facts have claims: %v", f.Claims)
		}
		known, d = f, x.report(f)
		return &store.Changes{Jobs: slices.Clone(d.Jobs), Steps: slices.Clone(d.Steps)}
	}
	q.Claims[0].Routes = x.routes
	return x.a.Do(x.ctx, q, func(f *store.Facts) (*store.Changes, error) {
		if x.decided++; f != known {
			d = x.report(f)
		}
		if x.change != nil {
			x.change(f)
		}
		for _, key := range f.Claims[0].Starts {
			d.moveJob(f.Jobs[key], lifecycle.JobRunning, lifecycle.JobAllocateResources)
		}
		if x.spoil != nil {
			return &d.Changes, x.spoil(x, d)
		}
		return &d.Changes, nil
	})
}

// want checks that the report and the claim were written once, or neither was, and how often it was
// decided.
func (x *earlyExchange) want(written bool, early, decided int) {
	x.Helper()
	if x.early != early || x.decided != decided {
		x.Errorf("decided %d times early and %d times, want %d and %d", x.early, x.decided, early, decided)
	}
	states, seqs := []string{"RUNNING", "in_progress", "PENDING"}, []int64{x.job.Seq, 1, 2}
	if written {
		states, seqs = []string{"COMPLETED", "complete", "RUNNING"}, []int64{x.job.Seq + 1, 2, 3}
	}
	job := x.stored()
	steps, err := x.b.Steps(x.Context(), x.job.Key(), 0, 0)
	claimed, e := x.b.Job(x.Context(), x.claimed.Key())
	if err := errors.Join(err, e); err != nil {
		x.Fatal(err)
	}
	for i, r := range []*pawl.Record{&job.Record, &steps[0].Record, &claimed.Record} {
		if string(r.State) != states[i] || r.Seq != seqs[i] {
			x.Errorf("record %d is %s at %d, want %s at %d", i, r.State, r.Seq, states[i], seqs[i])
		}
		k := []store.EntityKey{keyOf(job), jobKey(job.Key(), x.first.Ord), keyOf(claimed)}[i]
		trail, err := x.b.Trail(x.Context(), k, 0, 0)
		if err != nil || len(trail) == 0 || trail[len(trail)-1].Hash != r.Head {
			x.Errorf("the trail of record %d does not end where the record does: %v", i, err)
		}
	}
	if !x.free(x.job.Key()) || !x.free(x.claimed.Key()) {
		x.Error("a job is still locked")
	}
}

// TestEarlyChanges (K5): what is decided early is written before the rest is sent, and is committed
// with it, once. Meanwhile the server waits as in any transaction: for 5 s.
func TestEarlyChanges(t *testing.T) {
	t.Parallel()
	x := newEarlyExchange(t)
	x.change = func(*store.Facts) {
		await(t, x.b, "select not exists (select from job where id = $1 for update skip locked)", int64(x.job.Key()))
		await(t, x.b, "select exists (select from pg_stat_activity where datname = current_database() and state = 'idle in transaction' and backend_xid is not null)")
		if x.stored().State != lifecycle.JobRunning {
			t.Error("others see the end of the job before the commit")
		}
	}
	if err := x.run(); err != nil {
		t.Fatal(err)
	}
	x.want(true, 1, 1)
}

// TestEarlyChangesOfOutdatedRows (K5): if another process has changed a row, everything is decided
// again on what is there.
func TestEarlyChangesOfOutdatedRows(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(x *earlyExchange, f *store.Facts, d *draft){
		"the job": func(x *earlyExchange, f *store.Facts, d *draft) { x.keep(f, d) },
		"a job that fails, which no narrow update covers": func(x *earlyExchange, f *store.Facts, d *draft) {
			x.fails = true
			x.keep(f, d)
		},
		"a step that is only read": func(x *earlyExchange, f *store.Facts, d *draft) {
			d.moveStep(x.job.ID, f.Steps[x.second], lifecycle.StepEnqueue, lifecycle.StepEnqueued)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newEarlyExchange(t)
			do(t, x.b, x.q, func(f *store.Facts, d *draft) { change(x, f, d) })
			x.job = x.stored()
			if err := x.run(); err != nil {
				t.Fatal(err)
			}
			x.want(true, 1, 2)
		})
	}
}

// TestEarlyChangesOfAnotherVersion (K5): a row that is not the version that was decided on is found,
// even if it has the same sequence number; also one of which more changes than a narrow update covers.
func TestEarlyChangesOfAnotherVersion(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]bool{"the job completes": false, "the job fails": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newEarlyExchange(t)
			x.fails = fails
			if _, err := x.b.pool.Exec(t.Context(), "update job set open = open + 7 where id = $1", int64(x.job.Key())); err != nil {
				t.Fatal(err)
			}
			if err := x.run(); err != nil {
				t.Fatal(err)
			}
			x.want(true, 1, 2)
			if open := x.stored().Open; open != x.job.Open+7 {
				t.Errorf("%d open steps, want those of the other change", open)
			}
		})
	}
}

// TestEarlyChangesThatAreNotCommitted (K5): without a commit nothing is written, and nothing stays
// locked.
func TestEarlyChangesThatAreNotCommitted(t *testing.T) {
	t.Parallel()
	type spoil = func(x *earlyExchange, d *draft) error
	for name, c := range map[string]struct {
		decided int
		spoil   spoil
	}{
		"the decision fails, perhaps because of outdated rows": {2, func(*earlyExchange, *draft) error { return errRefused }},
		"a record that was written early changes again": {1, func(x *earlyExchange, d *draft) error {
			d.moveJob(d.Jobs[0].Record, lifecycle.JobCompleted, lifecycle.JobRedact)
			d.Jobs = d.Jobs[1:]
			return nil
		}},
		"an early change is left out": {1, func(x *earlyExchange, d *draft) error {
			d.Jobs = d.Jobs[1:]
			return nil
		}},
		"the connection is cut": {1, func(x *earlyExchange, d *draft) error {
			_, err := x.b.pool.Exec(x.Context(), "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = current_database() and backend_xid is not null and pid <> pg_backend_pid()")
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newEarlyExchange(t)
			x.spoil = c.spoil
			if err := x.run(); err == nil {
				t.Error("there is no error")
			}
			x.want(false, 1, c.decided)
		})
	}
}

// TestEarlyChangesBesideALoneRoute: a claim that needs its second statement gets it in the same
// transaction. If an early change has failed by then, all is read and decided again (K5).
func TestEarlyChangesBesideALoneRoute(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(x *earlyExchange) (release func()){
		"of known rows":         func(*earlyExchange) func() { return func() {} },
		"of an outdated row":    (*earlyExchange).outdate,
		"of a row that is held": (*earlyExchange).hold,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newEarlyExchange(t)
			blind(x.a)
			x.routes = []rowkey.Route{8, 9}
			supposeLone(x.a, 8, 9)
			release := meanwhile(x)
			done := make(chan error, 1)
			go func() { done <- x.run() }()
			release()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			x.want(true, 1, 1)
		})
	}
}

// outdate has another process change the job.
func (x *earlyExchange) outdate() (release func()) {
	x.Helper()
	do(x.T, x.b, x.q, func(f *store.Facts, d *draft) { x.keep(f, d) })
	x.job = x.stored()
	return func() {}
}

// hold locks the job until a transaction waits for it without a limit: to read it.
func (x *earlyExchange) hold() (release func()) {
	x.Helper()
	tx, err := x.b.pool.Begin(x.Context())
	if err == nil {
		_, err = tx.Exec(x.Context(), "select from job where id = $1 for update", int64(x.job.Key()))
	}
	if err != nil {
		x.Fatal(err)
	}
	return func() {
		await(x.T, x.b, "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query = $1)", readJobs.sql)
		if err := tx.Rollback(x.Context()); err != nil {
			x.Error(err)
		}
	}
}

// TestLargeEarlyChanges: what is too large to be written early is written with the rest. All that is
// sent counts.
func TestLargeEarlyChanges(t *testing.T) {
	t.Parallel()
	x := newEarlyExchange(t)
	x.output = []byte(`"` + strings.Repeat("x", maxEarly-len(`""`)-100) + `"`)
	x.change = func(*store.Facts) {
		if !x.free(x.job.Key()) {
			t.Error("the job is locked before all is decided")
		}
	}
	if err := x.run(); err != nil {
		t.Fatal(err)
	}
	x.want(true, 1, 1)
}

// TestEarlyChangesOfACallerThatMayGiveUp: a transaction whose caller may end it is read alone.
func TestEarlyChangesOfACallerThatMayGiveUp(t *testing.T) {
	t.Parallel()
	x := newEarlyExchange(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	x.ctx = ctx
	if err := x.run(); err != nil {
		t.Fatal(err)
	}
	x.want(true, 0, 1)
}

// TestEarlyChangesWithoutATransaction (K5): if the transaction cannot be begun, what was sent early is
// not committed by itself.
func TestEarlyChangesWithoutATransaction(t *testing.T) {
	t.Parallel()
	x := newEarlyExchange(t)
	if _, err := x.a.pool.Exec(t.Context(), "deallocate begin"); err != nil {
		t.Fatal(err)
	}
	if err := x.run(); code(err) != "26000" { // there is no such statement
		t.Errorf("got %v, want the error of begin", err)
	}
	x.want(false, 1, 0)
}

// TestStatementsOfAbandonedEarlyChanges: a connection whose transaction was given up is used again; so
// it is known which statements the early changes have prepared on it.
func TestStatementsOfAbandonedEarlyChanges(t *testing.T) {
	t.Parallel()
	for name, abandon := range map[string]func(x *earlyExchange){
		"the decision fails": func(x *earlyExchange) {
			x.spoil = func(*earlyExchange, *draft) error { return errRefused }
		},
		"the transaction is not begun": func(x *earlyExchange) {
			if _, err := x.a.pool.Exec(t.Context(), "deallocate begin"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newEarlyExchange(t)
			abandon(x)
			if err := x.run(); err == nil {
				t.Error("there is no error")
			}
			conn, err := x.a.pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Release()
			known := preparedOn(conn.Conn().PgConn())
			if !known[inReading] {
				t.Error("the connection is not that of the early changes")
			}
			rows, _ := conn.Query(t.Context(), "select name from pg_prepared_statements where not from_sql")
			names, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range statements {
				if prepared := slices.Contains(names, s.name); prepared && !known[s] {
					t.Errorf("%s is prepared, and it is not known", s.name)
				}
			}
		})
	}
}

// TestAnEarlyDecisionMayPanic: the connection is given back, and nothing stays locked.
func TestAnEarlyDecisionMayPanic(t *testing.T) {
	t.Parallel()
	x := newEarlyExchange(t)
	q := x.claiming()
	q.Early = func(*store.Facts) *store.Changes { panic("early") }
	func() {
		defer func() {
			if recover() == nil {
				t.Error("it was not decided early")
			}
		}()
		_ = x.a.Do(context.Background(), q, func(*store.Facts) (*store.Changes, error) { return nil, nil })
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	for range x.a.pool.Config().MaxConns {
		conn, err := x.a.pool.Acquire(ctx)
		if err != nil {
			t.Fatalf("a connection is still taken: %v", err)
		}
		defer conn.Release()
	}
	await(t, x.b, "select exists (select from job where id = $1 for update skip locked)", int64(x.claimed.Key()))
	x.want(false, 0, 0)
}
