package local_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/local"
	"github.com/pawl-dev/pawl/workflow"
)

// passive is an engine that evaluates nothing.
var passive = local.Config{Passive: true}

func kindOf(err error) any { return pawl.KindOf(err) }

// single has one step, which returns its input, and one job at a time for each key.
func single(t *testing.T) *workflow.Definition {
	t.Helper()
	def, err := workflow.File{Name: "single",
		Inputs:      map[string]workflow.InputSchema{"n": {Type: workflow.TypeInteger}, "key": {Type: workflow.TypeString, Default: "k"}},
		Concurrency: workflow.Concurrency{Key: "${{ inputs.key }}", Limit: 1},
		Steps:       []workflow.Step{{ID: "work", Handler: "work", With: "${{ inputs.n }}"}},
		Output:      "${{ steps.work.output }}"}.Build()
	must(t, err)
	return def
}

// plain has one step, which a worker may begin by itself.
func plain(t *testing.T) *workflow.Definition {
	t.Helper()
	def, err := workflow.File{Name: "plain", Inputs: map[string]workflow.InputSchema{"n": {Type: workflow.TypeInteger}},
		Steps:  []workflow.Step{{ID: "work", Handler: "work", With: "${{ inputs.n }}"}},
		Output: "${{ steps.work.output }}"}.Build()
	must(t, err)
	return def
}

// returnsInput is a handler.
func returnsInput(_ context.Context, n int) (int, error) { return n, nil }

// submission asks for a job with the input n.
func submission(def *workflow.Definition, n int) client.Submission {
	return client.Submission{Workflow: def, Inputs: map[string]int{"n": n}}
}

// one returns the only outcome.
func one(t *testing.T, done []pawl.Submitted, err error) pawl.Submitted {
	t.Helper()
	must(t, err)
	if len(done) != 1 {
		t.Fatalf("%d outcomes, want 1", len(done))
	}
	must(t, done[0].Err)
	return done[0]
}

// completes waits for a job and compares its output.
func completes(t *testing.T, c *client.Client, id pawl.ID, want int) {
	t.Helper()
	r, err := c.Jobs.Wait(t.Context(), id)
	must(t, err)
	var n int
	if err := r.Decode(&n); err != nil || n != want {
		t.Errorf("the job came to %d, %v; want %d", n, err, want)
	}
}

// (J12) a job is there exactly if the user's row is: not before the commit, and never
// after a rollback.
func TestSubmitTx(t *testing.T) {
	t.Parallel()
	onUsers(t, func(t *testing.T, u *user) {
		ctx := t.Context()
		c := open(t, u.where, local.Config{})
		serve(t, c, returnsInput)
		for n, def := range []*workflow.Definition{plain(t), single(t), plain(t)} {
			rolledBack := u.open(t)
			must(t, rolledBack.exec(ctx, "insert into mine values (-1)"))
			gone := one2(t)(c.Jobs.SubmitTx(ctx, rolledBack.tx, submission(def, -1)))
			must(t, rolledBack.rollback())

			tx := u.open(t)
			must(t, tx.exec(ctx, "insert into mine values (1)"))
			done := one2(t)(c.Jobs.SubmitTx(ctx, tx.tx, submission(def, n)))
			for _, id := range []pawl.ID{done.ID, gone.ID} {
				_, err := c.Jobs.Get(ctx, id)
				holds(t, err, pawl.NotFound, "")
			}
			must(t, tx.commit())
			if !u.shared() {
				c.Hint()
			}
			completes(t, c, done.ID, n)
		}
		if n := u.rows(t); n != 3 {
			t.Errorf("the user has %d rows, want 3", n)
		}
		all, err := c.Jobs.List(ctx, pawl.JobQuery{})
		must(t, err)
		if len(all) != 3 {
			t.Errorf("there are %d jobs, want 3", len(all))
		}
	})
}

// one2 is one for what a call returns.
func one2(t *testing.T) func([]pawl.Submitted, error) pawl.Submitted {
	return func(done []pawl.Submitted, err error) pawl.Submitted {
		t.Helper()
		return one(t, done, err)
	}
}

// (J12) one submission that is refused harms none of the others, and what any of them
// says is stored as it is.
func TestSubmitTxOfMany(t *testing.T) {
	t.Parallel()
	onUsers(t, func(t *testing.T, u *user) {
		ctx := t.Context()
		c := open(t, u.where, passive)
		odd := client.Submission{Workflow: plain(t), Description: "it's \"{odd}\", \\N, NULL\n\x00 \xff é", Inputs: map[string]int{"n": 1}, RequestID: `r"1\'`, Priority: 3, Actor: "{ann,\"\\"}
		subs := []client.Submission{odd, {Name: "unheard-of"}, {Workflow: plain(t), Inputs: map[string]string{"n": "x"}, RequestID: "r2"}}
		for i := range 40 {
			subs = append(subs, submission(plain(t), i))
		}
		tx := u.open(t)
		done, err := c.Jobs.SubmitTx(ctx, tx.tx, subs...)
		must(t, err)
		must(t, tx.commit())
		for i, kind := range []any{nil, pawl.NotFound, pawl.Invalid, nil} {
			if kind == nil {
				must(t, done[i].Err)
				continue
			}
			holds(t, done[i].Err, kind, "")
		}
		want, err := c.Jobs.SubmitAll(ctx, client.Submission{Workflow: odd.Workflow, Description: odd.Description, Inputs: odd.Inputs, Priority: odd.Priority, Actor: odd.Actor})
		must(t, err)
		views := make([]*pawl.JobView, 2)
		for i, id := range []pawl.ID{done[0].ID, want[0].ID} {
			views[i], err = c.Jobs.Get(ctx, id)
			must(t, err)
		}
		if diff := cmp.Diff(views[1].Description, views[0].Description); diff != "" {
			t.Errorf("the description (-submitted plainly +in a transaction):\n%s", diff)
		}
		if got, want := views[0].StateHistory[0].Actor, views[1].StateHistory[0].Actor; got != want {
			t.Errorf("the actor is %q, want %q", got, want)
		}
		all, err := c.Jobs.List(ctx, pawl.JobQuery{})
		must(t, err)
		if len(all) != 42 {
			t.Errorf("there are %d jobs, want 42", len(all))
		}
	})
}

// (J12, J7) while a transaction that has submitted is open, other jobs of the same
// workflow, queue and key continue; and when it is committed long after, the job
// begins, though many of a later time have been claimed since.
func TestAnOpenTransactionHoldsUpNobody(t *testing.T) {
	t.Parallel()
	onUsers(t, func(t *testing.T, u *user) {
		ctx := t.Context()
		c := open(t, u.where, local.Config{})
		serve(t, c, returnsInput)
		for _, def := range []*workflow.Definition{single(t), plain(t)} {
			tx := u.open(t)
			late := one2(t)(c.Jobs.SubmitTx(ctx, tx.tx, submission(def, 7)))
			if u.shared() {
				for n := range 20 {
					id, err := c.Jobs.Submit(ctx, def, map[string]int{"n": n})
					must(t, err)
					completes(t, c, id, n)
				}
			}
			// As if it had been open for an hour.
			must(t, tx.exec(ctx, fmt.Sprintf("update job set rank = rank - 3600000000 where id = %d", late.ID.JobKey())))
			must(t, tx.commit())
			c.Hint()
			completes(t, c, late.ID, 7)
		}
	})
}

// (J8, J12) a request id that an open transaction has used refuses the same request at once,
// and holds up no other command; once the transaction has ended, the request has its answer.
func TestARequestOfAnOpenTransactionPostgres(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	where := pgtest.URL(t)
	c := open(t, where, passive)
	u, err := openUser(ctx, "pgx", where)
	must(t, err)
	t.Cleanup(func() { must(t, u.close()) })
	for _, commits := range []bool{true, false} {
		sub := submission(plain(t), 1)
		sub.RequestID = fmt.Sprint("commits-", commits)
		submit := func() pawl.Submitted {
			done, err := c.Jobs.SubmitAll(ctx, sub, submission(plain(t), 2))
			must(t, err)
			must(t, done[1].Err)
			return done[0]
		}
		tx := u.open(t)
		held := one2(t)(c.Jobs.SubmitTx(ctx, tx.tx, sub))
		holds(t, submit().Err, pawl.Conflict, "is used by a transaction that is still open")
		end := tx.rollback
		if commits {
			end = tx.commit
		}
		must(t, end())
		done := submit()
		must(t, done.Err)
		if done.Replayed != commits || commits != (done.ID == held.ID) {
			t.Errorf("commits %t: the transaction made %s, and the request has %+v", commits, held.ID, done)
		}
		// A request that has its answer has it for everyone, whatever a transaction replays.
		tx = u.open(t)
		one2(t)(c.Jobs.SubmitTx(ctx, tx.tx, sub))
		if again := submit(); !again.Replayed || again.ID != done.ID {
			t.Errorf("beside a transaction that replays %s: %+v", done.ID, again)
		}
		must(t, tx.rollback())
	}
}

// (J12) no hint is needed: a scan of the database finds the job.
func TestSubmitTxWithoutAHint(t *testing.T) {
	t.Parallel()
	onUsers(t, func(t *testing.T, u *user) {
		ctx := t.Context()
		c := open(t, u.where, local.Config{QuietTx: true})
		serve(t, c, returnsInput)
		tx := u.open(t)
		done := one2(t)(c.Jobs.SubmitTx(ctx, tx.tx, submission(plain(t), 3)))
		must(t, tx.commit())
		completes(t, c, done.ID, 3)
	})
}

// (J8, J12) two transactions with one request id: if both are committed they have made the
// same job, and if the first is rolled back the second has made its own.
func TestSubmitTxTwice(t *testing.T) {
	t.Parallel()
	onUsers(t, func(t *testing.T, u *user) {
		ctx := t.Context()
		c := open(t, u.where, passive)
		twice := func(id string, first func(*userTx) error) (a, b pawl.Submitted) {
			sub := submission(plain(t), 1)
			sub.RequestID = id
			tx := u.open(t)
			a = one2(t)(c.Jobs.SubmitTx(ctx, tx.tx, sub))
			var wg sync.WaitGroup
			var done []pawl.Submitted
			var err error
			wg.Go(func() { // waits for the first, or comes after it
				var second *userTx
				if second, err = u.begin(ctx); err != nil {
					return
				}
				done, err = c.Jobs.SubmitTx(ctx, second.tx, sub)
				err = errors.Join(err, second.commit())
			})
			must(t, first(tx))
			wg.Wait()
			return a, one(t, done, err)
		}
		a, b := twice("committed", func(tx *userTx) error { return tx.commit() })
		if a.Replayed || !b.Replayed || a.ID != b.ID {
			t.Errorf("both committed: %+v, then %+v; want one job", a, b)
		}
		a, b = twice("rolled-back", func(tx *userTx) error { return tx.rollback() })
		if a.Replayed || b.Replayed || a.ID == b.ID {
			t.Errorf("the first rolled back: %+v, then %+v; want another job", a, b)
		}
		other := submission(plain(t), 2)
		other.RequestID = "committed"
		tx := u.open(t)
		done, err := c.Jobs.SubmitTx(ctx, tx.tx, other)
		must(t, err)
		holds(t, done[0].Err, pawl.Invalid, "another request")
		other.Inputs = map[string]int{"n": 1}
		again := one2(t)(c.Jobs.SubmitTx(ctx, tx.tx, other))
		must(t, tx.commit())
		if !again.Replayed {
			t.Error("the same request in the same transaction made another job")
		}
		all, err := c.Jobs.List(ctx, pawl.JobQuery{})
		must(t, err)
		if len(all) != 2 {
			t.Errorf("there are %d jobs, want 2", len(all))
		}
	})
}

// (J12) what is no transaction on the client's database is refused, and says what is.
func TestSubmitTxRefuses(t *testing.T) {
	t.Parallel()
	onUsers(t, func(t *testing.T, u *user) {
		ctx := t.Context()
		c := open(t, u.where, passive)
		submit := func(tx any) error {
			_, err := c.Jobs.SubmitTx(ctx, tx, submission(plain(t), 1))
			return err
		}
		for what, tx := range map[string]any{"<nil>": nil, "*sql.DB": new(sql.DB), "*sql.Tx": (*sql.Tx)(nil), "string": "x", "*pgx.Conn": new(pgx.Conn)} {
			holds(t, submit(tx), pawl.Invalid, "transaction: "+what+": want ")
		}
		over := u.open(t)
		must(t, over.commit())
		holds(t, submit(over.tx), pawl.Conflict, "the transaction has ended")

		elsewhere := filepath.Join(t.TempDir(), "other.db")
		if u.shared() {
			elsewhere = pgtest.URL(t)
		}
		open(t, elsewhere, passive)
		other, err := openUser(ctx, u.kind, elsewhere)
		must(t, err)
		defer other.close()
		tx := other.open(t)
		holds(t, submit(tx.tx), pawl.Invalid, "transaction: it is on the ")
		must(t, tx.rollback())
	})
	c := open(t, "sqlite::memory:", passive)
	_, err := c.Jobs.SubmitTx(t.Context(), new(sql.Tx), submission(plain(t), 1))
	holds(t, err, pawl.Invalid, "in memory")
}

// (J12) a transaction of the right type on the wrong kind of database is refused.
func TestSubmitTxOnAnotherKindPostgres(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	where := map[string]string{"sqlite": filepath.Join(t.TempDir(), "pawl.db"), "sql": pgtest.URL(t)}
	for kind, other := range map[string]string{"sqlite": "sql", "sql": "sqlite"} {
		c := open(t, where[kind], passive)
		u, err := openUser(ctx, other, where[other])
		must(t, err)
		defer u.close()
		tx := u.open(t)
		_, err = c.Jobs.SubmitTx(ctx, tx.tx, submission(plain(t), 1))
		holds(t, err, pawl.Invalid, "join the transaction: want ")
		must(t, tx.rollback()) // the other client opens that file
	}
}

// (J12) what a transaction does not allow is said.
func TestSubmitTxReadOnlyPostgres(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	where := pgtest.URL(t)
	c := open(t, where, passive)
	conn, err := pgx.Connect(ctx, where)
	must(t, err)
	t.Cleanup(func() { must(t, conn.Close(context.Background())) })
	tx, err := beginPgx(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	must(t, err)
	_, err = c.Jobs.SubmitTx(ctx, tx.tx, submission(plain(t), 1))
	holds(t, err, pawl.Invalid, "the transaction is read-only")
	_, err = c.Jobs.SubmitTx(ctx, tx.tx, submission(plain(t), 1))
	holds(t, err, pawl.Conflict, "the transaction has failed before")
	must(t, tx.rollback())
}

// (J12) it works in every mode of the driver and under every isolation, and leaves the
// user's search path as it was.
func TestSubmitTxInAnyModePostgres(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	where := pgtest.URL(t)
	c := open(t, where, passive)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		config, err := pgx.ParseConfig(where)
		must(t, err)
		config.DefaultQueryExecMode = mode
		conn, err := pgx.ConnectConfig(ctx, config)
		must(t, err)
		t.Cleanup(func() { must(t, conn.Close(context.Background())) })
		for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
			tx, err := beginPgx(ctx, conn, pgx.TxOptions{IsoLevel: level})
			must(t, err)
			must(t, tx.exec(ctx, "create temporary table job (n int) on commit drop"))
			must(t, tx.exec(ctx, "set local search_path = pg_temp, public"))
			sub := submission(plain(t), 1)
			sub.RequestID = fmt.Sprint("mode-", int(mode), "-", len(level))
			done := one2(t)(c.Jobs.SubmitTx(ctx, tx.tx, sub))
			n, err := tx.count(ctx, "select count(*) from job where current_setting('search_path') = 'pg_temp, public'")
			if err != nil || n != 0 {
				t.Errorf("%v, %s: the user sees %d rows, %v", mode, level, n, err)
			}
			must(t, tx.commit())
			j, err := c.Jobs.Get(ctx, done.ID)
			must(t, err)
			if j.Status != lifecycle.JobPending {
				t.Errorf("%v, %s: the job is %s", mode, level, j.Status)
			}
		}
	}
	verified(t, where)
}
