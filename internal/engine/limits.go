package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/quota"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/workflow"
)

// MaxSlots is the largest quota.
const MaxSlots = 1_000_000

// Hierarchy is the preset of quotas that gives deeper jobs fewer slots (J7).
var Hierarchy = [MaxDepth + 1]int{10, 8, 5, 3, 2, 1}

// SetQuotas sets limits of workspaces, all or none; a negative number of slots removes a
// limit. Names are depth/0 to depth/5 and queue/NAME. What is already running continues.
func (e *Engine) SetQuotas(ctx context.Context, set []pawl.Quota, c pawl.Change) error {
	if err := checkChange(c); err != nil {
		return err
	}
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
	if c.Version != 0 && len(set) != 1 {
		return pawl.Errorf(pawl.Invalid, "version: %d quotas at once: a version is of one", len(set))
	}
	r, err := e.newRequest(pawl.Change{Reason: c.Reason, RequestID: c.RequestID}, workspace, "POST /api/resources/quotas", set)
	if err != nil {
		return err
	}
	return e.execute(ctx, r, cmd, nil)
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

func (s *setQuotas) query(q *store.Query) {
	for i := range s.set {
		q.Limits = append(q.Limits, limitName(&s.set[i]))
	}
}

func limitName(q *pawl.Quota) pawl.WorkflowName {
	return pawl.WorkflowName{Workspace: q.Workspace, Name: q.Name}
}

// decide sets the limits. Each time of one is later than the one before, since it is its
// version.
func (s *setQuotas) decide(t *tx) error {
	for _, q := range s.set {
		was, at := t.limit(&q), t.now
		if was != nil {
			at = max(at, was.At+1)
		}
		if was != nil && was.Slots < 0 {
			was = nil // removed by an earlier command
		}
		if err := checkVersion(s.by.Version, was, "quota "+q.Name); err != nil {
			return err
		}
		q.At, q.Actor, q.Reason = at, s.by.Actor, s.by.Reason
		t.quotas = append(t.quotas, &q)
	}
	return nil
}

// limit returns a limit as this transaction leaves it, or nil.
func (t *tx) limit(of *pawl.Quota) *pawl.Quota {
	for _, q := range slices.Backward(t.quotas) {
		if limitName(q) == limitName(of) {
			return q
		}
	}
	return t.facts.Limits[limitName(of)]
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

// open returns the routes of a worker except those of full and paused queues, and the pools of
// its limited queues.
func (e *Engine) open(ctx context.Context, w *pawl.Worker, q *quota.Limits) (routes []rowkey.Route, pools []store.Pool, err error) {
	if q.None() {
		return w.Routes, nil, nil
	}
	queues := queuesOf(w)
	limited, paused := make(map[string]store.Pool), make(map[string]bool)
	for _, queue := range queues {
		if q.Paused(w.Workspace, queue) {
			paused[queue] = true
		} else if _, ok := q.Queue(w.Workspace, queue); ok {
			limited[queue] = quota.QueuePool(w.Workspace, queue)
		}
	}
	if len(limited)+len(paused) == 0 {
		return w.Routes, nil, nil
	}
	for _, p := range limited {
		pools = append(pools, p)
	}
	used := map[store.Pool]int{}
	if len(pools) > 0 {
		if used, err = e.store.Usage(ctx, pools); err != nil {
			return nil, nil, err
		}
	}
	routes = slices.Clone(w.Routes)
	return slices.DeleteFunc(routes, func(r rowkey.Route) bool {
		p, ok := limited[queues[r]]
		slots, _ := q.Queue(w.Workspace, queues[r])
		return paused[queues[r]] || ok && used[p] >= slots
	}), pools, nil
}
