package engine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/sqlite"
	"github.com/pawl-dev/pawl/workflow"
)

// A script is a command of the test's making.
type script struct {
	q store.Query
	f func(*tx) error
}

func (s *script) query(q *store.Query) { q.Jobs = append(q.Jobs, s.q.Jobs...) }

func (s *script) decide(t *tx) error { return s.f(t) }

func testEngine(t *testing.T) *Engine {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: ":memory:"})
	if err != nil {
		t.Fatal(err)
	}
	e := New(Config{Store: db, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		e.Close()
		db.Close()
	})
	return e
}

func (e *Engine) submitOne(t *testing.T) pawl.ID {
	t.Helper()
	def, err := workflow.Parse("test.yaml", []byte("name: one\nsteps: [{id: a, handler: nobody}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := e.Submit(t.Context(), pawl.Submission{Definition: def.Canonical(), Actor: "test"})
	if err != nil || a[0].Err != nil {
		t.Fatal(a, err)
	}
	return a[0].ID
}

// TestAFailedDecisionLeavesNothing: what a command did before it panicked or
// failed is undone, and the others of its commit stand.
func TestAFailedDecisionLeavesNothing(t *testing.T) { // K5
	t.Parallel()
	e := testEngine(t)
	one, two := e.submitOne(t), e.submitOne(t)
	refusal := errors.New("refused")
	spoil := func(end func() error) *script {
		return &script{q: store.Query{Jobs: []int64{one.Key()}}, f: func(t *tx) error {
			j := t.job(one.Key())
			if err := t.moveJob(j, lifecycle.JobPause, workflow.Note{Reason: "spoiled"}); err != nil {
				return err
			}
			j.Paused, j.Priority = true, 77
			t.makeStep(j, pawl.MakeOrd(1, 9))
			t.makeWorker(&pawl.Worker{ID: e.NewID(), Workspace: "w"}, workflow.Note{})
			t.answer(store.IdempotencyKey{Workspace: "w", Key: "k"}, &store.Answer{})
			t.refusals = append(t.refusals, pawl.Refusal{StepKey: pawl.StepKey{Job: one.Key(), Ord: 1}})
			t.enqueued = append(t.enqueued, pawl.StepKey{Job: one.Key(), Ord: 1})
			return end()
		}}
	}
	pause := func(id pawl.ID) *script {
		return &script{q: store.Query{Jobs: []int64{id.Key()}}, f: func(t *tx) error {
			return t.moveJob(t.job(id.Key()), lifecycle.JobPause, workflow.Note{Reason: "stands"})
		}}
	}
	errs, err := e.committer.do(t.Context(), pause(one), spoil(func() error { panic("no") }), pause(two), spoil(func() error { return refusal }), pause(one))
	if err != nil {
		t.Fatal(err)
	}
	if errs[0] != nil || errs[2] != nil || errs[4] != nil {
		t.Errorf("the others: %v %v %v; want them to stand", errs[0], errs[2], errs[4])
	}
	if pawl.KindOf(errs[1]) != pawl.Internal || !strings.Contains(errs[1].Error(), "panicked: no") || Retryable(errs[1]) {
		t.Errorf("the panic: %v; want it told as an internal error", errs[1])
	}
	if errs[3] != refusal {
		t.Errorf("the refusal: %v", errs[3])
	}
	j, err := e.store.Job(t.Context(), one.Key())
	if err != nil || j.Seq != 4 || j.Paused || j.Priority != 0 {
		t.Errorf("the job: seq %d, paused %v, priority %d, %v; want its creation, validation and two pauses", j.Seq, j.Paused, j.Priority, err)
	}
	steps, err := e.store.Steps(t.Context(), one.Key(), 0, 0)
	if err != nil || len(steps) != 1 {
		t.Errorf("%d steps, %v; want the one that the submission made", len(steps), err)
	}
	if workers, err := e.store.Workers(t.Context(), false); err != nil || len(workers) != 0 {
		t.Errorf("workers %v, %v; want none", workers, err)
	}
	if late, err := e.store.Refusals(t.Context(), one.Key()); err != nil || len(late) != 0 {
		t.Errorf("refused facts %v, %v; want none", late, err)
	}
}

// TestCommandsGatherWhileACommitIsInFlight: nobody waits for a timer, and those
// who come meanwhile share a commit.
func TestCommandsGatherWhileACommitIsInFlight(t *testing.T) { // K5
	t.Parallel()
	e := testEngine(t)
	entered, open := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	do := func(f func(*tx) error) {
		all.Go(func() {
			if err := e.committer.one(context.Background(), &script{f: f}); err != nil {
				t.Error(err)
			}
		})
	}
	do(func(*tx) error {
		close(entered)
		<-open
		return nil
	})
	<-entered
	var mu sync.Mutex
	shared := make(map[*tx]int)
	for range 50 {
		do(func(t *tx) error {
			mu.Lock()
			defer mu.Unlock()
			shared[t]++
			return nil
		})
	}
	for queued := 0; queued < 50; {
		e.committer.mu.Lock()
		queued = len(e.committer.queue)
		e.committer.mu.Unlock()
	}
	close(open)
	all.Wait()
	if len(shared) != 1 {
		t.Errorf("the 50 that waited took %d transactions; want one", len(shared))
	}
}

// TestAGroupIsNeverSplit, and a transaction has a limit all the same.
func TestAGroupIsNeverSplit(t *testing.T) { // K5
	t.Parallel()
	groups := func(sizes ...int) []*group {
		var q []*group
		for _, n := range sizes {
			q = append(q, &group{cmds: make([]command, n)})
		}
		return q
	}
	for _, tt := range []struct{ sizes, want []int }{
		{[]int{1, 1, 1}, []int{3}},
		{[]int{maxGroup, 1}, []int{1, 1}},
		{[]int{maxGroup + 5, 1}, []int{1, 1}},
		{[]int{1, maxGroup, 1}, []int{1, 1, 1}},
		{[]int{maxGroup / 2, maxGroup / 2, 1}, []int{2, 1}},
	} {
		c := &committer{queue: groups(tt.sizes...), closed: true}
		c.wake = sync.NewCond(&c.mu)
		var got []int
		for batch := c.take(); batch != nil; batch = c.take() {
			got = append(got, len(batch))
		}
		if len(got) != len(tt.want) {
			t.Errorf("%v commands came in %v batches, want %v", tt.sizes, got, tt.want)
			continue
		}
		for i := range got {
			if got[i] != tt.want[i] {
				t.Errorf("%v commands came in %v batches, want %v", tt.sizes, got, tt.want)
			}
		}
	}
}

// TestLateCommandsAreNotStarved: they go behind what else waits, and are left out of
// one commit at most.
func TestLateCommandsAreNotStarved(t *testing.T) { // K5
	t.Parallel()
	c := &committer{closed: true, later: []*group{{cmds: make([]command, 3)}, {cmds: make([]command, maxGroup)}, {cmds: make([]command, 4)}}}
	c.wake = sync.NewCond(&c.mu)
	var got []int // commands of the first and the last group of each batch
	for range 5 {
		for range 2 { // more than one commit holds
			c.queue = append(c.queue, &group{cmds: make([]command, maxGroup-2)})
		}
		batch := c.take()
		got = append(got, len(batch[0].cmds), len(batch[len(batch)-1].cmds))
	}
	if want := []int{maxGroup - 2, maxGroup - 2, 3, 3, maxGroup - 2, maxGroup - 2, maxGroup, maxGroup, maxGroup - 2, maxGroup - 2}; !slices.Equal(got, want) {
		t.Errorf("batches of %v, want %v", got, want)
	}
	c.queue = []*group{{cmds: make([]command, 7)}}
	if batch := c.take(); len(batch) != 2 || len(batch[0].cmds) != 4 || len(batch[1].cmds) != 7 {
		t.Errorf("the last late one, once left out, does not go first: %d groups", len(batch))
	}
}
