package crewstep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/crew"
	"github.com/pawl-dev/pawl/internal/sleep"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// A Config says where a crew is, and how its programs are started.
type Config struct {
	State  string                                        // the folder below which worktrees are
	Runner func(c *crew.Crew, id string) (argv []string) // the command that runs the program of a member, and calls crew.Ready
}

// An input is the input of a step.
type input struct {
	Member      string `json:"member"`
	Task        string `json:"task"`
	Prompt      string `json:"prompt"`
	Target      string `json:"target"`
	MaxAttempts int    `json:"max_attempts"`
}

// An Output is the output of a step.
type Output struct {
	Member  string `json:"member"`
	Task    string `json:"task"`
	Target  string `json:"target"`
	Branch  string `json:"branch"`
	Commit  string `json:"commit"` // that has landed
	Attempt int    `json:"attempt"`
}

const (
	actor     = "workflow"
	lookEvery = time.Second      // what others have done
	busyPause = 30 * time.Second // while the member does something else: the step takes no place of its worker
	class     = "crew_failed"
)

// errBusy is returned by a step whose member does something else.
var errBusy = errors.New("the member is busy")

// Handler returns the handler of such steps.
func Handler(c Config) worker.Handler {
	return worker.Func(func(ctx context.Context, t *worker.Task) (any, error) {
		s, err := c.open(ctx, t)
		if err != nil {
			return nil, failure(err)
		}
		out, err := s.run(ctx)
		switch {
		case errors.Is(err, errBusy):
			return nil, worker.Snooze(busyPause)
		case err != nil && ctx.Err() != nil:
			return nil, failure(s.leave(ctx))
		case err != nil:
			return nil, failure(err)
		}
		return out, nil
	})
}

// failure returns the failure of a step. It is permanent unless it may pass: the member has had its attempts.
func failure(err error) error {
	kind := pawl.KindOf(err)
	return &pawl.Failure{Class: class, Message: err.Error(), Permanent: kind != pawl.Unavailable && kind != pawl.Internal}
}

// A step is one attempt of a step of a workflow.
type step struct {
	Config
	*crew.Crew
	input
	log   *worker.Log
	id    string // of the step
	by    crew.Caller
	noted string // last
}

func (c Config) open(ctx context.Context, t *worker.Task) (*step, error) {
	s := &step{Config: c, log: t.Log, id: t.StepID}
	if err := json.Unmarshal(t.Work.With, &s.input); err != nil {
		return nil, err
	}
	s.by = crew.Caller{Actor: actor, Reason: "step " + t.StepID, Request: s.id}
	dir := t.Work.Dir
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(t.BaseDir, dir)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: "there is no folder " + dir + ", where the repository of the crew is looked for", Hint: "dir is relative to the folder of the job; name an absolute one, or submit the job with --dir"}
	}
	s.Crew, err = crew.Find(ctx, dir, c.State)
	return s, err
}

// run has the task done.
func (s *step) run(ctx context.Context) (*Output, error) {
	for {
		m, a, err := s.assigned(ctx)
		if err != nil {
			return nil, err
		}
		if a != nil {
			if out, err := s.advance(ctx, m, a); out != nil || err != nil {
				return out, err
			}
		}
		if !sleep.For(ctx, lookEvery) {
			return nil, ctx.Err()
		}
	}
}

// assigned returns the member and its assignment if it is the one of this step, and makes it so if the
// member is free.
func (s *step) assigned(ctx context.Context) (*crew.Member, *crew.Assignment, error) {
	m, err := s.Settle(ctx, s.Member)
	if err != nil {
		return nil, nil, err
	}
	a, epoch, err := s.AssignmentOf(m, s.id)
	switch {
	case err != nil:
		return nil, nil, err
	case a != nil && epoch == m.Epoch:
		return m, a, nil
	case a != nil: // it is over, and the member has gone on
		return &crew.Member{ID: m.ID, State: lifecycle.MemberIdle, Epoch: epoch}, a, nil
	}
	by := s.by
	by.Version = m.Version
	switch m.State {
	case lifecycle.MemberIdle:
		m, err = s.assign(ctx, by)
	case lifecycle.MemberCompleted:
		m, err = s.Rest(ctx, s.Member, by)
	case lifecycle.MemberFailed:
		if string(m.Task) != s.Task {
			return nil, nil, &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("member %s has failed at %s", m.ID, m.Task), Hint: "pawl crew reset " + m.ID + " makes it free"}
		}
		m, err = s.Rest(ctx, s.Member, by) // an earlier job has failed with it
	default:
		s.note("waiting for member %s, which works on %s", m.ID, m.Task)
		return nil, nil, errBusy
	}
	if pawl.KindOf(err) == pawl.Conflict { // somebody else was faster, or has the task
		s.note("%v", err)
		return nil, nil, errBusy
	}
	return m, nil, err
}

func (s *step) assign(ctx context.Context, by crew.Caller) (m *crew.Member, err error) {
	target := s.Target
	if target == "" {
		if target, err = s.Repo.CurrentBranch(ctx); err != nil {
			return nil, err
		}
	}
	return s.Assign(ctx, s.Member, crew.Task{ID: s.Task, Target: target, Prompt: s.Prompt, MaxAttempts: s.MaxAttempts}, by)
}

// advance does what comes next for the task of this step. It returns the output once the work has landed.
func (s *step) advance(ctx context.Context, m *crew.Member, a *crew.Assignment) (*Output, error) {
	s.noteState(m)
	switch m.State {
	case lifecycle.MemberCompleted, lifecycle.MemberIdle:
		return s.landed(ctx, m, a)
	case lifecycle.MemberFailed:
		return nil, pawl.Errorf(pawl.Conflict, "member %s: %s", m.ID, m.LastError)
	case lifecycle.MemberAssigned:
		return nil, s.begin(ctx, m, a)
	}
	v := &crew.Advance{Crew: s.Crew, Start: s.start, Land: true, By: s.by}
	_, err := v.Member(ctx, m.ID)
	return nil, s.passing(ctx, err)
}

// note notes something in the log of the step, unless it was the last.
func (s *step) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); text != s.noted {
		s.noted = text
		s.log.Notef("%s", text)
	}
}

// noteState notes the state of the member, and what keeps its work from landing.
func (s *step) noteState(m *crew.Member) {
	text := fmt.Sprintf("member %s is %s", m.ID, m.State)
	if m.LastError != "" {
		text += ": " + string(m.LastError)
	}
	if checks, err := s.Checked(m); err == nil && checks.Err() != nil && m.State == lifecycle.MemberInReview {
		text += ": " + checks.Err().Error()
	}
	if _, err := s.AgentOf(m.ID); pawl.KindOf(err) == pawl.Invalid && (m.State == lifecycle.MemberAssigned || m.State == lifecycle.MemberWorking) {
		text += "; it has no program of its own, so somebody has to start it: pawl crew start " + m.ID
	}
	s.note("%s", text)
}

// begin starts the program of a member that has one. Others start those of the rest.
func (s *step) begin(ctx context.Context, m *crew.Member, a *crew.Assignment) error {
	if !a.Before.IsZero() && a.Before.Time().After(s.Now()) {
		return nil
	}
	run, err := s.RunOf(m.ID, m.Epoch)
	if err != nil || run.Alive {
		return err
	}
	if _, err := s.AgentOf(m.ID); pawl.KindOf(err) == pawl.Invalid {
		return nil
	}
	return s.passing(ctx, s.start(ctx, m.ID))
}

func (s *step) start(ctx context.Context, id string) error {
	_, err := s.Launch(ctx, id, s.Runner(s.Crew, id))
	return err
}

// passing notes an error that may pass: the step goes on.
func (s *step) passing(ctx context.Context, err error) error {
	var loss *crew.LossError
	if kind := pawl.KindOf(err); err == nil || ctx.Err() != nil || kind != pawl.Unavailable && kind != pawl.Conflict && !errors.As(err, &loss) {
		return err
	}
	s.note("%v", err)
	return nil
}

// landed returns the output, and makes the member free for another task.
func (s *step) landed(ctx context.Context, m *crew.Member, a *crew.Assignment) (*Output, error) {
	commit, err := s.LandedAs(ctx, m)
	if err != nil {
		return nil, err
	}
	if commit == "" {
		return nil, pawl.Errorf(pawl.Conflict, "member %s was reset before its work had landed", m.ID)
	}
	if m.State == lifecycle.MemberCompleted {
		by := s.by
		by.Version = m.Version
		if _, err := s.Rest(ctx, m.ID, by); err != nil && pawl.KindOf(err) != pawl.Conflict {
			return nil, err
		}
	}
	return &Output{Member: m.ID, Task: a.Task, Target: a.Target, Branch: a.Branch, Commit: commit, Attempt: a.Attempt}, nil
}

// leave ends the work if the step was canceled or has timed out, and returns once nothing of it runs any more,
// which takes 8 s at most. The engine waits 10 s for a canceled step. Otherwise the work goes on, and another
// worker finds it.
func (s *step) leave(ctx context.Context) error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, worker.ErrCanceled) && !errors.Is(cause, worker.ErrTimeout) {
		return cause
	}
	ctx = context.WithoutCancel(ctx)
	m, err := s.Settle(ctx, s.Member)
	if err != nil {
		return errors.Join(cause, err)
	}
	a, err := s.Assignment(m)
	if err != nil || a.Request != s.id {
		return cause
	}
	by := s.by
	by.Epoch, by.Reason = m.Epoch, fmt.Sprintf("step %s: %v", s.id, cause)
	if _, err := s.Cancel(ctx, m.ID, by); err != nil && pawl.KindOf(err) != pawl.Conflict {
		return errors.Join(cause, err)
	}
	if err := s.Ended(ctx, m); err != nil {
		return errors.Join(cause, err)
	}
	return cause
}
