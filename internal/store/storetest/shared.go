package storetest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

var sharedTests = []test{
	{name: "Writers/OneHandle", run: writersOne},
	{name: "Writers/TwoHandles", run: writersTwo, shared: true},
	{name: "Writers/Processes", run: writersProcesses, shared: true},
	{name: "Writers/ProcessKilled", run: writerKilled, shared: true},
	{name: "Hold/ProcessKilled", run: holderKilled, shared: true},
	{name: "Wakeups/ReachOthersOnly", run: wakeupsReachOthers, shared: true},
	{name: "Wakeups/ListenEnds", run: listenEnds},
	{name: "CloseTwice", run: closedHandle},
}

// The writes of the many writers: each runs rounds transactions.
const (
	writers = 16
	rounds  = 50
)

func writersOne(e *env) { e.write(e.st) }

func writersTwo(e *env) { e.write(e.st, e.open()) }

// write starts writers goroutines that add jobs and change one common job.
func (e *env) write(handles ...store.Store) {
	common := e.add(0, nil)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for range rounds {
				if err := e.round(handles[i%len(handles)], common.key()); err != nil {
					e.Errorf("writer %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	e.written(common, writers*rounds)
}

// round adds a job of one step and pauses the common job once more.
func (e *env) round(st store.Store, common rowkey.Job) error {
	return e.try(st, &store.Query{Jobs: []rowkey.Job{common}}, func(f *store.Facts, b *Batch) {
		e.build(f.Now, 1, b, nil)
		b.MoveJob(f.Jobs[common], "pause")
	})
}

// written checks that n rounds were written, and all of each.
func (e *env) written(common made, n int) {
	e.Helper()
	j, err := e.st.Job(e.ctx, common.key())
	e.ok(err)
	if got := int(j.Seq - common.job.Seq); got != n {
		e.Errorf("%d rounds on the common job, want %d", got, n)
	}
	if got := len(e.jobs(store.JobFilter{})); got != n+1 {
		e.Errorf("%d jobs, want %d", got, n+1)
	}
	e.verify(0)
}

// heard listens on a handle, and returns the topics that it receives until it is stopped.
func (e *env) heard(st store.Store) <-chan store.Topic {
	topics := make(chan store.Topic, 1024) // more than a test sends
	ctx, stop := context.WithCancel(e.ctx)
	var listening sync.WaitGroup
	listening.Go(func() {
		if err := st.Listen(ctx, func(h store.Hint) { topics <- h.Topic }); err != nil && ctx.Err() == nil {
			e.Errorf("listen: %v", err)
		}
	})
	e.Cleanup(func() {
		stop()
		listening.Wait()
	})
	return topics
}

// wakeUntil wakes until the listener receives the topic, and returns the topics received
// before that. A hint may be lost, and nothing shows when a listener is ready.
func (e *env) wakeUntil(st store.Store, topics <-chan store.Topic, t store.Topic) []store.Topic {
	e.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	var before []store.Topic
	for {
		st.Wake(1, t)
		select {
		case got := <-topics:
			if got == t {
				return before
			}
			before = append(before, got)
		case <-again.C:
		case <-e.ctx.Done():
			e.Fatalf("nobody heard %s", t)
		}
	}
}

// wakeupsReachOthers: the other handle receives the hint, the sender does not.
func wakeupsReachOthers(e *env) {
	other := e.open()
	here, there := e.heard(e.st), e.heard(other)
	e.wakeUntil(other, here, store.TopicMarks) // now both listen
	e.wakeUntil(e.st, there, store.TopicMarks)
	e.wakeUntil(e.st, there, store.TopicWork)
	if before := e.wakeUntil(other, here, store.TopicStops); slices.Contains(before, store.TopicWork) {
		e.Errorf("a handle heard itself: %v", before)
	}
}

func listenEnds(e *env) {
	ctx, stop := context.WithCancel(e.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.st.Listen(ctx, func(store.Hint) {})
	}()
	e.st.Wake(1, store.TopicWork) // it need not arrive
	stop()
	select {
	case <-done:
	case <-e.ctx.Done():
		e.Fatal("Listen goes on after its context has ended")
	}
}

// closedHandle: a closed handle returns errors, and may be closed again.
func closedHandle(e *env) {
	e.ok(e.st.Close())
	if _, err := e.st.Jobs(context.Background(), store.JobFilter{}); err == nil {
		e.Error("a closed handle lists jobs")
	}
	if err := e.try(e.st, &store.Query{}, func(*store.Facts, *Batch) {}); err == nil {
		e.Error("a closed handle writes")
	}
}
