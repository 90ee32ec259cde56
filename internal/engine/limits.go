package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/workflow"
)

// limitsFor is how long quotas set by operators are cached.
const limitsFor = time.Second

// limits caches the quotas of all workspaces, so that claims need not read them. Its own
// process sees a change at once, the others within limitsFor.
type limits struct {
	mu    sync.Mutex // held while they are read
	until time.Time
	now   atomic.Pointer[quotas] // nil: read again
}

// quotas returns the cached quotas, read again if they are old.
func (e *Engine) quotas(ctx context.Context) (*quotas, error) {
	l := &e.limits
	l.mu.Lock()
	defer l.mu.Unlock()
	was, now := l.now.Load(), time.Now()
	if was != nil && !now.After(l.until) {
		return was, nil
	}
	q := &quotas{slots: make(map[pawl.WorkflowName]int)}
	err := e.eachQuota(ctx, "", func(s *pawl.Quota) error {
		q.slots[pawl.WorkflowName{Workspace: s.Workspace, Name: s.Name}] = s.Slots
		return nil
	})
	if err != nil {
		return nil, err
	}
	if was != nil && maps.Equal(was.slots, q.slots) {
		q = was
	}
	l.until = now.Add(limitsFor)
	l.now.Store(q)
	return q, nil
}

// eachQuota calls f with the limits of a workspace, or of all if it is empty, by name.
func (e *Engine) eachQuota(ctx context.Context, workspace string, f func(*pawl.Quota) error) error {
	after := pawl.WorkflowName{}
	read := func() ([]*pawl.Quota, error) { return e.store.Quotas(ctx, workspace, after, store.ListPage) }
	return store.EachOf(read, func(q *pawl.Quota) error {
		after = pawl.WorkflowName{Workspace: q.Workspace, Name: q.Name}
		return f(q)
	})
}

// forget makes the next use read the quotas again.
func (l *limits) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.Store(nil)
}

// changed reports whether this process has replaced or dropped the quotas since q was
// cached. A commit decided by limits checks this: it may have waited since it was prepared,
// and steps that it starts under older limits would not be counted.
func (l *limits) changed(q *quotas) bool { return l.now.Load() != q }

// quotas are the limits set by operators, by workspace and name. They do not change once
// read.
type quotas struct {
	slots map[pawl.WorkflowName]int
}

// none reports whether there are no limits at all.
func (q *quotas) none() bool { return len(q.slots) == 0 }

// queue returns the limit of a queue.
func (q *quotas) queue(workspace, queue string) (int, bool) {
	n, ok := q.slots[pawl.WorkflowName{Workspace: workspace, Name: "queue/" + queue}]
	return n, ok
}

// depth returns the number of slots for jobs of a depth.
func (q *quotas) depth(workspace string, depth int) (int, bool) {
	n, ok := q.slots[pawl.WorkflowName{Workspace: workspace, Name: "depth/" + strconv.Itoa(depth)}]
	return n, ok
}

// MaxSlots is the largest quota.
const MaxSlots = 1_000_000

// Hierarchy is the preset of quotas that gives deeper jobs fewer slots (J7).
var Hierarchy = [MaxDepth + 1]int{10, 8, 5, 3, 2, 1}

// SetQuotas sets limits of workspaces, all or none; a negative number of slots removes a
// limit. Names are depth/0 to depth/5 and queue/NAME. What is already running continues.
func (e *Engine) SetQuotas(ctx context.Context, set []pawl.Quota, c pawl.Change) error {
	cmd := &setQuotas{set: set, by: c}
	for i := range set {
		if err := checkQuota(&set[i]); err != nil {
			return err
		}
	}
	workspace := ""
	if len(set) > 0 {
		workspace = set[0].Workspace
	}
	r, err := e.newRequest(pawl.Change{Reason: c.Reason, RequestID: c.RequestID}, workspace, "POST /api/resources/quotas", set)
	if err != nil {
		return err
	}
	if err := e.committer.one(ctx, r.once(cmd, nil, nil)); err != nil {
		return err
	}
	e.limits.forget()
	e.evaluator.look()
	e.wake(true, true, false)
	return nil
}

func checkQuota(q *pawl.Quota) error {
	if q.Workspace == "" {
		q.Workspace = pawl.DefaultWorkspace
	}
	if q.Slots > MaxSlots {
		return pawl.Errorf(pawl.Invalid, "slots of %s: %d: want 0 to %d", q.Name, q.Slots, MaxSlots)
	}
	kind, rest, _ := strings.Cut(q.Name, "/")
	switch kind {
	case "depth":
		if n, err := strconv.Atoi(rest); err == nil && n >= 0 && n <= MaxDepth && rest == strconv.Itoa(n) {
			return nil
		}
	case "queue":
		if workflow.IsID(rest) {
			return nil
		}
	}
	return &pawl.Error{Kind: pawl.Invalid, Message: fmt.Sprintf("quota %q: want depth/0 to depth/%d, or queue/NAME", q.Name, MaxDepth), Hint: "such as queue/billing"}
}

type setQuotas struct {
	set []pawl.Quota
	by  pawl.Change
}

func (*setQuotas) query(*store.Query) {}

func (s *setQuotas) decide(t *tx) error {
	for _, q := range s.set {
		q.At, q.Actor, q.Reason = t.now, s.by.Actor, s.by.Reason
		t.quotas = append(t.quotas, &q)
	}
	return nil
}

// Quotas lists the limits of a workspace, by name.
func (e *Engine) Quotas(ctx context.Context, workspace string) ([]pawl.QuotaView, error) {
	var set []*pawl.Quota
	var pools []store.Pool
	err := e.eachQuota(ctx, workspace, func(q *pawl.Quota) error {
		set, pools = append(set, q), append(pools, poolOf(q))
		return nil
	})
	if err != nil {
		return nil, err
	}
	used, err := e.store.Usage(ctx, pools)
	if err != nil {
		return nil, err
	}
	views := make([]pawl.QuotaView, 0, len(set))
	for _, q := range set {
		views = append(views, pawl.QuotaView{Name: q.Name, Slots: q.Slots, Used: used[poolOf(q)], SetAt: pawl.Timestamp(q.At), Actor: q.Actor, Reason: q.Reason})
	}
	return views, nil
}

func poolOf(q *pawl.Quota) store.Pool {
	kind, rest, _ := strings.Cut(q.Name, "/")
	if kind == "queue" {
		return queuePool(q.Workspace, rest)
	}
	depth, _ := strconv.Atoi(rest) // checked when it was set
	return depthPool(q.Workspace, depth)
}

// jobPools returns the pools from which a job takes slots when it starts, the number it
// takes, and their sizes. From the quota of its depth it takes as many as it has workers;
// if its workflow does not give that number, at most the size of the quota.
func (e *Engine) jobPools(q *quotas, j *pawl.Job, def *workflow.Definition) []demand {
	var all []demand
	if j.Pool != 0 {
		all = append(all, demand{store.Pool{Kind: store.PoolJobs, Key: j.Pool}, 1, def.Concurrency})
	}
	if slots, ok := q.depth(j.Workspace, j.Depth); ok {
		takes := j.WorkerCount
		if def.AnyWorkers {
			takes = max(1, min(takes, slots))
		}
		all = append(all, demand{depthPool(j.Workspace, j.Depth), takes, slots})
	}
	return all
}

// A demand is the number of slots to take from a pool.
type demand struct {
	pool         store.Pool
	takes, slots int
}

// queuesOf returns the queues that a worker serves, by route.
func queuesOf(w *pawl.Worker) map[rowkey.Route]string {
	queues := make(map[rowkey.Route]string, len(w.Routes))
	for i, r := range w.Routes {
		if i < len(w.Handlers) {
			queue, handler, _ := strings.Cut(w.Handlers[i], "/")
			if r == pawl.Route(w.Workspace, queue, handler, 0) {
				queues[r] = queue // the worker of a private job serves no queue
			}
		}
	}
	return queues
}

// open returns the routes of a worker except those of full queues, and the pools of its
// limited queues.
func (e *Engine) open(ctx context.Context, w *pawl.Worker, q *quotas) (routes []rowkey.Route, pools []store.Pool, err error) {
	if q.none() {
		return w.Routes, nil, nil
	}
	queues := queuesOf(w)
	limited := make(map[string]store.Pool)
	for _, queue := range queues {
		if _, ok := q.queue(w.Workspace, queue); ok {
			limited[queue] = queuePool(w.Workspace, queue)
		}
	}
	if len(limited) == 0 {
		return w.Routes, nil, nil
	}
	for _, p := range limited {
		pools = append(pools, p)
	}
	used, err := e.store.Usage(ctx, pools)
	if err != nil {
		return nil, nil, err
	}
	routes = slices.Clone(w.Routes)
	return slices.DeleteFunc(routes, func(r rowkey.Route) bool {
		p, ok := limited[queues[r]]
		slots, _ := q.queue(w.Workspace, queues[r])
		return ok && used[p] >= slots
	}), pools, nil
}
