package main

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/sleep"
	"github.com/pawl-dev/pawl/lifecycle"
)

const (
	listPause = 300 * time.Millisecond // least time between two readings of a list
	listRest  = 10 * time.Second       // after which it is read again without an event
)

// A jobList follows the jobs of a workspace: the events say when to read them again.
type jobList struct {
	*app
	cl *client.Client
	q  pawl.JobQuery

	changed chan struct{} // something has changed, or the events have begun
	failed  chan error    // the end of the events

	over map[string]*pawl.JobView // those of ended, once they were read; nil: it was removed

	mu    sync.Mutex // guards ended
	ended []string   // the jobs that have ended since, the last q.Limit of them
}

// watchJobs shows the jobs of a workspace until ctx ends.
func (a *app) watchJobs(ctx context.Context, cl *client.Client, q pawl.JobQuery, form string) error {
	ctx, cancel := context.WithCancel(ctx)
	l := &jobList{app: a, cl: cl, q: q, changed: make(chan struct{}, 1), failed: make(chan error, 1), over: map[string]*pawl.JobView{}} // 1: what is there says all
	var events sync.WaitGroup
	events.Go(func() { l.failed <- l.follow(ctx) })
	defer events.Wait()
	defer cancel()
	show, end := a.listShown(form)
	defer end()
	p := &patience{app: a}
	for l.wait(ctx) {
		jobs, err := l.read(ctx)
		if err == nil {
			p.reached()
			err = show(jobs)
		}
		if err != nil && ctx.Err() == nil && !p.wait(ctx, err) {
			return err
		}
		if err != nil {
			l.notify()
		}
		if !sleep.For(ctx, listPause) {
			return nil
		}
	}
	if ctx.Err() != nil { // interrupted
		return nil
	}
	return <-l.failed
}

// wait waits until the jobs are to be read. It is false at the end of ctx or of the events.
func (l *jobList) wait(ctx context.Context) bool {
	rest := time.NewTimer(listRest)
	defer rest.Stop()
	select {
	case <-l.changed:
	case <-rest.C:
	case <-ctx.Done():
		return false
	case err := <-l.failed:
		l.failed <- err
		return false
	}
	return true
}

func (l *jobList) notify() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// follow passes on the events until they end for good.
func (l *jobList) follow(ctx context.Context) error {
	p := &patience{app: l.app}
	for {
		var failed error
		for e, err := range l.cl.Events(ctx, client.EventFilter{Workspace: l.q.Workspace, Machines: []string{lifecycle.Job.Name, lifecycle.Step.Name}}) {
			if failed = err; err == nil && (e.Type != pawl.EventTransition || l.q.Workflow == "" || l.q.Workflow == e.Name) {
				l.note(&e)
			}
		}
		if !p.wait(ctx, failed) {
			return failed
		}
	}
}

// note notes an event.
func (l *jobList) note(e *pawl.Event) {
	if e.Type == pawl.EventTransition && e.Machine == lifecycle.Job.Name && lifecycle.Job.Ended(e.To) {
		l.mu.Lock()
		if !slices.Contains(l.ended, e.Entity) {
			l.ended = append(l.ended, e.Entity)
		}
		l.ended = l.ended[max(0, len(l.ended)-l.q.Limit):]
		l.mu.Unlock()
	}
	l.notify()
}

// read returns the jobs that have not ended, and those that have ended since the beginning,
// newest first.
func (l *jobList) read(ctx context.Context) ([]pawl.JobView, error) {
	q := l.q
	q.Statuses = slices.DeleteFunc(slices.Clone(lifecycle.Job.States), lifecycle.Job.Ended)
	jobs, err := l.cl.Jobs.List(ctx, q)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	ended := slices.Clone(l.ended)
	l.mu.Unlock()
	maps.DeleteFunc(l.over, func(id string, _ *pawl.JobView) bool { return !slices.Contains(ended, id) })
	for _, id := range slices.Backward(ended) {
		v, err := l.last(ctx, id)
		if err != nil {
			return nil, err
		}
		if v != nil && !slices.ContainsFunc(jobs, func(j pawl.JobView) bool { return j.ID == id }) {
			jobs = append(jobs, *v)
		}
	}
	return jobs, nil
}

// last returns a job that has ended, or nil if it was removed since.
func (l *jobList) last(ctx context.Context, text string) (*pawl.JobView, error) {
	if v, known := l.over[text]; known {
		return v, nil
	}
	id, err := pawl.ParseID(pawl.JobPrefix, text)
	if err != nil {
		return nil, err
	}
	v, err := l.cl.Jobs.Get(ctx, id)
	switch {
	case pawl.KindOf(err) == pawl.NotFound:
		v = nil
	case err != nil:
		return nil, err
	default:
		v.Steps = nil
	}
	l.over[text] = v
	return v, nil
}

// listShown returns how a list is shown in a form, and how that ends.
func (a *app) listShown(form string) (show func([]pawl.JobView) error, end func()) {
	if form == formText && a.screen.Terminal && a.width() > 0 {
		d := console.NewDrawing(console.NewLive(a.stderr, a.screen, console.Frame{Zone: a.talkZone()}), a.logs)
		return func(jobs []pawl.JobView) error {
			d.Paint(func(f console.Frame) []string { return console.DrawJobs(jobs, f) })
			return nil
		}, d.Close
	}
	l := a.lines(form)
	return func(jobs []pawl.JobView) error {
		maps.DeleteFunc(l.last, func(id, _ string) bool {
			return !slices.ContainsFunc(jobs, func(j pawl.JobView) bool { return j.ID == id })
		})
		for i := range slices.Backward(jobs) {
			l.Show(&jobs[i])
		}
		return l.err
	}, func() {}
}
