package remote_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/address"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

var proxySeed = flag.Uint64("proxy.seed", 0, "the seed of TestABadProxy; 0: a random one")

// A badProxy passes requests to one of several servers. It loses requests, loses answers
// after the server has acted, sends a request twice, at times to two servers, and is slow.
type badProxy struct {
	servers []http.Handler
	mu      sync.Mutex
	random  *rand.Rand
	behind  sync.WaitGroup // requests whose answers nobody gets
	good    bool           // from now on it does none of this
}

func (p *badProxy) roll(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.good {
		return n
	}
	return p.random.IntN(n)
}

func (p *badProxy) server() http.Handler {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.servers[p.random.IntN(len(p.servers))]
}

func (p *badProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	answer := func(ctx context.Context) *httptest.ResponseRecorder {
		to := httptest.NewRecorder()
		again := r.Clone(ctx)
		again.Body = io.NopCloser(bytes.NewReader(body))
		p.server().ServeHTTP(to, again)
		return to
	}
	switch p.roll(20) {
	case 0: // it is lost on its way
		panic(http.ErrAbortHandler)
	case 1: // so is the answer
		answer(r.Context())
		panic(http.ErrAbortHandler)
	case 2: // and so, while the server goes on with it
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		p.behind.Go(func() {
			defer cancel()
			answer(ctx)
		})
		panic(http.ErrAbortHandler)
	case 3: // it is sent twice, one after the other
		answer(r.Context())
	case 4: // and at the same time
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		p.behind.Go(func() {
			defer cancel()
			answer(ctx)
		})
	case 5:
		time.Sleep(time.Duration(p.roll(50)) * time.Millisecond)
	case 6:
		w.WriteHeader([]int{http.StatusBadGateway, http.StatusNotFound, http.StatusInternalServerError, http.StatusBadRequest}[p.roll(4)%4])
		return
	}
	to := answer(r.Context())
	for name, values := range to.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(to.Code)
	_, _ = w.Write(to.Body.Bytes()) // the client may be gone
}

// newServer returns a server on a database.
func newServer(t *testing.T, where string) (*engine.Engine, store.Store, http.Handler) {
	t.Helper()
	at, err := address.Parse(where)
	must(t, err)
	log := slog.New(slog.DiscardHandler)
	db, err := at.Open(t.Context(), time.Hour, log)
	must(t, err)
	e := engine.New(engine.Config{Store: db, Poll: 50 * time.Millisecond, Silence: time.Hour})
	t.Cleanup(func() {
		e.Close()
		must(t, db.Close())
	})
	service := api.New(api.Config{Engine: e, Program: "1.0", Schema: 1, Now: time.Now, Log: log})
	return e, db, api.Guard(service, api.GuardConfig{Raw: []string{"/api/steps/*/log"}, Log: log})
}

const wide = `name: wide
inputs: {n: {type: integer}}
steps:
  - {id: a, handler: far}
  - {id: b, handler: far, needs: [a], foreach: "${{ [1, 2, 3] }}"}
  - {id: c, handler: far, needs: [b]}
  - {id: d, handler: far, needs: [a]}
`

// TestABadProxy: with a proxy that loses, repeats and delays, before two servers, every job
// ends, and every claim in the trails was run exactly once. No claim is stuck and no step is
// run past its fence.
func TestABadProxy(t *testing.T) { // T3, T5
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			where := filepath.Join(t.TempDir(), "pawl.db")
			if kind == "postgres" {
				where = pgtest.URL(t)
			}
			seed := *proxySeed
			if seed == 0 {
				seed = rand.Uint64()
			}
			t.Logf("-proxy.seed %d", seed)
			testABadProxy(t, where, seed)
		})
	}
}

func testABadProxy(t *testing.T, where string, seed uint64) {
	first, db, a := newServer(t, where)
	_, _, b := newServer(t, where)
	p := &badProxy{servers: []http.Handler{a, b}, random: rand.New(rand.NewPCG(seed, 1)), good: true}
	server := httptest.NewUnstartedServer(p)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	t.Cleanup(func() {
		server.Close()
		p.behind.Wait()
	})
	var mu sync.Mutex
	ran := map[string]int{}
	run := func(_ context.Context, task *worker.Task) worker.Result {
		mu.Lock()
		defer mu.Unlock()
		ran[fmt.Sprint(task.StepID, " ", task.Claim)]++
		return worker.Result{Output: []byte("1")}
	}
	var workers []*worker.Worker
	for i := range 3 {
		w, err := worker.Start(t.Context(), linker{open(t, server.URL)}, worker.Config{Name: fmt.Sprint("far", i), Capacity: 4,
			Beat: 100 * time.Millisecond, Handlers: map[string]worker.Handler{"far": run}})
		must(t, err)
		workers = append(workers, w)
	}
	p.mu.Lock()
	p.good = false
	p.mu.Unlock()
	var ids []pawl.ID
	for range 40 {
		ids = append(ids, submit(t, first, wide, `{"n":1}`))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, id := range ids {
		j, err := first.Wait(ctx, id)
		if err != nil {
			_ = first.History(context.Background(), id, func(tr pawl.Transition) error {
				t.Logf("%v %s %s %v->%v by %s %s", tr.At, tr.Entity, tr.Event, tr.From, tr.To, tr.Actor, tr.Metadata)
				return nil
			})
			mu.Lock()
			t.Fatalf("a job does not end: %v; what was run of it:\n%v", err, ran)
		}
		if j.State != lifecycle.JobCompleted {
			t.Errorf("a job is %s: %v", j.State, j.Error)
		}
	}
	p.mu.Lock()
	p.good = true
	p.mu.Unlock()
	for _, w := range workers {
		must(t, w.Drain(t.Context()))
	}
	claimed := map[string]int{}
	for _, id := range ids {
		must(t, first.History(t.Context(), id, func(tr pawl.Transition) error {
			if tr.Event == lifecycle.StepClaim && strings.HasPrefix(tr.Actor, pawl.WorkerPrefix) {
				claimed[tr.Entity+" "+claimOf(t, tr)]++
			}
			return nil
		}))
	}
	for claim, n := range claimed {
		if n != 1 || ran[claim] != 1 {
			t.Errorf("claim %s: %d times in the trail, %d times run", claim, n, ran[claim])
		}
	}
	if len(ran) != len(claimed) {
		t.Errorf("%d claims were run, and %d are in the trails", len(ran), len(claimed))
	}
	refused, err := db.Refused(t.Context(), 0)
	must(t, err)
	t.Logf("%d jobs, %d claims, %d refused facts", len(ids), len(claimed), refused)
}

// claimOf returns the number of a claim.
func claimOf(t *testing.T, tr pawl.Transition) string {
	t.Helper()
	var told struct {
		Claim int `json:"claim"`
	}
	must(t, json.Unmarshal(tr.Metadata, &told))
	return fmt.Sprint(told.Claim)
}

// TestAWorkerWithNothingFindsWhatItWasGiven: the answer that gives a step to a worker that has
// none is lost. The worker says that it has none, and the step is delivered again.
func TestAWorkerWithNothingFindsWhatItWasGiven(t *testing.T) { // T5
	t.Parallel()
	s := newSite(t)
	var lost atomic.Bool
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := httptest.NewRecorder()
		s.handler.ServeHTTP(to, r)
		if strings.Contains(to.Body.String(), `"step_id"`) && lost.CompareAndSwap(false, true) {
			panic(http.ErrAbortHandler)
		}
		maps.Copy(w.Header(), to.Header())
		w.WriteHeader(to.Code)
		_, _ = w.Write(to.Body.Bytes()) // the client may be gone
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	t.Cleanup(server.Close)
	_, stop := far(t, server.URL, worker.Config{Name: "far"}, func(w *worker.Worker) {
		worker.Handle(w, "far", func(context.Context, struct{}) (int, error) { return 1, nil })
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	j, err := s.local.Wait(ctx, submit(t, s.local, "name: one\nsteps: [{id: a, handler: far}]\n", ""))
	must(t, err)
	if j.State != lifecycle.JobCompleted || !lost.Load() {
		t.Errorf("the job is %s; an answer was lost: %v", j.State, lost.Load())
	}
	must(t, stop())
}

// TestACommitBehindATimeout: a proxy gives up on server A with 504 and sends the worker's next exchange
// to server B, while A has yet to commit the first one, or has just done so. Whichever comes first, the
// report counts once, each step is given to the worker once, and A gives nothing to nobody (T3, T5).
func TestACommitBehindATimeout(t *testing.T) {
	for _, kind := range []string{"sqlite", "postgres"} {
		for _, order := range []string{"A commits after B", "A commits before B"} {
			t.Run(kind+"/"+order, func(t *testing.T) {
				t.Parallel()
				where := filepath.Join(t.TempDir(), "pawl.db")
				if kind == "postgres" {
					where = pgtest.URL(t)
				}
				testACommitBehindATimeout(t, where, order == "A commits after B")
			})
		}
	}
}

func testACommitBehindATimeout(t *testing.T, where string, after bool) {
	first, db, a := newServer(t, where)
	_, _, b := newServer(t, where)
	var behind func() *httptest.ResponseRecorder // does at A what the proxy has given up
	armed := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !armed || behind != nil {
			map[bool]http.Handler{false: a, true: b}[armed].ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		again := r.Clone(context.WithoutCancel(r.Context()))
		again.Body = io.NopCloser(bytes.NewReader(body))
		behind = func() *httptest.ResponseRecorder {
			to := httptest.NewRecorder()
			a.ServeHTTP(to, again)
			return to
		}
		w.WriteHeader(http.StatusGatewayTimeout)
	}))
	t.Cleanup(server.Close)

	ctx, e := t.Context(), open(t, server.URL)
	w, release, err := e.Register(ctx, link.Registration{Actor: "ada", Queues: []string{"default"}, Handlers: []string{"far"},
		Worker: pawl.Worker{Workspace: pawl.DefaultWorkspace, Name: "far", Capacity: 1, Handlers: []string{"default/far"}, Routes: []rowkey.Route{pawl.Route(pawl.DefaultWorkspace, "default", "far", 0)}}})
	must(t, err)
	defer release()
	const one = "name: one\nsteps: [{id: a, handler: far}]\n"
	jobs := []pawl.ID{submit(t, first, one, ""), submit(t, first, one, ""), submit(t, first, one, "")}
	got, err := e.Exchange(ctx, link.Exchange{Worker: w, Free: 1})
	must(t, err)
	if len(got) != 1 {
		t.Fatalf("%d steps were claimed, want 1", len(got))
	}
	report := []link.Report{{Step: got[0].Step.StepKey, Claim: got[0].Step.Claims, Actor: w.ID.Public(pawl.WorkerPrefix),
		Report: decide.Report{Event: lifecycle.StepSuccess, Output: []byte("1")}}}

	armed = true
	if _, err := e.Exchange(ctx, link.Exchange{Worker: w, Reports: report, Free: 1}); !link.Retryable(err) {
		t.Fatalf("the exchange that timed out: %v, want that it can be repeated", err)
	}
	var late *httptest.ResponseRecorder
	if !after {
		late = behind()
	}
	next, err := e.Exchange(ctx, link.Exchange{Worker: w, Reports: report, Free: 1})
	must(t, err)
	if len(next) != 1 || next[0].Step.StepKey == got[0].Step.StepKey {
		t.Fatalf("the exchange with B gives %+v, want another step", next)
	}
	if after {
		late = behind()
	}
	if want := map[bool]int{true: http.StatusConflict, false: http.StatusOK}[after]; late.Code != want {
		t.Errorf("A says %d %s, want %d", late.Code, late.Body, want)
	}
	claims, ends := 0, 0
	for _, id := range jobs {
		must(t, first.History(ctx, id, func(tr pawl.Transition) error {
			switch {
			case tr.Event == lifecycle.StepClaim:
				claims++
			case tr.Event == lifecycle.StepSuccess && strings.HasPrefix(tr.Entity, pawl.StepPrefix):
				ends++
			}
			return nil
		}))
	}
	refused, err := db.Refused(ctx, 0)
	must(t, err)
	if claims != 2 || ends != 1 || refused != 0 {
		t.Errorf("%d claims, %d ends and %d refused reports, want 2, 1 and 0", claims, ends, refused)
	}
}
