package engine_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
)

var (
	randomJobs = flag.Int("random.jobs", 150, "random jobs for each database")
	randomSeed = flag.Uint64("random.seed", 0, "seed of the random jobs; 0 takes one from the clock")
)

func seed(t *testing.T) uint64 {
	s := *randomSeed
	if s == 0 {
		s = uint64(time.Now().UnixNano()) % 1_000_000
	}
	t.Logf("-random.seed=%d replays the jobs", s)
	return s
}

// A crowd is many random jobs and the processes that run them.
type crowd struct {
	t         *testing.T
	processes []*process
	jobs      map[string]*random // by name
	ids       map[string]pawl.ID
	canceled  map[string]bool
}

func newCrowd(t *testing.T, r *rand.Rand, jobs int) *crowd {
	c := &crowd{t: t, jobs: make(map[string]*random), ids: make(map[string]pawl.ID), canceled: make(map[string]bool)}
	for i := range jobs {
		j := invent(t, r, fmt.Sprintf("job_%d", i))
		c.jobs[j.name] = j
	}
	return c
}

func (c *crowd) run(ctx context.Context, t *worker.Task) worker.Result {
	return c.jobs[t.Workflow].run(ctx, t)
}

func (c *crowd) any(r *rand.Rand) *process { return c.processes[r.IntN(len(c.processes))] }

// finish waits for all jobs, and checks them.
func (c *crowd) finish() {
	p := c.processes[0]
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*patience)
	defer cancel()
	ends := make(map[machine.State]int)
	for name, id := range c.ids {
		if _, err := p.engine.Wait(ctx, id); err != nil {
			c.t.Fatalf("%s is stuck: %v\n%s\n%s", name, err, c.jobs[name].source, p.dump(id))
		}
		v := p.job(id)
		c.jobs[name].compare(c.t, v, c.canceled[name])
		p.settled(id)
		ends[v.Status]++
	}
	c.t.Logf("%d processes, %v", len(c.processes), ends)
	verify(c.t, p.store)
}

// TestRandomJobs: several processes on one database run random jobs side by side, and each
// job ends as its model predicts.
func TestRandomJobs(t *testing.T) { // T2, T3, T7, T10, J2
	onDatabases(t, func(t *testing.T, db *database) {
		r := rand.New(rand.NewPCG(seed(t), 0))
		jobs := *randomJobs
		if raceDetector {
			jobs /= 3
		}
		c := newCrowd(t, r, jobs)
		for i := range 1 + r.IntN(3) {
			handlers := map[string]worker.Handler{"h0": c.run, "h1": c.run}
			if i > 0 && r.IntN(2) == 0 {
				delete(handlers, fmt.Sprintf("h%d", r.IntN(2)))
			}
			c.processes = append(c.processes, start(t, db.open(), setup{handlers: handlers, capacity: 2 + r.IntN(20)}))
		}
		swept := c.processes[0].sweeping()
		var cancels sync.WaitGroup
		for _, name := range sortedNames(c.jobs) {
			j := c.jobs[name]
			p, canceler := c.any(r), c.any(r)
			id := p.submit(j.def, "")
			c.ids[name] = id
			if r.IntN(8) == 0 {
				c.canceled[name] = true
				after := time.Duration(r.IntN(100)) * time.Millisecond
				cancels.Go(func() { cancelLater(t, canceler, id, after) })
			}
		}
		cancels.Wait()
		c.finish()
		if n := swept(); n != 0 {
			t.Errorf("%d waits were found whose cause had ended, in jobs that nobody has harmed", n)
		}
	})
}

func sortedNames(jobs map[string]*random) []string { return slices.Sorted(maps.Keys(jobs)) }

// cancelLater cancels a job at some moment of its life.
func cancelLater(t *testing.T, p *process, id pawl.ID, after time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	if j, err := p.engine.Wait(ctx, id); err == nil && lifecycle.Job.Ended(j.State) {
		return
	}
	if _, err := p.engine.Cancel(t.Context(), id, note("at random")); err != nil && pawl.KindOf(err) != pawl.Conflict {
		t.Errorf("cancel: %v", err)
	}
}
