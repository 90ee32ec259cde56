package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
)

// A fault is what a caller sees of an error.
type fault struct {
	Text      string
	Kind      pawl.Kind
	Error     *pawl.Error // without its cause
	Refusal   *machine.Refusal
	Obstacles decide.Obstacles
}

func faultOf(err error) (f fault) {
	if err == nil {
		return f
	}
	f.Text, f.Kind = err.Error(), pawl.KindOf(err)
	var e *pawl.Error
	if errors.As(err, &e) {
		bare := *e
		bare.Err, f.Error = nil, &bare
	}
	errors.As(err, &f.Refusal)
	errors.As(err, &f.Obstacles)
	return f
}

// TestRefusalsAreReplayed: a refusal is the answer to its request id, although the same
// request would succeed by now, or be refused for another reason; without that id it is
// decided anew (J8).
func TestRefusalsAreReplayed(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		g, ctx := newGate(false), t.Context()
		defer g.release()
		p, other := start(t, db.open(), setup{handlers: map[string]worker.Handler{"gate": g.run}}), start(t, db.open(), setup{})
		def := define(t, "name: two\nsteps:\n- {id: first, approval: {prompt: x, expires: 1h}}\n- {id: gate, approval: {prompt: x}, needs: [first]}\n")
		p.register(def)
		job := func() pawl.ID {
			t.Helper()
			id := p.submit(def, "")
			p.waiting(id, "first")
			return id
		}
		id, ended, expired, moved := job(), job(), job(), p.submitVersion("two", 1)
		p.waiting(moved, "first")
		w := workerID(t, p.worker)
		schedule := pawl.ScheduleName{Workspace: pawl.DefaultWorkspace, Name: "s"}
		put := func(e *engine.Engine, c pawl.Change) error {
			return errorOf(e.PutSchedule(ctx, pawl.SchedulePlan{Name: "s", Workflow: "late", Cron: "@yearly"}, false, c))
		}
		for _, tt := range []struct {
			name   string
			do     func(e *engine.Engine, c pawl.Change) error
			kind   pawl.Kind
			change func() // what makes the request possible, or refused for another reason
			then   func(err error) bool
		}{
			{"pause", func(e *engine.Engine, c pawl.Change) error { return errorOf(e.PauseJob(ctx, id, c)) }, pawl.Conflict,
				func() { must(t, errorOf(p.engine.ResumeJob(ctx, id, ann))) }, nil},
			{"approve", func(e *engine.Engine, c pawl.Change) error { return errorOf(e.Approve(ctx, id, "gate", nil, c)) }, pawl.Conflict,
				func() {
					must(t, errorOf(p.engine.ResumeJob(ctx, id, ann)))
					must(t, errorOf(p.engine.Approve(ctx, id, "first", nil, ann)))
					p.waiting(id, "gate")
				}, nil},
			{"retry a running job", func(e *engine.Engine, c pawl.Change) error { return errorOf(e.RetryJob(ctx, ended, pawl.Retry{}, c)) }, pawl.Conflict,
				func() { must(t, errorOf(p.engine.Cancel(ctx, ended, ann))); p.wait(ended) }, nil},
			{"cancel an ended job", func(e *engine.Engine, c pawl.Change) error { return errorOf(e.Cancel(ctx, ended, c)) }, pawl.Conflict,
				func() {}, isRefusal},
			{"move", func(e *engine.Engine, c pawl.Change) error { _, err := e.MoveJob(ctx, moved, 2, false, c); return err }, pawl.NotFound,
				func() {
					p.register(define(t, "name: two\nsteps:\n- {id: first, approval: {prompt: y, expires: 1h}}\n"))
				}, hasObstacles},
			{"move with obstacles", func(e *engine.Engine, c pawl.Change) error { _, err := e.MoveJob(ctx, moved, 2, false, c); return err }, pawl.Conflict,
				func() { must(t, errorOf(p.engine.Cancel(ctx, moved, ann))); p.wait(moved) }, isRefusal},
			{"schedule", put, pawl.NotFound,
				func() { p.register(define(t, "name: late\nsteps: [{id: a, approval: {prompt: x}}]\n")) }, nil},
			{"trigger", func(e *engine.Engine, c pawl.Change) error {
				return errorOf(e.TriggerSchedule(ctx, pawl.ScheduleName{Workspace: pawl.DefaultWorkspace, Name: "t"}, c))
			}, pawl.NotFound, func() {
				must(t, errorOf(p.engine.PutSchedule(ctx, pawl.SchedulePlan{Name: "t", Workflow: "late", Cron: "@yearly"}, false, ann)))
			}, nil},
			{"resume schedule", func(e *engine.Engine, c pawl.Change) error {
				return errorOf(e.MoveSchedule(ctx, schedule, lifecycle.ScheduleResume, c))
			}, pawl.Conflict, func() { must(t, errorOf(p.engine.MoveSchedule(ctx, schedule, lifecycle.SchedulePause, ann))) }, nil},
			{"pause worker", func(e *engine.Engine, c pawl.Change) error { return errorOf(e.PauseWorker(ctx, w, c)) }, pawl.Conflict,
				func() {
					p.submit(define(t, "name: g\nsteps: [{id: a, handler: gate}]\n"), "")
					g.wait(t)
				}, nil},
			{"unknown step", func(e *engine.Engine, c pawl.Change) error { return errorOf(e.SkipStep(ctx, id, "nothing", c)) }, pawl.NotFound,
				func() {}, func(err error) bool { return pawl.KindOf(err) == pawl.NotFound }},
			{"approve what has expired", func(e *engine.Engine, c pawl.Change) error {
				db.elapse(2 * time.Hour)
				return errorOf(e.Approve(ctx, expired, "first", nil, c))
			}, pawl.Conflict, func() { p.wait(expired) }, func(err error) bool { return pawl.KindOf(err) == pawl.Conflict }},
		} {
			if tt.name == "pause" {
				must(t, errorOf(p.engine.PauseJob(ctx, id, ann)))
			}
			c := ann
			c.RequestID = strings.ReplaceAll(tt.name, " ", "-")
			first := tt.do(p.engine, c)
			if pawl.KindOf(first) != tt.kind || first == nil {
				t.Errorf("%s: %v; want an error of kind %d", tt.name, first, tt.kind)
			}
			tt.change()
			for _, e := range []*engine.Engine{p.engine, other.engine} {
				if diff := gocmp.Diff(faultOf(first), faultOf(tt.do(e, c))); diff != "" {
					t.Errorf("%s again (-want +got)\n%s", tt.name, diff)
				}
			}
			changed := c
			changed.Reason = "another"
			if err := tt.do(p.engine, changed); !errors.Is(err, link.ErrKeyReused) {
				t.Errorf("%s: another request with that id: %v", tt.name, err)
			}
			c.RequestID = ""
			if err := tt.do(p.engine, c); tt.then == nil && err != nil || tt.then != nil && !tt.then(err) {
				t.Errorf("%s without a request id: %v", tt.name, err)
			}
		}
		verify(t, p.store)
	})
}

func isRefusal(err error) bool {
	var refusal *machine.Refusal
	return errors.As(err, &refusal)
}

func hasObstacles(err error) bool {
	var obstacles decide.Obstacles
	return errors.As(err, &obstacles)
}

// TestAnswersOfEarlierVersions: the bare id of a job, and an empty answer, still replay
// (J8).
func TestAnswersOfEarlierVersions(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		p, ctx := start(t, db.open(), setup{}), t.Context()
		sub := pawl.Submission{Definition: define(t, oneStep).Canonical(), RequestID: "s", Actor: "ann"}
		done, err := p.engine.Submit(ctx, sub)
		must(t, err)
		c := ann
		c.RequestID = "c"
		must(t, errorOf(p.engine.Cancel(ctx, done[0].ID, c)))
		id := done[0].ID.Public(pawl.JobPrefix)
		literal := map[string]string{"sqlite": "X'%x'", "postgres": `'\x%x'::bytea`}[db.kind]
		db.sql("update idempotency set body = " + fmt.Sprintf(literal, id) + " where key = 's'")
		db.sql("update idempotency set body = " + fmt.Sprintf(literal, "") + " where key = 'c'")
		again, err := p.engine.Submit(ctx, sub)
		want := []pawl.Submitted{{ID: done[0].ID, Receipt: pawl.Receipt{ID: id, Replayed: true}, Replayed: true}}
		if diff := gocmp.Diff(want, again); err != nil || diff != "" {
			t.Errorf("submit: %v (-want +got)\n%s", err, diff)
		}
		if r, err := p.engine.Cancel(ctx, done[0].ID, c); err != nil || !r.Replayed {
			t.Errorf("cancel: %+v, %v", r, err)
		}
	})
}

// TestSimultaneousRequests: of 200 simultaneous copies of a request, given to two
// processes, one has an effect, and all get the same reply, be it a receipt or a refusal
// (J8, K5).
func TestSimultaneousRequests(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		procs := []*process{start(t, db.open(), setup{}), start(t, db.open(), setup{})}
		p, ctx := procs[0], t.Context()
		id := p.submit(define(t, "name: one\nsteps: [{id: a, handler: nobody}]\n"), "")
		sub := pawl.Submission{Definition: define(t, oneStep).Canonical(), RequestID: "submit", Actor: "ann"}
		for _, tt := range []struct {
			name   string
			do     func(e *engine.Engine, c pawl.Change) (pawl.Receipt, error)
			effect map[string]int
		}{
			{"pause", func(e *engine.Engine, c pawl.Change) (pawl.Receipt, error) { return e.PauseJob(ctx, id, c) }, map[string]int{"entries": 1}},
			{"pause-again", func(e *engine.Engine, c pawl.Change) (pawl.Receipt, error) { return e.PauseJob(ctx, id, c) }, nil},
			{"submit", func(e *engine.Engine, c pawl.Change) (pawl.Receipt, error) {
				done, err := e.Submit(ctx, sub)
				if err != nil {
					return pawl.Receipt{}, err
				}
				return done[0].Receipt, done[0].Err
			}, map[string]int{"job": 1, "step": 1, "entries": 3}},
		} {
			before := p.everything()
			var all sync.WaitGroup
			replies := make([]string, 200)
			for i := range replies {
				all.Go(func() {
					c := ann
					c.RequestID = tt.name
					r, err := tt.do(procs[i%2].engine, c)
					replies[i] = fmt.Sprintf("%s, %+v", asJSON(t, r), faultOf(err).Text)
				})
			}
			all.Wait()
			for i, reply := range replies {
				if reply != replies[0] {
					t.Errorf("%s: reply %d is %s; the first is %s", tt.name, i, reply, replies[0])
				}
			}
			for kind, n := range tt.effect {
				before[kind] += n
			}
			if diff := gocmp.Diff(before, p.everything()); diff != "" {
				t.Errorf("%s: what there is (-want +got)\n%s", tt.name, diff)
			}
		}
		verify(t, p.store)
	})
}

// TestRequestIDs: a request id is 1 to 255 visible characters of ASCII, and the error
// says what is wrong with another one (J8).
func TestRequestIDs(t *testing.T) {
	t.Parallel()
	e := engine.New(engine.Config{Store: (&database{t: t, kind: "memory", where: ":memory:"}).open()})
	t.Cleanup(e.Close)
	def := define(t, oneStep).Canonical()
	for name, tt := range map[string]struct{ id, want string }{
		"one":      {"x", ""},
		"all":      {"!~" + strings.Repeat("x", 253), ""},
		"too long": {strings.Repeat("x", 256), "request_id: 256 bytes: want 1 to 255 "},
		"space":    {"a b", "request_id: ' ' at byte 1: want 1 to 255 "},
		"control":  {"ab\x7f", `request_id: '\x7f' at byte 2`},
		"letter":   {"é", "request_id: 'é' at byte 0"},
		"newline":  {"a\n", `request_id: '\n' at byte 1`},
	} {
		t.Run(name, func(t *testing.T) {
			done, err := e.Submit(t.Context(), pawl.Submission{Definition: def, RequestID: tt.id})
			must(t, err)
			schedule := pawl.ScheduleName{Workspace: "other", Name: "none"}
			_, verb := e.MoveSchedule(t.Context(), schedule, lifecycle.SchedulePause, pawl.Change{RequestID: tt.id})
			for _, err := range []error{done[0].Err, verb} {
				switch {
				case tt.want == "" && (err == nil || pawl.KindOf(err) == pawl.NotFound):
				case tt.want != "" && pawl.KindOf(err) == pawl.Invalid && strings.HasPrefix(err.Error(), tt.want):
				default:
					t.Errorf("%v; want %q", err, tt.want)
				}
			}
		})
	}
}

// TestARequestUnderWayPostgres: a request whose first copy another process is committing
// waits for at most a second, and is then refused without a stored answer; other commands
// are not refused with it (J8).
func TestARequestUnderWayPostgres(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := &database{t: t, kind: "postgres", where: pgtest.Copy(t, migrated)}
	p := start(t, db.open(), setup{})
	id := p.submit(define(t, oneStep), "")
	conn, err := pgx.Connect(ctx, db.where)
	must(t, err)
	defer conn.Close(context.Background())
	tx, err := conn.Begin(ctx)
	must(t, err)
	_, err = tx.Exec(ctx, "insert into idempotency (workspace, key, endpoint, request_hash, status, created_at, expires_at) values ('default', 'k', '', '', 0, 0, 0)")
	must(t, err)
	c := ann
	c.RequestID = "k"
	subs := submissions(define(t, oneStep), 2)
	subs[0].RequestID = "k"
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := p.engine.PauseJob(ctx, id, c); !errors.Is(err, link.ErrKeyHeld) || pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("pause: %v; want it refused as under way", err)
		}
	})
	all.Go(func() {
		done, err := p.engine.Submit(ctx, subs[0])
		if err != nil || !errors.Is(done[0].Err, link.ErrKeyHeld) {
			t.Errorf("submit: %+v, %v; want it refused as under way", done, err)
		}
	})
	for range 20 {
		all.Go(func() {
			if done, err := p.engine.Submit(ctx, subs[1]); err != nil || done[0].Err != nil {
				t.Errorf("another submission: %+v, %v", done, err)
			}
		})
	}
	all.Wait()
	must(t, tx.Rollback(ctx))
	if r, err := p.engine.PauseJob(ctx, id, c); err != nil || r.Replayed {
		t.Errorf("after that: %+v, %v", r, err)
	}
}
