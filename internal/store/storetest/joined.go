package storetest

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

var joinedTests = []test{
	{name: "Joined/WithTheTransaction", run: joinedWrites, shared: true},
	{name: "Joined/OldStep", run: joinedOldStep, shared: true},
	{name: "Joined/UnusedKey", run: joinedUnusedKey, shared: true},
	{name: "Joined/OtherChanges", run: joinedOthers, shared: true},
	{name: "Joined/Wakes", run: joinedWakes, shared: true},
	{name: "Joined/NoTransaction", run: joinedNothing},
}

// An Outer is a user's transaction.
type Outer struct {
	Tx  any
	End func(commit bool) error
}

// outers runs f for each type of transaction that the store accepts. f begins it, after any
// writes of its own by other means, and ends it.
func (e *env) outers(f func(begin func() Outer)) {
	e.Helper()
	if len(e.db.Begin) == 0 {
		e.Fatal("the database has no transactions of users")
	}
	for _, begin := range e.db.Begin {
		f(func() Outer {
			out, err := begin(e.ctx)
			e.ok(err)
			return out
		})
	}
}

// join writes what build makes in a user's transaction.
func (e *env) join(out Outer, q *store.Query, wake []store.Topic, build func(*store.Facts, *Batch)) error {
	return e.st.DoIn(e.ctx, out.Tx, q, wake, func(f *store.Facts) (*store.Changes, error) {
		b := NewBatch(f.Now)
		build(f, b)
		return &b.Changes, nil
	})
}

// joinedWrites: a job, a change of a step and an answer exist if and only if it commits.
func joinedWrites(e *env) {
	worker := e.addWorker()
	for _, commit := range []bool{false, true} {
		e.outers(func(begin func() Outer) {
			held := e.add(1, claimed(worker.Key()))
			key := store.IdempotencyKey{Workspace: "w", Key: held.job.ID.Public(pawl.JobPrefix)}
			var m made
			out := begin()
			e.ok(e.join(out, &store.Query{Keys: []store.IdempotencyKey{key}, Steps: []pawl.StepKey{held.steps1()}}, nil, func(f *store.Facts, b *Batch) {
				s := f.Steps[held.steps1()]
				if s == nil || s.Claims != 1 || s.Worker != worker.Key() || f.Jobs[held.key()].ID != held.job.ID || !f.Keys[key].New {
					e.Errorf("it reads %+v of %v, and %+v", s, f.Jobs[held.key()], f.Keys[key])
				}
				s.Output = []byte(`{"out":"'\\"}`)
				b.MoveStep(f.Jobs[held.key()], s, "success")
				m = e.build(f.Now, 40, b, nil)
				b.Definitions = append(b.Definitions, &pawl.Definition{Key: 7, Name: "flow", Source: []byte(`{}`), CreatedAt: f.Now})
				b.Answer(key, &store.Answer{Endpoint: "make", Status: 201, Body: []byte("made"), ExpiresAt: f.Now + 1<<40})
			}))
			if _, err := e.another().Job(e.ctx, m.key()); !errors.Is(err, store.ErrNotFound) {
				e.Errorf("before the end the job is seen: %v", err)
			}
			e.ok(out.End(commit))
			_, err := e.st.Job(e.ctx, m.key())
			if there := err == nil; there != commit {
				e.Errorf("committed %v: the job is there: %v", commit, err)
			}
			bodies, err := e.st.Bodies(e.ctx, []pawl.StepKey{held.steps1()})
			e.ok(err)
			s := bodies[held.steps1()]
			if done := s.State == "complete" && string(s.Output) == `{"out":"'\\"}`; done != commit {
				e.Errorf("committed %v: the step is %s with %s", commit, s.State, s.Output)
			}
			if a := e.see(&store.Query{Keys: []store.IdempotencyKey{key}}).Keys[key]; a.New == commit || commit && string(a.Body) != "made" {
				e.Errorf("committed %v: the answer is %+v", commit, a)
			}
			steps, err := e.st.Steps(e.ctx, m.key(), 0, 0)
			e.ok(err)
			if want := len(m.steps); commit && len(steps) != want {
				e.Errorf("%d steps, want %d", len(steps), want)
			}
		})
	}
	e.verify(0)
}

// joinedOldStep: a change that assumes another version than the stored one is an error.
func joinedOldStep(e *env) {
	worker := e.addWorker()
	e.outers(func(begin func() Outer) {
		m := e.add(1, claimed(worker.Key()))
		out := begin()
		err := e.join(out, &store.Query{Steps: []pawl.StepKey{m.steps1()}}, nil, func(f *store.Facts, b *Batch) {
			b.MoveStep(f.Jobs[m.key()], f.Steps[m.steps1()], "success")
			b.Steps[0].Was--
		})
		if err == nil {
			e.Error("a change of an older version was written")
		}
		e.ok(out.End(false))
	})
	e.verify(0)
}

// joinedUnusedKey: a key without an answer is new again afterwards.
func joinedUnusedKey(e *env) {
	key := store.IdempotencyKey{Workspace: "w", Key: "k"}
	e.outers(func(begin func() Outer) {
		out := begin()
		e.ok(e.join(out, &store.Query{Keys: []store.IdempotencyKey{key}}, nil, func(*store.Facts, *Batch) {}))
		e.ok(out.End(true))
		if a := e.see(&store.Query{Keys: []store.IdempotencyKey{key}}).Keys[key]; !a.New {
			e.Errorf("a key that was not used has the answer %+v", a)
		}
	})
}

// joinedOthers: changes that DoIn does not write are an error, and not dropped.
func joinedOthers(e *env) {
	e.outers(func(begin func() Outer) {
		out := begin()
		err := e.join(out, new(store.Query), nil, func(f *store.Facts, b *Batch) {
			b.AddWorker(&pawl.Worker{ID: e.mint.ID(f.Now), Workspace: "w", Name: "host-1"})
		})
		if err == nil {
			e.Error("a worker was taken for something that is written")
		}
		e.ok(out.End(false))
	})
}

// joinedWakes: if a commit can wake, it wakes this handle too, and not before it.
func joinedWakes(e *env) {
	if !e.db.CommitWakes {
		return
	}
	here := e.heard(e.st)
	e.wakeUntil(e.another(), here, store.TopicStops) // it listens
	e.outers(func(begin func() Outer) {
		out := begin()
		e.ok(e.join(out, new(store.Query), []store.Topic{store.TopicMarks}, func(f *store.Facts, b *Batch) { e.build(f.Now, 1, b, nil) }))
		for _, t := range e.wakeUntil(e.another(), here, store.TopicSchema) {
			if t == store.TopicMarks {
				e.Error("it wakes before it is committed")
			}
		}
		e.ok(out.End(true))
		for {
			select {
			case t := <-here:
				if t == store.TopicMarks {
					return
				}
			case <-e.ctx.Done():
				e.Fatal("the commit wakes nobody")
			}
		}
	})
}

// joinedNothing: the error for a tx that is no transaction names it, and what is accepted.
func joinedNothing(e *env) {
	for _, tx := range []any{nil, 1, e.st} {
		err := e.join(Outer{Tx: tx}, new(store.Query), nil, func(*store.Facts, *Batch) { e.Error("it decides") })
		if pawl.KindOf(err) != pawl.Invalid {
			e.Errorf("%T: %v; want an error of kind Invalid", tx, err)
		}
	}
}

// A Begin begins a transaction as a user does.
type Begin func(ctx context.Context) (Outer, error)

// BeginSQL begins transactions of database/sql.
func BeginSQL(t testing.TB, driver, source string) Begin {
	return func(ctx context.Context) (Outer, error) {
		db, err := sql.Open(driver, source)
		if err != nil {
			return Outer{}, err
		}
		t.Cleanup(func() { db.Close() })
		tx, err := db.BeginTx(ctx, nil)
		return Outer{Tx: tx, End: func(commit bool) error {
			if commit {
				return tx.Commit()
			}
			return tx.Rollback()
		}}, err
	}
}
