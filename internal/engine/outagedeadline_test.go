package engine

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// A faultyStore scans without fail. As it is set, it fails to read schedules, or one of them,
// or to commit.
type faultyStore struct {
	store.Store
	mu     sync.Mutex
	reads  bool            // schedules cannot be read
	only   rowkey.Schedule // 0: none
	writes bool            // nothing is committed
	tries  []time.Time     // of reads that failed
}

func (p *faultyStore) set(reads, writes bool, only rowkey.Schedule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reads, p.writes, p.only = reads, writes, only
}

var errUnavailable = pawl.Errorf(pawl.Unavailable, "the database is unavailable")

func (p *faultyStore) Schedule(ctx context.Context, key rowkey.Schedule) (*pawl.Schedule, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reads && (p.only == 0 || p.only == key) {
		p.tries = append(p.tries, time.Now())
		return nil, errUnavailable
	}
	return p.Store.Schedule(ctx, key)
}

func (p *faultyStore) Do(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
	p.mu.Lock()
	fails := p.writes
	p.mu.Unlock()
	if fails {
		return errUnavailable
	}
	return p.Store.Do(ctx, q, decide)
}

// lines counts what is logged about deadlines.
type lines struct{ n *int }

func (l lines) Enabled(context.Context, slog.Level) bool { return true }
func (l lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l lines) WithGroup(string) slog.Handler            { return l }
func (l lines) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "a deadline") {
		*l.n++ // the loop that looks for deadlines is one goroutine
	}
	return nil
}

// TestDeadlinesAfterAnOutage: deadlines that are due while the database is unavailable, for
// reads or for commits, are applied within 3 s once it is back, however often they were tried;
// one failed read ends a round, since each of many could take as long; and an outage is logged
// once. If only one schedule cannot be read, the others go on.
func TestDeadlinesAfterAnOutage(t *testing.T) { // K8, T10
	t.Parallel()
	for name, fail := range map[string]func(p *faultyStore, first rowkey.Schedule){
		"reads":        func(p *faultyStore, _ rowkey.Schedule) { p.set(true, false, 0) },
		"commits":      func(p *faultyStore, _ rowkey.Schedule) { p.set(false, true, 0) },
		"one schedule": func(p *faultyStore, first rowkey.Schedule) { p.set(true, false, first) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { outageOf(t, name, fail) })
		})
	}
}

func outageOf(t *testing.T, name string, fail func(p *faultyStore, first rowkey.Schedule)) {
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: ":memory:"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, logged := &faultyStore{Store: db}, 0
	e := New(Config{Store: s, Log: slog.New(lines{&logged})})
	defer e.Close()
	def, err := workflow.Parse("test.yaml", []byte("name: empty\nsteps: []\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.RegisterWorkflow(t.Context(), pawl.DefaultWorkspace, def.Canonical(), "", pawl.Change{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		plan := pawl.SchedulePlan{Name: fmt.Sprint("s", i), Workflow: "empty", Cron: "@every 1s", Overlap: "skip"}
		if _, err := e.PutSchedule(t.Context(), plan, false, pawl.Change{Actor: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	since := func(at time.Time) (late []string, first rowkey.Schedule) {
		all, err := db.Schedules(t.Context(), pawl.ScheduleName{Workspace: pawl.DefaultWorkspace}, pawl.ScheduleName{}, 0)
		if err != nil || len(all) != 3 {
			t.Fatalf("%d schedules, %v", len(all), err)
		}
		for _, made := range all {
			if made.Due < pawl.Micros(at) {
				late = append(late, made.Name)
			}
		}
		return late, all[0].Key()
	}
	_, first := since(time.Time{})
	fail(s, first)
	time.Sleep(time.Minute) // of the bubble's clock
	if late, _ := since(time.Now().Add(-5 * time.Second)); name == "one schedule" && len(late) != 1 {
		t.Errorf("%v make no jobs; want only the one that cannot be read", late)
	} else if name != "one schedule" && (logged == 0 || logged > 3) {
		t.Errorf("the outage is logged %d times", logged)
	}
	s.set(false, false, 0)
	back := time.Now()
	time.Sleep(4 * time.Second)
	if late, _ := since(back); len(late) > 0 {
		t.Errorf("%v have made no job in 4 s after the outage", late)
	}
	for i := 1; i < len(s.tries); i++ {
		if s.tries[i].Equal(s.tries[i-1]) {
			t.Fatalf("two tries in one round, at %s", s.tries[i])
		}
	}
}

// TestADeadWorkerDuringAnOutage: while nothing can be written, a dead worker is released by no scan, which is
// logged once and not by each; the first scan after that releases it.
func TestADeadWorkerDuringAnOutage(t *testing.T) { // T7
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, err := sqlite.Open(t.Context(), sqlite.Config{Path: ":memory:"})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var logged bytes.Buffer
		s := &faultyStore{Store: db}
		e := New(Config{Store: s, Log: slog.New(slog.NewTextHandler(&logged, nil))})
		w, die, err := e.Register(t.Context(), link.Registration{Worker: pawl.Worker{Workspace: pawl.DefaultWorkspace, Capacity: 1}, Actor: "test"})
		if err != nil {
			t.Fatal(err)
		}
		s.set(false, true, 0)
		die()
		time.Sleep(30 * time.Second)
		s.set(false, false, 0)
		time.Sleep(5 * time.Second)
		after, err := db.Worker(t.Context(), w.Key())
		if err != nil || after.State != lifecycle.WorkerTerminated {
			t.Errorf("the worker is %+v, %v; want it ended", after, err)
		}
		e.Close()
		if failed, over := strings.Count(logged.String(), "a dead worker could not be released"), strings.Count(logged.String(), "dead workers are released again"); failed != 1 || over != 1 {
			t.Errorf("logged %d times that it failed, and %d times that this is over: want 1 each\n%s", failed, over, logged.String())
		}
	})
}

// TestJobsDuringAnOutage: while nothing can be written, jobs that wait for the evaluator are tried by each scan;
// that they fail is logged once by each of its goroutines, and afterwards all of them end.
func TestJobsDuringAnOutage(t *testing.T) { // K8
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, err := sqlite.Open(t.Context(), sqlite.Config{Path: ":memory:"})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		client := New(Config{Store: db, Passive: true, Log: slog.New(slog.DiscardHandler)})
		def, err := workflow.Parse("test.yaml", []byte("name: empty\nsteps: []\n"))
		if err != nil {
			t.Fatal(err)
		}
		subs := make([]pawl.Submission, 50)
		for i := range subs {
			subs[i] = pawl.Submission{Definition: def.Canonical(), Actor: "test"}
		}
		if _, err := client.Submit(t.Context(), subs...); err != nil {
			t.Fatal(err)
		}
		var logged bytes.Buffer
		s := &faultyStore{Store: db}
		s.set(false, true, 0)
		e := New(Config{Store: s, Evaluators: 2, Log: slog.New(slog.NewTextHandler(&logged, nil))})
		time.Sleep(30 * time.Second)
		s.set(false, false, 0)
		time.Sleep(5 * time.Second)
		if ended, err := db.Jobs(t.Context(), store.JobFilter{States: []machine.State{lifecycle.JobCompleted}}); err != nil || len(ended) != len(subs) {
			t.Errorf("%d jobs have ended, want %d, %v", len(ended), len(subs), err)
		}
		e.Close()
		client.Close()
		if failed := strings.Count(logged.String(), "could not be evaluated"); failed == 0 || failed > 2 {
			t.Errorf("logged %d times that it failed: want once by each of 2 goroutines at most\n%.2000s", failed, logged.String())
		}
	})
}
