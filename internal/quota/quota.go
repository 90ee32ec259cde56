// Package quota has the limits on what runs at once, and the pools of slots that they make.
//
// A limit that an operator sets is of a queue, for the steps of it that are in progress, or of
// a depth, for the workers of jobs that are nested so deep (J7). A workflow itself limits the
// jobs with the same concurrency key. Each of them is a pool (store.Pool); a job takes what
// Limits.Demands returns, a step takes a slot of QueuePool. How many slots are taken is
// counted by the store, never here.
//
// A queue may also be paused: none of its steps is claimed. Limits say so, too.
//
// Cache has the Limits of all workspaces. They are outdated for a second at most, and a
// command that is decided by them checks that this process has not seen others since
// (Cache.Changed).
package quota

import (
	"context"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/workflow"
)

// A Source is a store as far as it is read for limits.
type Source interface {
	// Quotas reads the limits of a workspace, or of all if it is empty, by name, beyond after.
	Quotas(ctx context.Context, workspace string, after pawl.WorkflowName, limit int) ([]*pawl.Quota, error)
	// Pauses lists pauses of queues, newest first.
	Pauses(ctx context.Context, f store.PauseFilter) ([]*pawl.QueuePause, error)
}

// Each calls f with the limits of a workspace, or of all if it is empty, by name. It ends with
// the first error of f.
func Each(ctx context.Context, s Source, workspace string, f func(*pawl.Quota) error) error {
	after := pawl.WorkflowName{}
	read := func() ([]*pawl.Quota, error) { return s.Quotas(ctx, workspace, after, store.ListPage) }
	return store.EachOf(read, func(q *pawl.Quota) error {
		after = pawl.WorkflowName{Workspace: q.Workspace, Name: q.Name}
		return f(q)
	})
}

// Limits are the limits set by operators, by workspace and name, and the queues that they have
// paused. They do not change once read.
type Limits struct {
	slots  map[pawl.WorkflowName]int
	paused map[pawl.QueueName]rowkey.QueuePause
}

// None reports whether there are no limits at all, and no queue is paused.
func (l *Limits) None() bool { return len(l.slots)+len(l.paused) == 0 }

// Paused reports whether a queue is paused.
func (l *Limits) Paused(workspace, queue string) bool { return l.Pause(workspace, queue) != 0 }

// Pause returns the key of the pause of a queue, or 0.
func (l *Limits) Pause(workspace, queue string) rowkey.QueuePause {
	return l.paused[pawl.QueueName{Workspace: workspace, Name: queue}]
}

// Queue returns the limit of a queue.
func (l *Limits) Queue(workspace, queue string) (int, bool) {
	n, ok := l.slots[pawl.WorkflowName{Workspace: workspace, Name: "queue/" + queue}]
	return n, ok
}

// Depth returns the number of slots for jobs of a depth.
func (l *Limits) Depth(workspace string, depth int) (int, bool) {
	n, ok := l.slots[pawl.WorkflowName{Workspace: workspace, Name: "depth/" + strconv.Itoa(depth)}]
	return n, ok
}

// A Demand is the number of slots to take from a pool, and how many the pool has.
type Demand struct {
	Pool         store.Pool
	Takes, Slots int
}

// Demands returns the pools from which a job takes slots when it starts, the number it
// takes, and their sizes. From the quota of its depth it takes as many as it has workers;
// if nobody has given that number, at most the size of the quota.
func (l *Limits) Demands(j *pawl.Job, def *workflow.Definition) []Demand {
	var all []Demand
	if j.Pool != 0 {
		all = append(all, Demand{store.Pool{Kind: store.PoolJobs, Key: j.Pool}, 1, def.Concurrency})
	}
	if slots, ok := l.Depth(j.Workspace, j.Depth); ok {
		takes := j.WorkerCount
		if def.AnyWorkers && takes == def.Workers {
			takes = max(1, min(takes, slots))
		}
		all = append(all, Demand{DepthPool(j.Workspace, j.Depth), takes, slots})
	}
	return all
}

// PoolOf returns the pool of a limit set by an operator.
func PoolOf(q *pawl.Quota) store.Pool {
	kind, rest, _ := strings.Cut(q.Name, "/")
	if kind == "queue" {
		return QueuePool(q.Workspace, rest)
	}
	depth, _ := strconv.Atoi(rest) // checked when it was set
	return DepthPool(q.Workspace, depth)
}

// QueuePool returns the pool for the limit of a queue.
func QueuePool(workspace, queue string) store.Pool {
	return store.Pool{Kind: store.PoolSteps, Key: pawl.PoolKey(workspace, "queue", queue)}
}

// DepthPool returns the pool for the limit of a depth.
func DepthPool(workspace string, depth int) store.Pool {
	return store.Pool{Kind: store.PoolQuota, Key: pawl.PoolKey(workspace, "depth", strconv.Itoa(depth))}
}
