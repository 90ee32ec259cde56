package worker

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/trouble"
	"github.com/pawl-dev/pawl/internal/workdir"
	"github.com/pawl-dev/pawl/workflow"
)

const (
	// tidyEvery is how often all folders are checked. Folders of jobs that have just
	// run a step here are checked with the next beat.
	tidyEvery = time.Minute

	// tidyJobs is how many jobs are asked for at once.
	tidyJobs = 500

	// tidyLeft is how long a job is checked with each beat after a step of it has ended
	// here: its outcome still has to be reported and applied.
	tidyLeft = 10 * time.Second

	// lastTidy bounds the last check of a worker that ends.
	lastTidy = 2 * time.Second
)

// folders are the working directories of the jobs that this worker runs. A nil one has none.
type folders struct {
	root *workdir.Root
	link link.Worker
	log  *slog.Logger
	keep bool
	beat time.Duration

	asked *trouble.Log // which jobs have ended; used by tidy only

	mu   sync.Mutex           // guards what follows
	left map[string]time.Time // when a step of a job last ended here, for recent ones
}

// openFolders prepares the worker's WorkDir, if it has one.
func (w *Worker) openFolders() error {
	c := w.config
	if c.WorkDir == "" {
		return nil
	}
	path, err := filepath.Abs(c.WorkDir)
	if err != nil {
		return err
	}
	root, err := workdir.Open(path)
	if err != nil {
		return &pawl.Error{Kind: pawl.Refused, Message: "the folder for the working directories of jobs cannot be used: " + err.Error(),
			Hint: "name another one with --workdir"}
	}
	w.folders = &folders{root: root, link: w.link, log: c.Log, keep: c.KeepWorkDirs, beat: c.Beat, left: make(map[string]time.Time),
		asked: trouble.New(c.Log, "it is unknown which jobs have ended; their folders are kept for now", "it is known again which jobs have ended")}
	return nil
}

// enter gives a command the folder of its job, unless the job names one, until leave is
// called.
func (f *folders) enter(t *Task, b *link.StepInput) (leave func(), failure *pawl.Failure) {
	command := b.Node.Kind == workflow.KindCommand || b.Node.Kind == workflow.KindRun
	if f == nil || b.Dir != "" || !command || filepath.IsAbs(t.Work.Dir) {
		return func() {}, nil
	}
	stay, err := f.root.Enter(t.JobID)
	if err != nil {
		return nil, retryable("start_failed", "make the folder of the job: %v", err)
	}
	t.BaseDir, t.ownDir = stay.Path, true
	return func() {
		stay.Leave()
		if f.keep {
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.left[t.JobID] = time.Now()
	}, nil
}

// close removes the root if it is empty.
func (f *folders) close() {
	if f != nil {
		f.root.Close()
	}
}

// tidy removes the folders of jobs that have ended, until ctx ends.
func (f *folders) tidy(ctx context.Context) {
	if f == nil || f.keep {
		return
	}
	defer f.close()
	tick := time.NewTicker(f.beat)
	defer tick.Stop()
	f.lookAtAll(ctx)
	for looked := time.Now(); ; {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTidy)
			defer cancel()
			f.lookAtLeft(last)
			return
		case <-tick.C:
		}
		f.lookAtLeft(ctx)
		if time.Since(looked) >= tidyEvery {
			f.lookAtAll(ctx)
			looked = time.Now()
		}
	}
}

// lookAtLeft checks the folders of jobs that have just run a step here.
func (f *folders) lookAtLeft(ctx context.Context) {
	f.mu.Lock()
	var names []string
	for name, at := range f.left {
		names = append(names, name)
		if time.Since(at) > tidyLeft {
			delete(f.left, name)
		}
	}
	f.mu.Unlock()
	f.look(ctx, names)
}

// lookAtAll checks every folder: those of jobs that have ended elsewhere, and those
// that killed workers have left behind.
func (f *folders) lookAtAll(ctx context.Context) {
	names, err := f.root.Names()
	if err := errors.Join(err, f.root.Clear()); err != nil {
		f.log.Warn("not all folders of jobs could be checked; it is retried", "error", err)
	}
	f.look(ctx, names)
}

// look removes the folders of the jobs that have ended, or no longer exist.
func (f *folders) look(ctx context.Context, names []string) {
	if len(names) == 0 {
		f.asked.Forget()
	}
	for len(names) > 0 && ctx.Err() == nil {
		now := names[:min(len(names), tidyJobs)]
		names = names[len(now):]
		over, err := f.over(ctx, now)
		if ctx.Err() == nil {
			f.asked.Note(err)
		}
		for _, name := range over {
			switch err := f.root.Remove(name); {
			case err == nil:
				f.forget(name)
			case !errors.Is(err, workdir.ErrInUse):
				f.forget(name) // the next check of all folders tries again
				f.log.Warn("the folder of a job that has ended was not removed; it is retried", "job", name, "error", err)
			}
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// forget leaves a job to the next check of all folders.
func (f *folders) forget(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.left, name)
}

// over returns the names of the jobs that will not run again: they have ended, or no
// longer exist. Names that are not job ids are never returned.
func (f *folders) over(ctx context.Context, names []string) ([]string, error) {
	named := make(map[pawl.ID]string, len(names))
	jobs := make([]pawl.ID, 0, len(names))
	for _, name := range names {
		if id, err := pawl.ParseID(pawl.JobPrefix, name); err == nil {
			named[id] = name
			jobs = append(jobs, id)
		}
	}
	ended, err := f.link.EndedJobs(ctx, jobs)
	over := make([]string, len(ended))
	for i, job := range ended {
		over[i] = named[job]
	}
	return over, err
}
