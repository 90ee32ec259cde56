package quota

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/workflow"
)

// A shelf is a source that counts how often it is read from the start.
type shelf struct {
	limits []*pawl.Quota
	pauses []*pawl.QueuePause
	reads  int
}

func (s *shelf) Quotas(_ context.Context, _ string, after pawl.WorkflowName, _ int) ([]*pawl.Quota, error) {
	if after != (pawl.WorkflowName{}) {
		return nil, nil
	}
	s.reads++
	return s.limits, nil
}

func (s *shelf) Pauses(context.Context, store.PauseFilter) ([]*pawl.QueuePause, error) {
	return s.pauses, nil
}

func get(t *testing.T, c *Cache) *Limits {
	t.Helper()
	l, err := c.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestDemands: a job takes a slot of its concurrency key, and of the quota of its depth as
// many as it has workers; it may take fewer only if neither its workflow nor its submission gives the number.
func TestDemands(t *testing.T) { // J7
	t.Parallel()
	limits := get(t, NewCache(&shelf{limits: []*pawl.Quota{{Workspace: "w", Name: "depth/1", Slots: 3}, {Workspace: "w", Name: "queue/q", Slots: 2}}}))
	depth := PoolOf(&pawl.Quota{Workspace: "w", Name: "depth/1"})
	key := store.Pool{Kind: store.PoolJobs, Key: 9}
	for _, tt := range []struct {
		name string
		job  pawl.Job
		def  workflow.Definition
		want []Demand
	}{
		{"no limit", pawl.Job{Workspace: "w", WorkerCount: 5}, workflow.Definition{}, nil},
		{"another workspace", pawl.Job{Workspace: "v", Depth: 1, WorkerCount: 5}, workflow.Definition{}, nil},
		{"depth", pawl.Job{Workspace: "w", Depth: 1, WorkerCount: 2}, workflow.Definition{}, []Demand{{depth, 2, 3}}},
		{"more than there are", pawl.Job{Workspace: "w", Depth: 1, WorkerCount: 5}, workflow.Definition{}, []Demand{{depth, 5, 3}}},
		{"any number", pawl.Job{Workspace: "w", Depth: 1, WorkerCount: 5}, workflow.Definition{AnyWorkers: true, Workers: 5}, []Demand{{depth, 3, 3}}},
		{"given by its submission", pawl.Job{Workspace: "w", Depth: 1, WorkerCount: 5}, workflow.Definition{AnyWorkers: true, Workers: 10}, []Demand{{depth, 5, 3}}},
		{"key and depth", pawl.Job{Workspace: "w", Depth: 1, WorkerCount: 1, Pool: 9}, workflow.Definition{Concurrency: 4}, []Demand{{key, 1, 4}, {depth, 1, 3}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, limits.Demands(&tt.job, &tt.def)); diff != "" {
				t.Errorf("demands (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPools: the pool of a limit is the one that steps of its queue take from, and no other.
func TestPools(t *testing.T) { // J7
	t.Parallel()
	of := func(workspace, name string) store.Pool { return PoolOf(&pawl.Quota{Workspace: workspace, Name: name}) }
	if of("w", "queue/q") != QueuePool("w", "q") {
		t.Error("steps do not take from the pool of their queue's limit")
	}
	seen := make(map[store.Pool]string)
	for _, name := range [][2]string{{"w", "queue/q"}, {"v", "queue/q"}, {"w", "queue/r"}, {"w", "depth/1"}, {"w", "depth/2"}, {"v", "depth/1"}} {
		p := of(name[0], name[1])
		if other, taken := seen[p]; taken {
			t.Errorf("%v and %s have one pool", name, other)
		}
		seen[p] = name[0] + " " + name[1]
	}
}

// TestCache: limits are read once a second. While they are the same, what was decided by
// them stands; a process that sets limits sees them at once.
func TestCache(t *testing.T) { // J7
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{limits: []*pawl.Quota{{Workspace: "w", Name: "queue/q", Slots: 2}}}
		c := NewCache(s)
		first := get(t, c)
		time.Sleep(fresh)
		if again := get(t, c); again != first || s.reads != 1 {
			t.Errorf("read %d times within a second", s.reads)
		}
		time.Sleep(time.Nanosecond)
		if again := get(t, c); again != first || c.Changed(first) || s.reads != 2 {
			t.Errorf("after %d reads the same limits count as changed", s.reads)
		}
		s.limits[0].Slots = 5
		c.Forget()
		if !c.Changed(first) {
			t.Error("limits that were set do not count as changed")
		}
		if n, ok := get(t, c).Queue("w", "q"); n != 5 || !ok || s.reads != 3 {
			t.Errorf("%d slots, %t, after %d reads; want those that were set", n, ok, s.reads)
		}
	})
}
