package engine

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// A script is a command defined by a test.
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

// TestAFailedDecisionLeavesNothing: the changes of a command that panics or fails are
// undone, and the other commands of its commit stand.
func TestAFailedDecisionLeavesNothing(t *testing.T) { // K5
	t.Parallel()
	e := testEngine(t)
	one, two := e.submitOne(t), e.submitOne(t)
	refusal := errors.New("refused")
	spoil := func(end func() error) *script {
		return &script{q: store.Query{Jobs: []rowkey.Job{one.JobKey()}}, f: func(t *tx) error {
			j := t.job(one.JobKey())
			if err := t.moveJob(j, lifecycle.JobPause, decide.Note{Reason: "spoiled"}); err != nil {
				return err
			}
			j.Paused, j.Priority = true, 77
			t.makeStep(j, pawl.MakeOrd(1, 9))
			t.makeWorker(&pawl.Worker{ID: e.NewID(), Workspace: "w"}, decide.Note{})
			t.answer(store.IdempotencyKey{Workspace: "w", Key: "k"}, store.Answer{})
			t.refusals = append(t.refusals, pawl.Refusal{StepKey: pawl.StepKey{Job: one.JobKey(), Ord: 1}})
			t.enqueued = append(t.enqueued, pawl.StepKey{Job: one.JobKey(), Ord: 1})
			return end()
		}}
	}
	pause := func(id pawl.ID) *script {
		return &script{q: store.Query{Jobs: []rowkey.Job{id.JobKey()}}, f: func(t *tx) error {
			return t.moveJob(t.job(id.JobKey()), lifecycle.JobPause, decide.Note{Reason: "stands"})
		}}
	}
	errs, err := e.committer.do(t.Context(), pause(one), spoil(func() error { panic("no") }), pause(two), spoil(func() error { return refusal }), pause(one))
	if err != nil {
		t.Fatal(err)
	}
	if errs[0] != nil || errs[2] != nil || errs[4] != nil {
		t.Errorf("the others: %v %v %v; want them to stand", errs[0], errs[2], errs[4])
	}
	if pawl.KindOf(errs[1]) != pawl.Internal || !strings.Contains(errs[1].Error(), "panicked: no") || link.Retryable(errs[1]) {
		t.Errorf("the panic: %v; want it told as an internal error", errs[1])
	}
	if errs[3] != refusal {
		t.Errorf("the refusal: %v", errs[3])
	}
	j, err := e.store.Job(t.Context(), one.JobKey())
	if err != nil || j.Seq != 4 || j.Paused || j.Priority != 0 {
		t.Errorf("the job: seq %d, paused %v, priority %d, %v; want its creation, validation and two pauses", j.Seq, j.Paused, j.Priority, err)
	}
	steps, err := e.store.Steps(t.Context(), one.JobKey(), 0, 0)
	if err != nil || len(steps) != 1 {
		t.Errorf("%d steps, %v; want the one that the submission made", len(steps), err)
	}
	if workers, err := e.store.Workers(t.Context(), store.WorkerFilter{}); err != nil || len(workers) != 0 {
		t.Errorf("workers %v, %v; want none", workers, err)
	}
	if late, err := e.store.Refusals(t.Context(), one.JobKey(), store.RefusalPlace{}, 0); err != nil || len(late) != 0 {
		t.Errorf("refused facts %v, %v; want none", late, err)
	}
}

// TestCommandsGatherWhileACommitIsInFlight: no command waits for a timer, and commands that
// arrive during a commit share the next one.
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

// TestAGroupIsNeverSplit: a group is not split, and a transaction still has a limit.
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
		c := &committer{queue: groups(tt.sizes...)}
		var got []int
		for batch := c.next(); batch != nil; batch = c.next() {
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

// TestLateCommandsAreNotStarved: late commands go behind the others, and at most one commit
// leaves them out.
func TestLateCommandsAreNotStarved(t *testing.T) { // K5
	t.Parallel()
	c := &committer{closed: true, later: []*group{{cmds: make([]command, 3)}, {cmds: make([]command, maxGroup)}, {cmds: make([]command, 4)}}}
	var got []int // commands of the first and the last group of each batch
	for range 5 {
		for range 2 { // more than one commit can hold
			c.queue = append(c.queue, &group{cmds: make([]command, maxGroup-2)})
		}
		batch := c.next()
		got = append(got, len(batch[0].cmds), len(batch[len(batch)-1].cmds))
	}
	if want := []int{maxGroup - 2, maxGroup - 2, 3, 3, maxGroup - 2, maxGroup - 2, maxGroup, maxGroup, maxGroup - 2, maxGroup - 2}; !slices.Equal(got, want) {
		t.Errorf("batches of %v, want %v", got, want)
	}
	c.queue = []*group{{cmds: make([]command, 7)}}
	if batch := c.next(); len(batch) != 2 || len(batch[0].cmds) != 4 || len(batch[1].cmds) != 7 {
		t.Errorf("the last late one, once left out, does not go first: %d groups", len(batch))
	}
}

// TestWhatHadBetterWaitIsNotShared: a late group that should not go with a batch does not
// go with another batch at the same moment, even if a lane is free; a group that had no
// room does (K5).
func TestWhatHadBetterWaitIsNotShared(t *testing.T) {
	t.Parallel()
	e, _ := interposedEngine(t)
	c := e.committer
	groups := func(n int) (list []*group) {
		for range n {
			look := &script{f: func(*tx) error { return nil }}
			list = append(list, &group{cmds: slices.Repeat([]command{look}, maxGroup), errs: make([]error, maxGroup), done: make(chan struct{})})
		}
		return list
	}
	late, others := groups(1), groups(3)
	c.mu.Lock()
	c.free, c.admit = 3, func(_, batch []*group) int { return 1 - min(len(batch), 1) } // with other groups it does not go
	c.queue, c.later = slices.Clone(others[:1]), slices.Clone(late)                    // what is taken is cleared
	batch := c.take()
	one, waits := c.free, len(c.later)
	c.queue = slices.Clone(others[1:])
	rest := c.take()
	none, left := c.free, len(c.queue)
	c.mu.Unlock()
	if one != 2 || waits != 1 {
		t.Errorf("%d lanes free, %d late groups left; want 2, and the one", one, waits)
	}
	if none != 0 || left != 0 {
		t.Errorf("%d lanes free, %d groups left; want a lane for each", none, left)
	}
	c.lane(batch)
	c.lane(rest)
	for _, g := range slices.Concat(others, late) {
		<-g.done
	}
}

// TestAFaultOfACommitEndsTheProcess: a panic ends the process, as it would in a lane of its
// own, even if the caller recovers: nothing would commit in its lane any more (K5).
func TestAFaultOfACommitEndsTheProcess(t *testing.T) {
	const child = "PAWL_TEST_FAULT"
	if os.Getenv(child) != "" {
		e, _ := interposedEngine(t)
		e.committer.after = func(*tx) { panic("no luck") }
		defer os.Exit(0) // reached if the panic was recovered
		_ = e.committer.one(context.Background(), &script{f: func(*tx) error { return nil }})
	}
	t.Parallel()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAFaultOfACommitEndsTheProcess$")
	c.Env = append(os.Environ(), child+"=1")
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "a commit panicked: no luck") {
		t.Errorf("%v, %s; want the end of the process, and why", err, out)
	}
}

// TestWhoWaitsInAnyCaseCommits: a caller without a cancelable context commits by itself if
// a lane is free, and afterwards does not run the commits of others.
func TestWhoWaitsInAnyCaseCommits(t *testing.T) { // K5
	t.Parallel()
	e, _ := interposedEngine(t) // no other goroutine commits in it
	var at []string
	look := &script{f: func(*tx) error {
		at = append(at, goroutine())
		return nil
	}}
	for _, ctx := range []context.Context{context.Background(), t.Context()} {
		if err := e.committer.one(ctx, look); err != nil {
			t.Fatal(err)
		}
	}
	if own := goroutine(); at[0] != own || at[1] == own {
		t.Errorf("committed by goroutines %v of %s; want by its own where nothing cuts short, by another where something may", at, own)
	}
}

// goroutine returns the name of the calling goroutine.
func goroutine() string {
	b := make([]byte, 64)
	return strings.Fields(string(b[:runtime.Stack(b, false)]))[1]
}

// TestACallerMayLeave: the command of a caller that stops waiting still proceeds.
func TestACallerMayLeave(t *testing.T) { // K5
	t.Parallel()
	e := testEngine(t)
	entered, open, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	err := e.committer.one(ctx, &script{f: func(*tx) error {
		close(entered)
		<-open
		close(over)
		return nil
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want the end of the context", err)
	}
	close(open)
	<-over
}
