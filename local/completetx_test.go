package local_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/local"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

// effect is a handler that writes a row and completes its step with n+1 in the same
// transaction.
func (u *user) effect(ctx context.Context, n int, end func(*userTx) error) (int, error) {
	tx, err := u.begin(ctx)
	if err != nil {
		return 0, err
	}
	err = tx.exec(ctx, fmt.Sprintf("insert into mine values (%d)", n))
	if err == nil {
		err = worker.CompleteTx(ctx, tx.tx, worker.TaskOf(ctx), n+1)
	}
	if err != nil {
		return 0, errors.Join(err, tx.rollback())
	}
	return -1, end(tx) // the output is that of CompleteTx
}

// chain has a second step, which needs the output of the first.
func chain(t testing.TB) *workflow.Definition {
	t.Helper()
	def, err := workflow.File{Name: "chain", Inputs: map[string]workflow.InputSchema{"n": {Type: workflow.TypeInteger}},
		Steps: []workflow.Step{
			{ID: "first", Handler: "work", With: "${{ inputs.n }}", Retry: workflow.Retry{MaxAttempts: 2, Base: time.Millisecond}},
			{ID: "second", Handler: "return", Needs: []string{"first"}, With: "${{ steps.first.output }}"},
		},
		Output: "${{ steps.second.output }}"}.Build()
	if err != nil {
		t.Fatal(err)
	}
	return def
}

// work runs a worker with the handlers of chain until the test ends.
func work(t *testing.T, c *client.Client, first func(context.Context, int) (int, error)) {
	t.Helper()
	serve(t, c, first, func(w *worker.Worker) { worker.Handle(w, "return", returnsInput) })
}

// runs submits a chain and returns how it ended.
func runs(t *testing.T, c *client.Client, n int) (pawl.ID, *client.Result) {
	t.Helper()
	id, err := c.Jobs.Submit(t.Context(), chain(t), map[string]int{"n": n})
	must(t, err)
	r, err := c.Jobs.Wait(t.Context(), id)
	must(t, err)
	return id, r
}

// (J13, T3) the step is complete exactly if the transaction of its handler is committed,
// whatever the handler returns.
func TestCompleteTx(t *testing.T) {
	t.Parallel()
	failed := errors.New("it fails")
	ends := []struct {
		name  string
		end   func(*userTx) error
		class string // of the failure of the job; empty: it completes
	}{
		{name: "committed", end: func(tx *userTx) error { return tx.commit() }},
		{name: "committed, and then an error", end: func(tx *userTx) error { return errors.Join(tx.commit(), failed) }},
		{name: "committed, and then a panic", end: func(tx *userTx) error { panic(errors.Join(tx.commit(), failed)) }},
		{name: "rolled back", end: func(tx *userTx) error { return tx.rollback() }, class: worker.ClassNotCommitted},
		{name: "rolled back, with an error", end: func(tx *userTx) error { return errors.Join(tx.rollback(), failed) }, class: "error"},
	}
	onUsers(t, func(t *testing.T, u *user) {
		c := open(t, u.where, local.Config{})
		work(t, c, func(ctx context.Context, n int) (int, error) { return u.effect(ctx, n, ends[n].end) })
		committed := 0
		for n, tt := range ends {
			id, r := runs(t, c, n)
			j, err := c.Jobs.Get(t.Context(), id)
			must(t, err)
			attempts, first := 1, j.Steps[0]
			if tt.class == "" {
				committed++
				completes(t, c, id, n+1)
			} else if attempts = 2; r.Failure == nil || first.Error == nil || first.Error.Class != tt.class {
				t.Errorf("%s: the step failed with %+v, the job with %v; want the class %s", tt.name, first.Error, r.Failure, tt.class)
			}
			if rows := u.rows(t); rows != committed || first.Attempts != attempts {
				t.Errorf("%s: %d effects and %d attempts, want %d and %d", tt.name, rows, first.Attempts, committed, attempts)
			}
		}
	})
}

// (J13, T5) a claim that is lost completes nothing: its transaction is refused, and who has
// the step next does its work, once.
func TestCompleteTxAfterTheClaimIsLost(t *testing.T) {
	t.Parallel()
	onUsers(t, func(t *testing.T, u *user) {
		ctx := t.Context()
		c := open(t, u.where, local.Config{})
		begun, lost, refused := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		w, err := worker.New(c, worker.Config{Name: "loser"})
		must(t, err)
		worker.Handle(w, "work", func(ctx context.Context, n int) (int, error) {
			close(begun)
			<-lost
			_, err := u.effect(context.WithoutCancel(ctx), n, func(tx *userTx) error { return tx.commit() })
			refused <- err
			return 0, err
		})
		over := make(chan error)
		go func() { over <- w.Run(ctx) }()
		id, err := c.Jobs.Submit(ctx, chain(t), map[string]int{"n": 1})
		must(t, err)
		<-begun
		loser, err := pawl.ParseID(pawl.WorkerPrefix, w.ID())
		must(t, err)
		must(t, errorOf(c.Workers.Terminate(ctx, loser, pawl.Change{Reason: "a test"})))
		must(t, c.Inspect.Watch(ctx, id, func() (bool, error) {
			j, err := c.Jobs.Get(ctx, id)
			return err == nil && j.Steps[0].Status == lifecycle.StepInProgress, err
		}))
		close(lost)
		holds(t, <-refused, pawl.Conflict, "the claim is lost: ")
		<-over
		work(t, c, func(ctx context.Context, n int) (int, error) {
			return u.effect(ctx, n, func(tx *userTx) error { return tx.commit() })
		})
		completes(t, c, id, 2)
		if rows := u.rows(t); rows != 1 {
			t.Errorf("there are %d effects, want 1", rows)
		}
	})
}

// (J13) what no worker runs cannot be completed, nor can what is no output.
func TestCompleteTxRefuses(t *testing.T) {
	t.Parallel()
	holds(t, worker.CompleteTx(t.Context(), nil, nil, 1), pawl.Invalid, "task: want ")
	holds(t, worker.CompleteTx(t.Context(), nil, &worker.Task{}, 1), pawl.Invalid, "task: want ")
	c := open(t, "sqlite::memory:", local.Config{})
	errs := make(chan error, 3)
	work(t, c, func(ctx context.Context, n int) (int, error) {
		task := worker.TaskOf(ctx)
		errs <- worker.CompleteTx(ctx, nil, task, 1)
		errs <- worker.CompleteTx(ctx, nil, task, func() {})
		errs <- worker.CompleteTx(ctx, nil, task, strings.Repeat("x", worker.DefaultOutputLimit))
		return n, nil
	})
	_, r := runs(t, c, 4)
	must(t, r.Err())
	holds(t, <-errs, pawl.Invalid, "transaction: <nil>: want ")
	holds(t, <-errs, pawl.Invalid, "the output cannot be written as JSON")
	holds(t, <-errs, pawl.Invalid, "the output has ")
}

// victimVariable makes the test binary a process that waits to be killed: the kind of a
// user, where the database is, and what it does before.
const victimVariable = "PAWL_LOCAL_VICTIM"

// What a victim does before it is killed.
const (
	submits      = "submits"       // in a transaction that stays open
	hasSubmitted = "has submitted" // and committed
	completing   = "completing"    // in a transaction that stays open
	hasCompleted = "has completed" // and committed, but the handler has not returned
)

// victim does what its arguments say, reports it on standard output, and never ends.
func victim(what string) {
	if err := tryVictim(what); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	select {}
}

func tryVictim(what string) error {
	ctx := context.Background()
	part := strings.SplitN(what, "|", 3)
	u, err := openUser(ctx, part[0], part[1])
	if err != nil {
		return err
	}
	c, err := local.Open(ctx, part[1], passive)
	if err != nil {
		return err
	}
	does := part[2]
	end := func(tx *userTx) error {
		if does == hasSubmitted || does == hasCompleted {
			if err := tx.commit(); err != nil {
				return err
			}
		}
		fmt.Println("ready")
		select {}
	}
	if does == submits || does == hasSubmitted {
		tx, err := u.begin(ctx)
		if err != nil {
			return err
		}
		def, err := workflow.Load(json.RawMessage(os.Getenv(victimVariable + "_WORKFLOW")))
		if err != nil {
			return err
		}
		sub := submission(def, 8)
		sub.RequestID = "victim"
		done, err := c.Jobs.SubmitTx(ctx, tx.tx, sub)
		if err = errors.Join(err, tx.exec(ctx, "insert into mine values (8)")); err != nil || done[0].Err != nil {
			return errors.Join(err, done[0].Err)
		}
		return end(tx)
	}
	w, err := worker.New(c, worker.Config{})
	if err != nil {
		return err
	}
	worker.Handle(w, "work", func(ctx context.Context, n int) (int, error) { return u.effect(ctx, n, end) })
	return w.Run(ctx)
}

// kill starts a victim, waits until it has done its part, and kills it.
func kill(t *testing.T, u *user, does string) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), victimVariable+"="+u.kind+"|"+u.where+"|"+does, victimVariable+"_WORKFLOW="+string(chain(t).Canonical()))
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, errors.Join(err, cmd.Process.Kill()))
	_ = cmd.Wait()
	if line != "ready\n" {
		t.Fatalf("the victim says %q", line)
	}
}

// (J12, J13, J9) a process that is killed with signal 9 leaves what it had committed, and
// nothing else: neither half a job nor a second effect.
func TestKilledInATransaction(t *testing.T) {
	t.Parallel()
	onUsers(t, func(t *testing.T, u *user) {
		c := open(t, u.where, local.Config{})
		work := func(ctx context.Context, n int) (int, error) {
			return u.effect(ctx, n, func(tx *userTx) error { return tx.commit() })
		}
		var jobs []pawl.ID
		for _, does := range []string{completing, hasCompleted} {
			id, err := c.Jobs.Submit(t.Context(), chain(t), map[string]int{"n": 1})
			must(t, err)
			kill(t, u, does)
			jobs = append(jobs, id)
		}
		serve(t, c, work, func(w *worker.Worker) { worker.Handle(w, "return", returnsInput) })
		for _, id := range jobs {
			completes(t, c, id, 2)
		}
		if rows := u.rows(t); rows != 2 {
			t.Errorf("two jobs had %d effects, want 2", rows)
		}
		sub := submission(chain(t), 8)
		sub.RequestID = "victim"
		for _, does := range []string{submits, hasSubmitted} {
			kill(t, u, does)
			tx := u.open(t)
			done := one2(t)(c.Jobs.SubmitTx(t.Context(), tx.tx, sub))
			committed := does == hasSubmitted
			if done.Replayed != committed {
				t.Errorf("killed when it %s: the same request made %+v", does, done)
			}
			if !committed {
				must(t, tx.rollback()) // the next one has the same request id
				continue
			}
			must(t, tx.commit())
			c.Hint()
			completes(t, c, done.ID, 9)
		}
		if rows := u.rows(t); rows != 4 { // one of the victim, one of the job
			t.Errorf("the job that a victim has committed left %d rows, want 4 with those of before", rows)
		}
	})
}
