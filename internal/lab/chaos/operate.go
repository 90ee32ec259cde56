package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	enginelink "github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/sleep"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// final reports whether an error is a reply, and not a failure on the way.
func final(err error) bool {
	switch pawl.KindOf(err) {
	case pawl.Invalid, pawl.NotFound, pawl.Conflict, pawl.Refused:
		return !errors.Is(err, store.ErrStale) && !errors.Is(err, enginelink.ErrKeyHeld)
	}
	return false
}

// ask makes the harness's engine do something, and retries while the database is away. A
// refusal because the action is no longer possible is fine: jobs end while operators think.
func (r *run) ask(ctx context.Context, what string, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, r.config.patience)
	defer cancel()
	err := eventually(ctx, do)
	if err == nil || pawl.KindOf(err) == pawl.Conflict {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// submit submits jobs. Each has a request id, so that no job is created twice, even if the
// reply is lost.
func (r *run) submit(ctx context.Context, names []string) error {
	for _, name := range names {
		n, at := r.submitted, time.Now()
		r.submitted++
		s := shapeOf(name)
		sub, err := s.submission(r.dir, fmt.Sprintf("chaos-%d", n), n)
		if err != nil {
			return err
		}
		err = r.ask(ctx, "submit "+name, func() error {
			done, err := r.engine.Submit(ctx, sub)
			if err != nil {
				return err
			}
			if done[0].Err != nil {
				return done[0].Err
			}
			r.add(&job{shape: s, key: n % keys, id: done[0].ID, at: at})
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *run) add(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs = append(r.jobs, j)
}

// pick returns a job that has ended, or one that has not.
func (r *run) pick(ctx context.Context, f fault, ended bool) *job {
	r.mu.Lock()
	jobs := append([]*job{}, r.jobs...)
	r.mu.Unlock()
	var found []*job
	for _, j := range jobs {
		record, err := r.store.Job(ctx, j.id.JobKey())
		if err == nil && lifecycle.Job.Ended(record.State) == ended && (!ended || record.State != lifecycle.JobCompleted) {
			found = append(found, j)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[f.Pick%len(found)]
}

// operate performs an operator's actions.
func (r *run) operate(ctx context.Context, f fault) error {
	j := r.pick(ctx, f, f.Kind == retryVerb)
	if j == nil {
		return nil
	}
	r.mu.Lock()
	r.operated++
	change := pawl.Change{Actor: actor, Reason: "at random", RequestID: fmt.Sprintf("verb-%d", r.operated)}
	j.canceled = j.canceled || f.Kind == cancelVerb
	r.touched[j.id.JobKey()] = true
	r.mu.Unlock()
	o := r.operator()
	switch f.Kind {
	case cancelVerb:
		return r.ask(ctx, "cancel", func() error { return only(o.Cancel(ctx, j.id, pawl.Change{Actor: actor})) })
	case pauseVerb:
		err := r.ask(ctx, "pause", func() error { return only(o.PauseJob(ctx, j.id, change)) })
		sleep.For(ctx, f.For)
		change.RequestID += "-resume"
		return errors.Join(err, r.ask(ctx, "resume", func() error { return only(o.ResumeJob(ctx, j.id, change)) }))
	}
	return r.ask(ctx, "retry", func() error {
		done, err := o.RetryJob(ctx, j.id, pawl.Retry{}, change)
		if err != nil {
			return err
		}
		id, err := pawl.ParseID(pawl.JobPrefix, done.ID)
		if err == nil {
			r.add(&job{shape: j.shape, key: j.key, id: id, retried: true})
		}
		return err
	})
}

// only returns the error of a verb.
func only(_ pawl.Receipt, err error) error { return err }

// An operator acts on jobs: by an engine, or by the commands of the binary.
type operator interface {
	Cancel(ctx context.Context, id pawl.ID, n pawl.Change) (pawl.Receipt, error)
	PauseJob(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error)
	ResumeJob(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error)
	RetryJob(ctx context.Context, id pawl.ID, r pawl.Retry, c pawl.Change) (pawl.Receipt, error)
}

// operator returns the operator of the run. On SQLite a command is a further process on the
// file, which may start and end at any moment.
func (r *run) operator() operator {
	if r.config.kind == "sqlite" {
		return commands{r.cluster}
	}
	return r.engine
}

// answer gives jobs what they wait for from outside, until ctx ends.
func (r *run) answer(ctx context.Context) error {
	for sleep.For(ctx, 200*time.Millisecond) {
		r.mu.Lock()
		jobs := append([]*job{}, r.jobs...)
		r.mu.Unlock()
		for _, j := range jobs {
			if j.answered {
				continue
			}
			if err := r.answerOne(ctx, j); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) answerOne(ctx context.Context, j *job) error {
	j.asked++ // a refusal belongs to its request id: what may succeed later has another
	change := pawl.Change{Actor: actor, RequestID: fmt.Sprintf("answer-%s-%d", j.id.Public(pawl.JobPrefix), j.asked)}
	switch j.shape.name {
	case "signalled":
		j.answered = true
		return r.ask(ctx, "signal", func() error { return only(r.engine.Signal(ctx, j.id, "news", []byte(`"news"`), change)) })
	case "approved":
		return r.ask(ctx, "approve", func() error {
			_, err := r.engine.Approve(ctx, j.id, "gate", map[string]any{"note": "yes"}, change)
			j.answered = err == nil
			return err
		})
	}
	j.answered = true
	return nil
}
