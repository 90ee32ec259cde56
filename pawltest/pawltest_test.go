package pawltest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func define(t testing.TB, src string) *workflow.Definition {
	t.Helper()
	def, err := workflow.Parse("test.yaml", []byte(src))
	must(t, err)
	return def
}

// A bench is an engine whose handler h is a function.
type bench struct {
	*pawltest.Engine
	t testing.TB
}

func (b bench) submit(src string) pawl.ID {
	b.t.Helper()
	id, err := b.Client.Jobs.Submit(context.Background(), define(b.t, src), nil)
	must(b.t, err)
	return id
}

func (b bench) job(id pawl.ID) *pawl.JobView {
	b.t.Helper()
	v, err := b.Client.Jobs.Get(context.Background(), id)
	must(b.t, err)
	return v
}

// inBubble runs a test in a bubble, with an engine whose handler is h.
func inBubble(t *testing.T, h func(context.Context, any) (any, error), test func(t *testing.T, b bench)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := pawltest.New(t, pawltest.Config{Handle: func(w *worker.Worker) { worker.Handle(w, "h", h) }})
		test(t, bench{e, t})
	})
}

// (T6, T7) backoffs pass, as long as they can be, and take no time.
func TestRetries(t *testing.T) {
	inBubble(t, func(ctx context.Context, _ any) (any, error) {
		if n := worker.TaskOf(ctx).Attempt; n < 4 {
			return nil, fmt.Errorf("attempt %d", n)
		}
		return "done", nil
	}, func(t *testing.T, b bench) {
		begun := time.Now()
		r := b.Wait(b.submit("name: r\nsteps: [{id: a, handler: h, retry: {max_attempts: 4, base: 1h, cap: 4h}}]\noutput: ${{ steps.a.output }}\n"))
		var out string
		if err := r.Decode(&out); err != nil || out != "done" {
			t.Errorf("got %q, %v", out, err)
		}
		if took := time.Since(begun); took < 7*time.Hour || took > 7*time.Hour+time.Minute {
			t.Errorf("it took %s, want backoffs of 1, 2 and 4 hours", took)
		}
	})
}

// (T6) what snoozes and what sleeps goes on at its time, and not before.
func TestSnoozeAndSleep(t *testing.T) {
	var runs int
	inBubble(t, func(context.Context, any) (any, error) {
		if runs++; runs == 1 {
			return nil, worker.Snooze(24 * time.Hour)
		}
		return nil, nil
	}, func(t *testing.T, b bench) {
		id := b.submit("name: s\nsteps: [{id: a, handler: h}, {id: b, needs: [a], sleep: 168h}]\n")
		b.Advance(23 * time.Hour)
		if runs != 1 {
			t.Errorf("the handler ran %d times before its snooze was over", runs)
		}
		b.Advance(2 * time.Hour)
		b.Advance(160 * time.Hour)
		if v := b.job(id); runs != 2 || v.Status != lifecycle.JobRunning {
			t.Errorf("after the snooze the handler ran %d times, and the job is %s before its sleep is over", runs, v.Status)
		}
		b.Advance(8 * time.Hour)
		if v := b.job(id); v.Status != lifecycle.JobCompleted {
			t.Errorf("the job is %s after its sleep", v.Status)
		}
	})
}

// (T1) the timeout of a step ends its context on the clock of the test.
func TestTimeout(t *testing.T) {
	var took time.Duration
	inBubble(t, func(ctx context.Context, _ any) (any, error) {
		begun := time.Now()
		<-ctx.Done()
		took = time.Since(begun)
		return nil, ctx.Err()
	}, func(t *testing.T, b bench) {
		r := b.Wait(b.submit("name: t\nsteps: [{id: a, handler: h, timeout: 3h, retry: {max_attempts: 1}}]\n"))
		if r.State != lifecycle.JobFailed || r.Failure.Class != pawl.ClassTimeout || took != 3*time.Hour {
			t.Errorf("the job is %s after %s: %v", r.State, took, r.Failure)
		}
	})
}

// A handler that takes its time by the clock takes none of it.
func TestSlowHandler(t *testing.T) {
	inBubble(t, func(context.Context, any) (any, error) {
		time.Sleep(50 * time.Minute)
		return nil, nil
	}, func(t *testing.T, b bench) {
		id := b.submit("name: t\nsteps: [{id: a, handler: h, timeout: 1h}]\n")
		b.RunUntilIdle()
		if v := b.job(id); v.Steps[0].Status != lifecycle.StepInProgress {
			t.Errorf("the step is %s while its handler sleeps", v.Steps[0].Status)
		}
		if r := b.Wait(id); r.Err() != nil {
			t.Error(r.Err())
		}
	})
}

// A schedule makes its jobs as the clock comes to their times.
func TestSchedule(t *testing.T) {
	inBubble(t, func(context.Context, any) (any, error) { return nil, nil }, func(t *testing.T, b bench) {
		ctx := t.Context()
		_, _, err := b.Client.Workflows.Register(ctx, define(t, "name: daily\nsteps: [{id: a, handler: h}]\n"), "", pawl.Change{})
		must(t, err)
		_, err = b.Client.Schedules.Create(ctx, pawl.SchedulePlan{Name: "noon", Cron: "0 12 * * *", Workflow: "daily"}, pawl.Change{})
		must(t, err)
		b.Advance(72 * time.Hour)
		jobs, err := b.Client.Jobs.List(ctx, pawl.JobQuery{})
		must(t, err)
		if len(jobs) != 3 {
			t.Fatalf("%d jobs in three days, want 3", len(jobs))
		}
		for _, j := range jobs {
			if at := j.CreatedAt.Time().UTC(); j.Status != lifecycle.JobCompleted || at.Hour() != 12 || at.Minute() != 0 {
				t.Errorf("job %s of %s is %s", j.ID, at, j.Status)
			}
		}
	})
}

// A double records how a test fails.
type double struct {
	testing.TB
	said string
}

func (d *double) Fatalf(format string, args ...any) {
	d.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (d *double) Fatal(args ...any) { d.Fatalf("%s", fmt.Sprint(args...)) }

// failing returns what f, which fails a test, says.
func failing(t testing.TB, f func(t testing.TB)) string {
	d := &double{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(d)
	}()
	<-done
	return d.said
}

// A test that waits in vain fails at once, and says what for.
func TestWaitInVain(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		steps string
		want  []string
	}{
		"approval":   {"{id: a, approval: {prompt: \"pay?\"}}", []string{"RUNNING, and does not end by itself", "a: in_progress: it waits for an approval: pay?"}},
		"event":      {"{id: a, event: {name: paid}}", []string{"does not end by itself", "it waits for the event paid"}},
		"no handler": {"{id: a, handler: nobody}", []string{"does not end by itself", "no live worker serves default/nobody"}},
		"too long":   {"{id: a, sleep: 2400h}", []string{"RUNNING after 744h0m0s", "it sleeps until 2000-04-10"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				said := failing(t, func(t testing.TB) {
					b := bench{pawltest.New(t, pawltest.Config{}), t}
					b.Wait(b.submit("name: v\nsteps: [" + tt.steps + "]\n"))
				})
				for _, want := range tt.want {
					if !strings.Contains(said, want) {
						t.Errorf("the test fails with %q; want it to say %q", said, want)
					}
				}
			})
		})
	}
}

func TestMisuse(t *testing.T) {
	t.Parallel()
	said := failing(t, func(t testing.TB) { pawltest.New(t, pawltest.Config{}) })
	if want := "pawltest.New: want it called in synctest.Test"; !strings.Contains(said, want) {
		t.Errorf("outside of a bubble: %q; want %q", said, want)
	}
	synctest.Test(t, func(t *testing.T) {
		said := failing(t, func(t testing.TB) { pawltest.New(t, pawltest.Config{}).Advance(-time.Second) })
		if want := "Advance: -1s: want 0 or more"; !strings.Contains(said, want) {
			t.Errorf("backwards: %q; want %q", said, want)
		}
	})
}

// A handler that runs when the test ends is interrupted.
func TestTheEndOfATest(t *testing.T) {
	t.Parallel()
	var cause error
	synctest.Test(t, func(t *testing.T) {
		e := pawltest.New(t, pawltest.Config{Handle: func(w *worker.Worker) {
			worker.Handle(w, "h", func(ctx context.Context, _ any) (any, error) {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return nil, ctx.Err()
			})
		}})
		bench{e, t}.submit("name: e\nsteps: [{id: a, handler: h}]\n")
		e.RunUntilIdle()
	})
	if !errors.Is(cause, worker.ErrInterrupted) {
		t.Errorf("it was stopped because %v", cause)
	}
}
