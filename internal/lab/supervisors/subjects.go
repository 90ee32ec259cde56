package main

import (
	"context"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/thejerf/suture/v4"
	"k8s.io/client-go/util/workqueue"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/supervisor"
)

// A thing is a worker of package supervisor with one state.
type thing struct {
	n      int
	decide func(int)
}

type none struct{}

type (
	state    = supervisor.State[none, none]
	snapshot = supervisor.Snapshot[none, none]
	decision = supervisor.Decision[none, none]
)

func (t *thing) CollectObservedState(context.Context, none) (none, error) { return none{}, nil }
func (t *thing) DeriveDesiredState(none) (none, error)                    { return none{}, nil }
func (t *thing) GetInitialState() state                                   { return t }
func (t *thing) States() []state                                          { return []state{t} }
func (t *thing) String() string                                           { return "there" }
func (t *thing) Reason() string                                           { return "" }
func (t *thing) Phase() machine.State                                     { return lifecycle.ServiceStopped }

func (t *thing) Next(n snapshot) decision {
	if !n.Shutdown { // as Add asks
		t.decide(t.n)
	}
	return decision{}
}

func pawl(ctx context.Context, n int, decide func(int)) (wake func(int), wait func()) {
	s, err := supervisor.New(supervisor.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	handles := make([]*supervisor.Handle[none, none, none], n)
	for i := range n {
		handles[i], err = supervisor.Add(ctx, s, supervisor.Identity{ID: strconv.Itoa(i)}, &thing{i, decide}, none{}, supervisor.Options{})
		if err != nil {
			panic(err)
		}
	}
	done := make(chan struct{})
	go func() {
		_, _ = s.Run(ctx)
		close(done)
	}()
	return func(i int) { handles[i].Wake() }, func() { <-done }
}

func workqueues(ctx context.Context, n int, decide func(int)) (wake func(int), wait func()) {
	q := workqueue.NewTypedDelayingQueue[int]()
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for {
				i, ended := q.Get()
				if ended {
					return
				}
				decide(i)
				q.AddAfter(i, time.Second)
				q.Done(i)
			}
		})
	}
	for i := range n {
		q.Add(i)
	}
	context.AfterFunc(ctx, q.ShutDown)
	return q.Add, all.Wait
}

// A loop is a service of suture: a goroutine with a ticker.
type loop struct {
	n      int
	decide func(int)
	wake   chan struct{}
}

func (l *loop) Serve(ctx context.Context) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		l.decide(l.n)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		case <-l.wake:
		}
	}
}

func sutures(ctx context.Context, n int, decide func(int)) (wake func(int), wait func()) {
	s := suture.NewSimple("supervisor")
	loops := make([]*loop, n)
	for i := range n {
		loops[i] = &loop{i, decide, make(chan struct{}, 1)}
		s.Add(loops[i])
	}
	ended := s.ServeBackground(ctx)
	return func(i int) { loops[i].wake <- struct{}{} }, func() { <-ended }
}
