package engine

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// TestWhatIsKept: a refusal of the request is stored with its status, and nothing of what
// the command did. A failure of the server, and what passes by itself, is decided anew
// (J8, K5).
func TestWhatIsKept(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err    error
		status int // 0: not stored
	}{
		"invalid":   {pawl.Errorf(pawl.Invalid, "x"), http.StatusUnprocessableEntity},
		"not found": {store.NoJob(pawl.ID{}), http.StatusNotFound},
		"conflict":  {&pawl.Error{Kind: pawl.Conflict, Message: "x", Hint: "y", Entity: "j_1", Err: errors.New("z")}, http.StatusConflict},
		"refused":   {pawl.Errorf(pawl.Refused, "x"), http.StatusForbidden},
		"table": {&machine.Refusal{Machine: "job", Entity: "j_1", State: lifecycle.JobCompleted, Event: lifecycle.JobCancel, Allowed: []machine.Event{lifecycle.JobRedact}, Final: true},
			http.StatusConflict},
		"wrapped":   {fmt.Errorf("step a: %w", &machine.Refusal{Machine: "job", State: lifecycle.JobCompleted, Event: lifecycle.JobCancel}), http.StatusConflict},
		"obstacles": {&pawl.Error{Kind: pawl.Conflict, Message: "x", Err: decide.Obstacles{"a", "b"}}, http.StatusConflict},

		"internal":    {pawl.Errorf(pawl.Internal, "x"), 0},
		"unavailable": {pawl.Errorf(pawl.Unavailable, "x"), 0},
		"any":         {errors.New("x"), 0},
		"not applied": {&pawl.Error{Kind: pawl.Conflict, Message: "x", Err: decide.ErrNotApplied}, 0},
		"passing":     {&passing{pawl.Errorf(pawl.Conflict, "x")}, 0},
		"need":        {&need{[]rowkey.Definition{1}}, 0},
		"missed":      {nil, 0}, // the command reads what it has not asked for
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := testEngine(t)
			id, calls := e.submitOne(t), 0
			cmd := &script{q: store.Query{Jobs: []rowkey.Job{id.JobKey()}}, f: func(t *tx) error {
				calls++
				j := t.job(id.JobKey())
				j.Paused = true
				if err := t.moveJob(j, lifecycle.JobPause, decide.Note{}); err != nil {
					return err
				}
				if tt.err == nil {
					t.job(id.JobKey() + 1)
					return pawl.Errorf(pawl.NotFound, "x")
				}
				return tt.err
			}}
			r, err := e.newRequest(pawl.Change{RequestID: "r"}, "", "POST /x", 1)
			if err != nil {
				t.Fatal(err)
			}
			commit := func() error {
				k := &keyed{command: cmd, request: r}
				errs, err := e.committer.together(t.Context(), []command{k}, nil)
				if err != nil {
					t.Fatal(err)
				}
				return k.result(errs[0])
			}
			first := commit()
			want := 2
			if tt.status != 0 {
				want = 1
			}
			again := commit()
			if calls != want || first == nil || again == nil || first.Error() != again.Error() || pawl.KindOf(first) != pawl.KindOf(again) {
				t.Errorf("it is decided %d times, want %d: %v, then %v", calls, want, first, again)
			}
			var was, is *machine.Refusal
			if errors.As(first, &was) != errors.As(again, &is) || was != nil && (was.Entity != is.Entity || was.Final != is.Final || !slices.Equal(was.Allowed, is.Allowed)) {
				t.Errorf("the refusal is %+v, then %+v", was, is)
			}
			if status := e.statusUnder(t, r.key); status != tt.status {
				t.Errorf("stored is status %d, want %d", status, tt.status)
			}
			j, err := e.store.Job(t.Context(), id.JobKey())
			if err != nil || j.Paused || j.Seq != 2 {
				t.Errorf("the job is %+v, %v; want it as it was", j, err)
			}
		})
	}
}

// statusUnder returns the status that is stored under a key, or 0.
func (e *Engine) statusUnder(t *testing.T, key store.IdempotencyKey) (status int) {
	t.Helper()
	err := e.store.Do(t.Context(), &store.Query{Keys: []store.IdempotencyKey{key}}, func(f *store.Facts) (*store.Changes, error) {
		status = f.Keys[key].Status
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// TestKeyErrors: callers tell a request id of another request from one that is in use
// (J8).
func TestKeyErrors(t *testing.T) {
	t.Parallel()
	key := store.IdempotencyKey{Workspace: "w", Key: "k"}
	for name, tt := range map[string]struct {
		answer store.Answer
		is     error
		kind   pawl.Kind
	}{
		"reused": {store.Answer{RequestHash: [32]byte{1}}, link.ErrKeyReused, pawl.Invalid},
		"held":   {store.Answer{Held: true}, link.ErrKeyHeld, pawl.Conflict},
	} {
		tx := newTx(&store.Query{Keys: []store.IdempotencyKey{key}}, &store.Facts{Keys: map[store.IdempotencyKey]*store.Answer{key: &tt.answer}}, 0, list{})
		if _, done, err := tx.replay(key, [32]byte{2}); done || !errors.Is(err, tt.is) || pawl.KindOf(err) != tt.kind {
			t.Errorf("%s: %t, %v", name, done, err)
		}
	}
}

// A refusedSubmit is a submission that is refused once its job is made.
type refusedSubmit struct {
	of  *submit
	err error
}

func (r *refusedSubmit) query(q *store.Query) { r.of.query(q) }

func (r *refusedSubmit) decide(t *tx) error {
	if err := r.of.create(t); err != nil {
		return err
	}
	return r.of.reply(t, r.err)
}

// TestARefusedSubmissionIsKept: so is the refusal of a submission, and its job is not made;
// a failure is not kept (J8).
func TestARefusedSubmissionIsKept(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		kept bool
	}{
		"refusal": {pawl.Errorf(pawl.Conflict, "the parent has ended"), true},
		"failure": {pawl.Errorf(pawl.Internal, "broken"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := testEngine(t)
			def, err := workflow.Parse("test.yaml", []byte("name: one\nsteps: [{id: a, handler: nobody}]\n"))
			if err != nil {
				t.Fatal(err)
			}
			sub := pawl.Submission{Definition: def.Canonical(), RequestID: "r"}
			cmd, err := e.newSubmit(&sub, nil)
			if err != nil {
				t.Fatal(err)
			}
			first := cmd.result(e.committer.one(t.Context(), &refusedSubmit{cmd, tt.err}))
			if first.Err == nil || first.ID != (pawl.ID{}) {
				t.Errorf("first %+v", first)
			}
			again, err := e.Submit(t.Context(), sub)
			if err != nil || again[0].Replayed != tt.kept || tt.kept != (again[0].Err != nil) || tt.kept && again[0].Err.Error() != first.Err.Error() {
				t.Errorf("again %+v, %v", again, err)
			}
			jobs, err := e.Jobs(t.Context(), pawl.JobQuery{})
			if want := map[bool]int{true: 0, false: 1}[tt.kept]; err != nil || len(jobs) != want {
				t.Errorf("%d jobs, %v; want %d", len(jobs), err, want)
			}
		})
	}
}
