package privatejob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/inspect"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/worker"
)

// A Follower shows a job as it changes. Close comes last.
type Follower interface {
	Show(v *pawl.JobView)
	Close()
}

// A Session runs one private job in this process, to its end or until it is
// interrupted.
type Session struct {
	Store    store.Store
	Engine   *engine.Engine
	Client   *client.Client
	ID       pawl.ID
	Resumed  bool          // another process may have died while it ran the job
	Worker   worker.Config // of the worker that runs it; Run sets its Job
	Stopping func()        // called when ctx has ended and running steps are interrupted
}

// Run returns the job once it has ended. If ctx ends first, Run interrupts the running steps,
// leaves the job unfinished, and returns the error of ctx.
func (s *Session) Run(ctx context.Context, f Follower) (*pawl.JobView, error) {
	release, err := hold(ctx, s.Store, s.ID)
	if err != nil {
		f.Close()
		return nil, err
	}
	defer release()
	if s.Resumed {
		if err := s.Engine.Takeover(ctx, DeadHere); err != nil {
			f.Close()
			return nil, err
		}
	}
	s.Worker.Job = s.ID.JobKey()
	w, err := worker.Start(ctx, s.Engine, s.Worker)
	if err != nil {
		f.Close()
		return nil, err
	}
	working, stop := whileWorking(ctx, w)
	defer stop()
	v, err := inspect.Follow(working, s.Client, s.ID, f.Show)
	f.Close()
	over, cancel := context.WithCancel(context.Background())
	cancel() // interrupts the running steps at once
	if working.Err() != nil && ctx.Err() == nil {
		return v, w.Drain(over)
	}
	if ctx.Err() != nil {
		s.Stopping()
	}
	return v, errors.Join(err, w.Drain(over))
}

// Settle takes over the jobs of dead processes of this host. It waits until each of the given
// canceled jobs has ended, or for the given time in all, and calls f with the state of each.
func Settle(ctx context.Context, e *engine.Engine, cl *client.Client, jobs []pawl.ID, within time.Duration, f func(pawl.ID, *pawl.JobView) error) error {
	if len(jobs) == 0 {
		return nil
	}
	if err := e.Takeover(ctx, DeadHere); err != nil {
		return err
	}
	return Outcomes(ctx, cl, jobs, within, f)
}

// Outcomes waits until each of the given canceled jobs has ended, or for the given time in
// all, and calls f with the state of each.
func Outcomes(ctx context.Context, cl *client.Client, jobs []pawl.ID, within time.Duration, f func(pawl.ID, *pawl.JobView) error) error {
	limited, done := context.WithTimeout(ctx, within)
	defer done()
	for _, id := range jobs {
		if _, err := cl.Jobs.Wait(limited, id); err != nil && limited.Err() == nil {
			return err
		}
		v, err := cl.Jobs.Get(ctx, id)
		if err != nil {
			return err
		}
		if err := f(id, v); err != nil {
			return err
		}
	}
	return nil
}

// whileWorking returns a context that ends with ctx, or with the worker.
func whileWorking(ctx context.Context, w *worker.Worker) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-w.Over():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// A holder is how the owner of a private job describes itself.
type holder struct {
	PID  int    `json:"pid"`
	Host string `json:"host"`
}

// holdName is the name that the owner of a private job holds for its lifetime.
func holdName(id pawl.ID) string { return fmt.Sprintf("job/%d", id.JobKey()) }

// hold makes this process the owner of a private job. While another owner lives, it returns an
// error with the owner's pid.
func hold(ctx context.Context, s store.Store, id pawl.ID) (release func(), err error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	note, err := json.Marshal(holder{os.Getpid(), host})
	if err != nil {
		return nil, err
	}
	for begun := time.Now(); ; {
		release, err = s.Hold(ctx, holdName(id), note)
		var held *store.HeldError
		if !errors.As(err, &held) {
			return release, err
		}
		h := holderOf(held)
		if h.Host != host || !ProcessGone(h.PID) || time.Since(begun) > forkTime {
			return nil, h.refusal(id)
		}
		select {
		case <-time.After(holdAgain):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// A child of a killed process keeps its locks until it runs its program, which takes at most
// forkTime.
const (
	forkTime  = 5 * time.Second
	holdAgain = 10 * time.Millisecond
)

// ProcessGone reports whether no process with that number runs on this machine.
func ProcessGone(pid int) bool { return pid > 0 && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// DeadHere reports whether a worker's process ran on this machine and has died.
func DeadHere(w *pawl.Worker) bool {
	host, err := os.Hostname()
	return err == nil && w.Host == host && ProcessGone(w.PID)
}

func holderOf(held *store.HeldError) (h holder) {
	if json.Unmarshal(held.Note, &h) != nil {
		return holder{}
	}
	return h
}

func (h holder) refusal(id pawl.ID) error {
	if h.PID == 0 {
		return &pawl.Error{Kind: pawl.Conflict, Message: "job " + id.Public(pawl.JobPrefix) + " is run by another process"}
	}
	return &pawl.Error{
		Kind:    pawl.Conflict,
		Message: fmt.Sprintf("job %s is run by process %d on %s", id.Public(pawl.JobPrefix), h.PID, h.Host),
		Hint:    fmt.Sprintf("wait for it, or interrupt it with: kill -INT %d", h.PID),
	}
}
