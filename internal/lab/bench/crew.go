package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A Crew is a group of workers.
type Crew struct {
	Workers int    // 0: the default of the target
	Program string // path of pawl: each worker is a process of it, with default settings; "": workers run in this process
}

// or returns the crew with this number of workers if it has none.
func (c Crew) or(workers int) Crew { return Crew{cmp.Or(c.Workers, workers), c.Program} }

// Backlog is the workload in which the crew runs jobs that were submitted before it started. A
// worker in a separate process has no Go functions of ours: it starts a program that does
// nothing.
func (c Crew) Backlog() Workload {
	if c.Program != "" {
		return backlog(programs)
	}
	return backlog(Noop)
}

// stopLimit is how long a process may take to end.
const stopLimit = 10 * time.Second

// processes are workers in separate processes. The zero value has none.
type processes struct {
	list []*exec.Cmd
	end  context.CancelFunc
	over sync.WaitGroup

	early context.Context // ends when a process has ended too early, with that as its cause
}

// start starts the workers of the crew on the database.
func (p *processes) start(c Crew, url string) error {
	life, end := context.WithCancel(context.Background())
	early, fail := context.WithCancelCause(context.Background())
	p.end, p.early = end, early
	context.AfterFunc(life, func() { fail(nil) })
	for range c.Workers {
		cmd := exec.CommandContext(life, c.Program, "--database", url, "worker")
		cmd.Env = append(os.Environ(), "PAWL_WORKSPACE="+pawl.DefaultWorkspace)
		out := new(bytes.Buffer)
		cmd.Stdout, cmd.Stderr = out, out
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = stopLimit
		if err := cmd.Start(); err != nil {
			return errors.Join(fmt.Errorf("start a worker: %w", err), p.stop())
		}
		p.list = append(p.list, cmd)
		p.over.Go(func() {
			err := cmd.Wait()
			if life.Err() == nil {
				fail(fmt.Errorf("a worker has ended by itself: %w\n%s", err, bytes.TrimSpace(out.Bytes())))
			}
		})
	}
	return nil
}

// watch returns a context that ends when a process does, with that as its cause.
func (p *processes) watch(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() bool { return true }
	if p.early != nil {
		stop = context.AfterFunc(p.early, func() { cancel(context.Cause(p.early)) })
	}
	return ctx, func() { stop(); cancel(nil) }
}

// stop stops all of them, and waits for their ends.
func (p *processes) stop() error {
	if p.end == nil {
		return nil
	}
	err := context.Cause(p.early)
	p.end()
	p.over.Wait()
	p.end = nil
	return err
}

// PIDs returns the processes of the crew.
func (p *Pawl) PIDs() (pids []int) {
	for _, cmd := range p.hands.list {
		pids = append(pids, cmd.Process.Pid)
	}
	return pids
}

// Gap returns the longest time without the end of a job submitted here, between the first end
// and the last. All of these jobs must have ended.
func (p *Pawl) Gap(ctx context.Context) (time.Duration, error) {
	var ends []int64
	page := store.JobFilter{States: []machine.State{lifecycle.JobCompleted}, Limit: 1000, Bare: true}
	for {
		jobs, err := p.config.Store.Jobs(ctx, page)
		if err != nil {
			return 0, err
		}
		for _, j := range jobs {
			if page.Before = j.ID.JobKey(); page.Before >= p.first {
				ends = append(ends, j.CompletedAt)
			}
		}
		if len(jobs) == 0 || page.Before <= p.first {
			return longest(ends), nil
		}
	}
}

func longest(ends []int64) (gap time.Duration) {
	slices.Sort(ends)
	for i := range max(len(ends)-1, 0) {
		gap = max(gap, time.Duration(ends[i+1]-ends[i])*time.Microsecond)
	}
	return gap
}
