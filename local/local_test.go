package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/local"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

// withServer ends the PostgreSQL server of the tests after them.
type withServer struct{ *testing.M }

func (m withServer) Run() int { return pgtest.Main(m.M) }

func TestMain(m *testing.M) {
	if what := os.Getenv(victimVariable); what != "" {
		victim(what)
	}
	goleak.VerifyTestMain(withServer{m})
}

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	c, err := local.Open(ctx, "sqlite::memory:", local.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	w, _ := worker.New(c, worker.Config{})
	worker.Handle(w, "double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	worker.Handle(w, "say", func(_ context.Context, n int) (string, error) { return fmt.Sprint("it is ", n), nil })
	drained := make(chan error)
	go func() { drained <- w.Run(ctx) }()

	def, _ := workflow.File{Name: "twice", Steps: []workflow.Step{
		{ID: "double", Handler: "double", With: 21},
		{ID: "say", Needs: []string{"double"}, Handler: "say", With: "${{ steps.double.output }}"},
	}, Output: "${{ steps.say.output }}"}.Build()
	id, _ := c.Jobs.Submit(ctx, def, nil)
	job, err := c.Jobs.Wait(ctx, id)
	var text string
	fmt.Println(err, job.Decode(&text), text)
	stop()
	fmt.Println(<-drained)
	// Output:
	// <nil> <nil> it is 42
	// <nil>
}

// flow has an approval behind which a handler runs.
func flow(t *testing.T) *workflow.Definition {
	t.Helper()
	def, err := workflow.File{Name: "flow", Inputs: map[string]workflow.InputSchema{"n": {Type: workflow.TypeInteger}}, Steps: []workflow.Step{
		{ID: "ask", Approval: &workflow.ApprovalStep{Prompt: "go on?"}},
		{ID: "work", Needs: []string{"ask"}, Handler: "work", With: "${{ inputs.n }}"},
	}, Output: "${{ steps.work.output }}"}.Build()
	if err != nil {
		t.Fatal(err)
	}
	return def
}

// serve runs a worker until the test ends.
func serve(t *testing.T, c *client.Client, work func(context.Context, int) (int, error), more ...func(*worker.Worker)) {
	t.Helper()
	w, err := worker.New(c, worker.Config{Name: "tester"})
	if err != nil {
		t.Fatal(err)
	}
	worker.Handle(w, "work", work)
	for _, f := range more {
		f(w)
	}
	ctx, stop := context.WithCancel(context.Background())
	drained := make(chan error, 1)
	go func() { drained <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
}

func open(t *testing.T, name string, c local.Config) *client.Client {
	t.Helper()
	cl, err := local.Open(t.Context(), name, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cl.Close(); err != nil {
			t.Error(err)
		}
	})
	return cl
}

// errorOf returns the error of a verb whose receipt does not matter.
func errorOf(_ pawl.Receipt, err error) error { return err }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// waits returns when the first step of a job waits for a person.
func waits(t *testing.T, c *client.Client, id pawl.ID) {
	t.Helper()
	must(t, c.Inspect.Watch(t.Context(), id, func() (bool, error) {
		v, err := c.Jobs.Get(t.Context(), id)
		return err == nil && v.Steps[0].Status != lifecycle.StepInProgress, err
	}))
}

// (J2, T7, K5) a job is submitted, waits for a person, is approved on behalf of the
// client's actor, fails for good, and is continued with another input.
func TestServices(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := open(t, filepath.Join(t.TempDir(), "pawl.db"), local.Config{Client: client.Config{Actor: "ann"}})
	serve(t, c, func(_ context.Context, n int) (int, error) {
		if n < 0 {
			return 0, worker.Permanent(errors.New("it is negative"))
		}
		return n + 1, nil
	})
	id, err := c.Jobs.Submit(ctx, flow(t), map[string]any{"n": -1})
	must(t, err)
	waits(t, c, id)
	reasons, err := c.Inspect.Why(ctx, id, "")
	must(t, err)
	if len(reasons) == 0 {
		t.Error("nothing says why the job waits")
	}
	must(t, errorOf(c.Approvals.Approve(ctx, id, "ask", nil, pawl.Change{Reason: "fine"})))
	r, err := c.Jobs.Wait(ctx, id)
	must(t, err)
	var failure *pawl.Failure
	if err := r.Decode(new(int)); r.State != lifecycle.JobFailed || !errors.As(err, &failure) || !strings.Contains(failure.Message, "it is negative") {
		t.Fatalf("the job is %s: %v", r.State, err)
	}
	var approved bool
	must(t, c.Inspect.History(ctx, id, func(m pawl.Transition) error {
		approved = approved || m.Actor == "ann" && m.Reason == "fine"
		return nil
	}))
	if !approved {
		t.Error("the trail does not say that ann approved it")
	}
	id, err = c.Jobs.Retry(ctx, id, pawl.Retry{Set: map[string]any{"n": 41}}, pawl.Change{Reason: "positive now"})
	must(t, err)
	r, err = c.Jobs.Wait(ctx, id)
	must(t, err)
	var n int
	if err := r.Decode(&n); err != nil || n != 42 {
		t.Errorf("got %d, %v; want 42", n, err)
	}
}

// (J8) one of many submissions that is refused harms none of the others, and a request id
// makes one job.
func TestSubmitAll(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := open(t, "sqlite::memory:", local.Config{})
	def := flow(t)
	done, err := c.Jobs.SubmitAll(ctx,
		client.Submission{Workflow: def, RequestID: "r1", Inputs: json.RawMessage(`{"n":1}`)},
		client.Submission{Name: "unheard-of"},
		client.Submission{},
		client.Submission{Workflow: def, Name: "flow"},
		client.Submission{Workflow: def, Inputs: func() {}},
		client.Submission{Workflow: def, Inputs: map[string]int{"m": 1}},
	)
	must(t, err)
	for i, kind := range []pawl.Kind{0, pawl.NotFound, pawl.Invalid, pawl.Invalid, pawl.Invalid, pawl.Invalid} {
		if err := done[i].Err; i == 0 && err != nil || i > 0 && pawl.KindOf(err) != kind {
			t.Errorf("submission %d: %v; want an error of kind %v", i, err, kind)
		}
	}
	again, err := c.Jobs.SubmitAll(ctx, client.Submission{Workflow: def, RequestID: "r1", Inputs: map[string]int{"n": 1}})
	if err != nil || again[0].ID != done[0].ID || !again[0].Replayed {
		t.Errorf("the same request made %+v, %v; want %v", again, err, done[0].ID)
	}
	all, err := c.Jobs.List(ctx, pawl.JobQuery{})
	must(t, err)
	if len(all) != 1 {
		t.Errorf("there are %d jobs, want 1", len(all))
	}
}

// (T12) a registered workflow is found by its name.
func TestRegistered(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := open(t, "sqlite::memory:", local.Config{})
	v, made, err := c.Workflows.Register(ctx, flow(t), "", pawl.Change{})
	if err != nil || !made || v.Version != 1 {
		t.Fatalf("registered %+v, %v, %v", v, made, err)
	}
	done, err := c.Jobs.SubmitAll(ctx, client.Submission{Name: "flow@1", Inputs: map[string]int{"n": 1}})
	must(t, errors.Join(err, done[0].Err))
	id := done[0].ID
	job, err := c.Jobs.Get(ctx, id)
	must(t, err)
	if job.Version != 1 || job.Workspace != pawl.DefaultWorkspace {
		t.Errorf("the job is of version %d in workspace %s", job.Version, job.Workspace)
	}
	must(t, errorOf(c.Jobs.Cancel(ctx, id, pawl.Change{})))
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"":                            "no file is named",
		"mysql://h/d":                 `"mysql" is not a kind of database`,
		"sqlite:a?synchronous=off":    `synchronous "off"`,
		"/no/such/folder/pawl.db":     "the folder of the database does not exist: /no/such/folder",
		t.TempDir():                   "is a folder",
		"postgres://u:p@ss@h/d":       "unescaped character",
		"postgres://u@127.0.0.1:1/db": "connect",
	} {
		c, err := local.Open(t.Context(), name, local.Config{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "p@ss") {
			t.Errorf("%q: %v, %v; want an error with %q", name, c, err, want)
		}
	}
}

// (T10) a worker on a passive client sees whether another process on the database follows
// deadlines, and an engine that is not passive is one that does.
func TestFollowed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	passive := open(t, path, local.Config{Passive: true})
	serve(t, passive, func(_ context.Context, n int) (int, error) { return n, nil })
	followed := func(c *client.Client, want bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for tick := time.Tick(5 * time.Millisecond); ; {
			got, err := c.Schedules.Followed(ctx)
			must(t, err)
			if got == want {
				return
			}
			<-tick
		}
	}
	followed(passive, false)
	followed(open(t, path, local.Config{}), true)
	followed(passive, true)
}

// An engine on the pool of a program runs jobs beside the program's own statements, and
// leaves it open.
func TestPostgreSQLPool(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.URL(t))
	must(t, err)
	defer pool.Close()
	c, err := local.OpenPool(t.Context(), pool, local.Config{})
	must(t, err)
	t.Run("run", func(t *testing.T) {
		serve(t, c, func(ctx context.Context, n int) (answer int, err error) {
			return answer, pool.QueryRow(ctx, "select $1::int + 1", n).Scan(&answer)
		})
		id, err := c.Jobs.Submit(t.Context(), flow(t), map[string]any{"n": 41})
		must(t, err)
		waits(t, c, id)
		must(t, errorOf(c.Approvals.Approve(t.Context(), id, "ask", nil, pawl.Change{})))
		r, err := c.Jobs.Wait(t.Context(), id)
		must(t, err)
		var n int
		if err := r.Decode(&n); err != nil || n != 42 {
			t.Errorf("got %d, %v; want 42", n, err)
		}
	})
	must(t, c.Close())
	must(t, pool.Ping(t.Context()))
}

func TestOpenPoolRefuses(t *testing.T) {
	t.Parallel()
	if c, err := local.OpenPool(t.Context(), nil, local.Config{}); pawl.KindOf(err) != pawl.Invalid {
		t.Errorf("%v, %v; want an error about a pool that is nil", c, err)
	}
}
