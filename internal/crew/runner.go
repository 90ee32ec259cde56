package crew

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/internal/process"
	"github.com/pawl-dev/pawl/internal/sleep"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A Program is what works on an assignment: an agent, or a script.
type Program struct {
	Argv []string // the first is a path, or is searched in PATH
	Env  []string // beside that of this process
}

const (
	beatEvery = 30 * time.Second // C4
	lookEvery = time.Second      // whether the assignment is over
	stopGrace = 5 * time.Second  // less than an engine gives to a canceled step, see endTime
	runLog    = 64 << 20         // bytes of stdout, and of stderr, before the file is rotated once
)

// A runRecord is what run.json has of a program.
type runRecord struct {
	Argv      []string       `json:"argv"`
	Version   int64          `json:"version"` // of the member, when it was launched
	Runner    int            `json:"runner_pid"`
	StartedAt pawl.Timestamp `json:"started_at"`
	Instant
}

// Run runs a program in the worktree of a member's assignment, in this process, which is its runner
// (C5, C11): it holds a lock as long as it lives, beats for the member, and when the program has ended it
// kills what it has left running and says how it ended. Work that the program has not submitted itself
// is submitted if it ended well, and has failed otherwise. When ctx ends, the program is stopped, and also when
// the folder of the crew is gone: the error is a *durable.GoneError then. begun, if not nil, is called once the
// member works.
func (c *Crew) Run(ctx context.Context, id string, p Program, by Caller, begun func(*Member)) (m *Member, err error) {
	err = durable.While(ctx, func(ctx context.Context) (err error) {
		m, err = c.runIn(ctx, id, p, by, begun)
		return err
	}, c.Dir)
	return m, err
}

// runIn is Run in a folder that is there.
func (c *Crew) runIn(ctx context.Context, id string, p Program, by Caller, begun func(*Member)) (*Member, error) {
	m, err := c.Settle(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := by.allow(m); err != nil {
		return nil, err
	}
	if m.State != lifecycle.MemberWorking {
		if _, err := lifecycle.Member.Next(m.State, lifecycle.MemberStart); err != nil {
			return nil, &pawl.Error{Kind: pawl.Conflict, Message: "member " + id, Err: err}
		}
	}
	a, err := c.Assignment(m)
	if err != nil {
		return nil, err
	}
	if err := c.ready(ctx, m, a); err != nil {
		return nil, err
	}
	by.Epoch = m.Epoch
	dir := c.runDir(id, m.Epoch)
	runner, tree, err := lockRun(id, dir)
	if err != nil {
		return nil, err
	}
	defer runner.Release()
	defer tree.HandOver() // in any case
	if err := c.announce(dir, m, p); err != nil {
		return nil, err
	}
	ctx, stop := c.beating(ctx, m)
	defer stop()
	if m.State == lifecycle.MemberAssigned {
		begun, err := c.Begin(ctx, id, by)
		if err != nil { // it has not begun: no program has died
			return nil, errors.Join(err, os.Remove(filepath.Join(dir, runFile)))
		}
		if m = begun; m.State != lifecycle.MemberWorking {
			return m, nil
		}
	}
	if begun != nil {
		begun(m)
	}
	e, err := c.work(ctx, m, a, p, tree)
	if err != nil { // another attempt would not help
		by.Reason = err.Error()
		failed, fault := c.Fail(context.WithoutCancel(ctx), id, true, by)
		return failed, errors.Join(err, fault)
	}
	if err := c.writeExit(dir, e); err != nil {
		return nil, err
	}
	return c.conclude(ctx, id, e, by)
}

// ready returns an error if a program could not begin, or its work not be submitted.
func (c *Crew) ready(ctx context.Context, m *Member, a *Assignment) error {
	if wait := a.Before.Time().Sub(c.Now()); m.State == lifecycle.MemberAssigned && !a.Before.IsZero() && wait > 0 {
		return pawl.Errorf(pawl.Unavailable, "attempt %d of task %s begins at %s, in %s", m.Attempt, m.Task, a.Before, round(wait))
	}
	_, config, err := c.Repo.target(ctx, a.Target)
	if err != nil || config.Forge == NoForge {
		return err
	}
	_, err = exec.LookPath(ghName)
	return ghMissing(err)
}

// RunAll runs a program for an assignment and, while attempts fail and others are left, for the next ones.
// next returns the program of an attempt.
func (c *Crew) RunAll(ctx context.Context, id string, next func(*Member) (Program, error), by Caller, begun func(*Member)) (*Member, error) {
	for {
		m, err := c.Settle(ctx, id)
		if err != nil {
			return nil, err
		}
		p, err := next(m)
		if err != nil {
			return nil, err
		}
		after, err := c.Run(ctx, id, p, by, begun)
		if err != nil || ctx.Err() != nil || after.State != lifecycle.MemberAssigned || after.Task != m.Task {
			return after, err
		}
		a, err := c.Assignment(after)
		if err != nil {
			return nil, err
		}
		if !sleep.For(ctx, a.Before.Time().Sub(c.Now())) {
			return after, nil
		}
		if m, err = c.Settle(ctx, id); err != nil || m.Epoch != after.Epoch || m.State != after.State {
			return m, err // somebody has decided otherwise meanwhile
		}
		by.Epoch, begun = after.Epoch, nil
	}
}

// RunOnce is RunAll without further attempts.
func (c *Crew) RunOnce(ctx context.Context, id string, next func(*Member) (Program, error), by Caller, begun func(*Member)) (*Member, error) {
	m, err := c.Settle(ctx, id)
	if err != nil {
		return nil, err
	}
	p, err := next(m)
	if err != nil {
		return nil, err
	}
	return c.Run(ctx, id, p, by, begun)
}

// lockRun takes the locks of a run.
func lockRun(id, dir string) (runner, tree *durable.Lock, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) // others only ask whether it is held
	defer cancel()
	runner, err = durable.Acquire(ctx, filepath.Join(dir, runnerLock))
	if errors.Is(err, durable.ErrHeld) {
		return nil, nil, pawl.Errorf(pawl.Conflict, "a program works for member %s already", id)
	}
	if err != nil {
		return nil, nil, err
	}
	if tree, err = durable.Acquire(ctx, filepath.Join(dir, treeLock)); err != nil {
		runner.Release()
		if errors.Is(err, durable.ErrHeld) {
			err = &pawl.Error{Kind: pawl.Conflict, Message: "what an earlier program of member " + id + " has started still runs", Hint: "end it first"}
		}
		return nil, nil, err
	}
	return runner, tree, nil
}

// announce says that a program is run, once the lock of its runner is held.
func (c *Crew) announce(dir string, m *Member, p Program) error {
	if err := os.Remove(filepath.Join(dir, exitFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := json.Marshal(runRecord{p.Argv, m.Version, os.Getpid(), pawl.Timestamp(c.Now().UnixMicro()), c.Clock()})
	if err != nil {
		return err
	}
	return c.Disk.Publish(filepath.Join(dir, runFile), append(text, '\n'))
}

// work runs the program to its end.
func (c *Crew) work(ctx context.Context, m *Member, a *Assignment, p Program, tree *durable.Lock) (*Exit, error) {
	dir := c.runDir(m.ID, m.Epoch)
	path, err := process.Find(p.Argv[0], a.Worktree, os.Getenv("PATH"))
	if err != nil {
		return nil, p.missing(err)
	}
	guard, err := c.guard(ctx, a.Worktree)
	if err != nil {
		return nil, err
	}
	out := process.OpenLog(process.LogConfig{Path: filepath.Join(dir, "stdout.log"), MaxSize: runLog, MaxFiles: 1})
	defer out.Close()
	errs := process.OpenLog(process.LogConfig{Path: filepath.Join(dir, "stderr.log"), MaxSize: runLog, MaxFiles: 1})
	defer errs.Close()
	var run *process.Process
	err = durable.While(ctx, func(ctx context.Context) (err error) {
		run, err = process.Start(process.Spec{Path: path, Args: p.Argv, Dir: a.Worktree, Env: slices.Concat(foreign(), p.Env, guard, c.environment(m, a)),
			Mark: c.mark(runMark, m), Stdout: out, Stderr: errs, Files: []*os.File{tree.File()}})
		if err != nil {
			return err
		}
		tree.HandOver()
		select {
		case <-run.Done():
		case <-ctx.Done():
			run.Stop(context.Background(), syscall.SIGTERM, stopGrace)
		}
		return nil
	}, a.Worktree)
	var lost *durable.GoneError
	if err != nil && (run == nil || !errors.As(err, &lost)) {
		return nil, err
	}
	e := run.Exit()
	left := &Exit{Code: e.Code, At: pawl.Timestamp(e.At.UnixMicro()), lost: lost}
	if e.Signal != 0 {
		left.Signal = e.Signal.String()
	}
	return left, nil
}

// foreign is the environment of this process without the variables of Pawl: the database and the credentials
// of a server are not for the programs of members, nor for gates.
func foreign() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PAWL_") })
}

const runMark = "PAWL_RUN"

// mark returns what marks the processes of an assignment, in their environment.
func (c *Crew) mark(name string, m *Member) string {
	return fmt.Sprintf("%s=%s %s %d", name, c.Dir, m.ID, m.Epoch)
}

// environment is what a program knows of its assignment (C11).
func (c *Crew) environment(m *Member, a *Assignment) []string {
	return append([]string{
		"PAWL_WORKER=" + m.ID, "PAWL_TASK=" + a.Task, "PAWL_ATTEMPT=" + strconv.Itoa(a.Attempt), "PAWL_EPOCH=" + strconv.FormatInt(m.Epoch, 10),
		"PAWL_CREW=" + c.Dir, "PAWL_BRANCH=" + a.Branch, "PAWL_BASE=" + a.Base, "PAWL_TARGET=" + a.Target, "PAWL_PROMPT=" + a.Prompt,
		"GIT_CEILING_DIRECTORIES=" + filepath.Dir(a.Worktree), // a worktree that is gone is not mistaken for what is above it
	}, quiet...)
}

// beating beats for a member until ctx ends. The context that it returns ends, too, once the assignment is
// over.
func (c *Crew) beating(ctx context.Context, m *Member) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		for last := (time.Time{}); ; {
			if now, err := c.Load(m.ID); err == nil && (now.Epoch != m.Epoch || resting(now)) {
				return
			}
			if time.Since(last) >= beatEvery {
				last = time.Now()
				_, _ = c.Beat(m.ID, m.Epoch, "") // the next one is soon
			}
			if !sleep.For(ctx, lookEvery) {
				return
			}
		}
	}()
	return ctx, cancel
}

func (c *Crew) writeExit(dir string, e *Exit) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return c.Disk.Publish(filepath.Join(dir, exitFile), append(text, '\n'))
}

// conclude makes the move that follows from how a program ended, unless somebody has made one already. ctx
// has ended if the program was stopped.
func (c *Crew) conclude(ctx context.Context, id string, e *Exit, by Caller) (*Member, error) {
	stopped := ctx.Err() != nil
	ctx = context.WithoutCancel(ctx)
	m, err := c.Settle(ctx, id)
	if err != nil || m.Epoch != by.Epoch || m.State != lifecycle.MemberWorking {
		return m, err
	}
	if back, err := c.cameBackUnchanged(ctx, m); err != nil || back {
		return m, err
	}
	switch {
	case stopped:
		by.Reason = "it was stopped"
	case e.lost != nil:
		by.Reason = e.lost.Error()
	case e.Signal != "":
		by.Reason = "its program was ended by signal " + e.Signal
	case e.Code != 0:
		by.Reason = fmt.Sprintf("its program has ended with code %d", e.Code)
	default:
		submitted, err := c.submitAtLast(ctx, id, by)
		if err == nil || pawl.KindOf(err) == pawl.Unavailable {
			return submitted, err
		}
		by.Reason = "its program has ended, and " + err.Error()
	}
	return c.Fail(ctx, id, false, by)
}

const (
	submitTries = 60 // of what cannot be submitted for a while
	submitPause = 10 * time.Second
)

// submitAtLast submits finished work, also if that is not possible for a while, such as without a network.
func (c *Crew) submitAtLast(ctx context.Context, id string, by Caller) (m *Member, err error) {
	for range submitTries {
		if m, err = c.Submit(ctx, id, by); pawl.KindOf(err) != pawl.Unavailable || err == nil {
			return m, err
		}
		if !sleep.For(ctx, submitPause) {
			break
		}
	}
	return m, err
}

// cameBackUnchanged reports whether the work of a member has come back while its program was at its end: the
// program has changed nothing since, so the next run will.
func (c *Crew) cameBackUnchanged(ctx context.Context, m *Member) (bool, error) {
	back, err := c.cameBack(m)
	if err != nil || !back {
		return false, err
	}
	r, err := c.Review(m)
	if err != nil || r == nil {
		return false, err
	}
	_, head, err := c.Repo.branch(ctx, string(m.Branch))
	return head == r.Head, err
}

// cameBack reports whether the work of a member came back after its last program was launched.
func (c *Crew) cameBack(m *Member) (bool, error) {
	run, err := c.RunOf(m.ID, m.Epoch)
	if err != nil {
		return false, err
	}
	last, _, err := c.lastRow(m.ID)
	if err != nil || last == nil {
		return false, err
	}
	came, err := c.arrival(m.ID, last)
	if err != nil {
		return false, err
	}
	s := sight{event: came.row.Event, arrived: came.row.Sequence, run: run}
	return s.cameBack(), nil
}
