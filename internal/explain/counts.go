package explain

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/quota"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

const (
	// newest is how many of the newest workers, and of the newest jobs, are looked at to count
	// those that have ended; see pawl.Counts.
	newest = 10_001

	// maxLines is how many routes with steps in flight are looked at.
	maxLines = 10_000
)

// Counts counts the workers, jobs and steps of a workspace, or of all if it is empty.
func (r *Reader) Counts(ctx context.Context, workspace string) (*pawl.Counts, error) {
	c, err := r.store.Counts(ctx, workspace, newest)
	if err != nil {
		return nil, err
	}
	return &pawl.Counts{Workers: c.Workers, Jobs: c.Jobs, Steps: c.Steps, ActiveJobs: c.Jobs[lifecycle.JobRunning], AtLeast: c.More}, nil
}

// JobVersion returns a number that rises with every move of a job and of its steps. Who reads
// it before the job has at least that version of the job.
func (r *Reader) JobVersion(ctx context.Context, id pawl.ID) (int64, error) {
	found, sum, err := r.store.JobSequence(ctx, id.JobKey())
	if errors.Is(err, store.ErrNotFound) || err == nil && found != id {
		return 0, store.NoJob(id)
	}
	return sum, err
}

// Queues lists the queues of a workspace, or of all if it is empty, by workspace and name, at
// most maxList: those that steps in flight are on, that a live worker serves, that have a
// limit, or that are paused. A step whose job or definition cannot be read is not counted.
func (r *Reader) Queues(ctx context.Context, workspace string) ([]pawl.QueueView, error) {
	q := &queues{reader: r, workspace: workspace, of: make(map[queueKey]*pawl.QueueView), routes: make(map[routesKey]map[rowkey.Route]string)}
	for _, part := range []func(context.Context) error{q.lines, q.workers, q.limits, q.pauses} {
		if err := part(ctx); err != nil {
			return nil, err
		}
	}
	views := make([]pawl.QueueView, 0, len(q.of))
	for _, k := range slices.SortedFunc(maps.Keys(q.of), queueKey.compare) {
		views = append(views, *q.of[k])
	}
	return views[:min(len(views), maxList)], nil
}

type queueKey struct{ workspace, name string }

func (k queueKey) compare(o queueKey) int {
	return cmp.Or(strings.Compare(k.workspace, o.workspace), strings.Compare(k.name, o.name))
}

// queues collects what is known of each queue.
type queues struct {
	reader    *Reader
	workspace string
	of        map[queueKey]*pawl.QueueView
	routes    map[routesKey]map[rowkey.Route]string
}

// A routesKey is what the routes of a workflow's steps depend on, for jobs that any process
// may run.
type routesKey struct {
	definition rowkey.Definition
	workspace  string
}

// at returns a queue, or nil if it is of another workspace than the one that is listed.
func (q *queues) at(workspace, name string) *pawl.QueueView {
	if q.workspace != "" && q.workspace != workspace {
		return nil
	}
	k := queueKey{workspace, name}
	if q.of[k] == nil {
		q.of[k] = &pawl.QueueView{Workspace: workspace, Name: name}
	}
	return q.of[k]
}

// lines adds the steps in flight.
func (q *queues) lines(ctx context.Context) error {
	lines, err := q.reader.store.Lines(ctx, maxLines)
	if err != nil {
		return err
	}
	keys := make([]rowkey.Job, len(lines))
	for i, l := range lines {
		keys[i] = l.Job
	}
	jobs, err := q.reader.bare(ctx, keys)
	if err != nil {
		return err
	}
	for _, l := range lines {
		j := jobs[l.Job]
		if j == nil || q.workspace != "" && q.workspace != j.Workspace {
			continue
		}
		name, err := q.name(ctx, j, l.Route)
		if err != nil {
			return err
		}
		if name == "" {
			continue
		}
		v := q.at(j.Workspace, name)
		v.Depth += l.Enqueued
		v.Running += l.Running
		if at := pawl.Timestamp(l.Oldest); at != 0 && (v.Oldest == 0 || at < v.Oldest) {
			v.Oldest = at
		}
	}
	return nil
}

// bare reads those jobs that exist, without bodies.
func (r *Reader) bare(ctx context.Context, keys []rowkey.Job) (map[rowkey.Job]*pawl.Job, error) {
	jobs := make(map[rowkey.Job]*pawl.Job)
	for part := range slices.Chunk(keys, store.ListPage) {
		found, err := r.store.Jobs(ctx, store.JobFilter{Keys: part, Bare: true})
		if err != nil {
			return nil, err
		}
		for _, j := range found {
			jobs[j.Key()] = j
		}
	}
	return jobs, nil
}

// name returns the name of the queue that a route of a job belongs to, or "" if that is not
// known.
func (q *queues) name(ctx context.Context, j *pawl.Job, route rowkey.Route) (string, error) {
	if j.Private != 0 {
		return workflow.DefaultQueue, nil
	}
	k := routesKey{j.Definition, j.Workspace}
	if q.routes[k] == nil {
		def, err := q.reader.defs.Get(ctx, j.Definition)
		if err != nil && !store.Unreadable(err) {
			return "", err
		}
		q.routes[k] = make(map[rowkey.Route]string)
		for n := 1; def != nil && n <= len(def.Nodes); n++ {
			q.routes[k][decide.Route(def, j, n)] = def.Node(n).Queue
		}
	}
	return q.routes[k][route], nil
}

// workers adds the live workers, each to every queue of which it serves a handler.
func (q *queues) workers(ctx context.Context) error {
	living, _, err := q.reader.living(ctx)
	for _, w := range living {
		served := make(map[string]bool)
		for _, handler := range w.Handlers {
			name, _, _ := strings.Cut(handler, "/")
			if v := q.at(w.Workspace, name); v != nil && !served[name] {
				served[name] = true
				v.Workers++
			}
		}
	}
	return err
}

// limits adds the limits that operators have set.
func (q *queues) limits(ctx context.Context) error {
	return quota.Each(ctx, q.reader.store, q.workspace, func(l *pawl.Quota) error {
		if name, is := strings.CutPrefix(l.Name, "queue/"); is {
			q.at(l.Workspace, name).Limit = &l.Slots
		}
		return nil
	})
}
