package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/internal/inspect"
	"github.com/pawl-dev/pawl/internal/sleep"
	"github.com/pawl-dev/pawl/lifecycle"
)

const watchLong = `Watch a job until it has ended, or without a JOB the jobs of the workspace until the command
is interrupted (exit code 0).

A job is shown as by "pawl submit --wait": its progress, then its output or why it failed, and
the exit code is that of "pawl run". Interrupting the command does not stop the job (exit code
130). The jobs of a workspace are a table that is redrawn: those that have not ended, newest
first, and those that have ended since. Where stdout is no terminal, each change is a line.

With -o json each line is a job as it was after a change: in full for a JOB, otherwise without
its steps. Changes in quick succession are one.

If the server or the database is out of reach, the command says so and goes on when it is back.
For each single move see "pawl events".`

func newWatch(a *app) *cobra.Command {
	q, form := pawl.JobQuery{}, formText
	c := &cobra.Command{
		Use: "watch [JOB]", Short: "Watch a job, or the jobs of the workspace", Long: watchLong,
		Example: "  pawl watch last\n  pawl watch\n  pawl watch --workflow nightly -o json",
		Args:    want(0, 1, "one JOB"), ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := oneOf("output", form, formText, formJSON); err != nil {
				return err
			}
			if err := inRange("--limit", q.Limit, 1, 1000); err != nil {
				return err
			}
			if len(args) == 0 {
				q.Workspace = a.workspace
				return a.with(c.Context(), func(ctx context.Context, cl *client.Client) error { return a.watchJobs(ctx, cl, q, form) })
			}
			for _, name := range []string{"workflow", "limit"} {
				if c.Flags().Changed(name) {
					return usage("", "--%s goes without a JOB", name)
				}
			}
			return a.onJob(func(ctx context.Context, cl *client.Client, id pawl.ID, _ []string) error {
				return a.watchJob(ctx, cl, id, form)
			})(c, args)
		},
	}
	c.Flags().StringVar(&q.Workflow, "workflow", "", "only jobs of this workflow")
	c.Flags().IntVar(&q.Limit, "limit", 20, "how many jobs to show at most, 1 to 1000")
	c.Flags().StringVarP(&form, "output", "o", formText, "text: for people; json: the job on a line, after each change")
	return c
}

// watchJob shows a job until it has ended.
func (a *app) watchJob(ctx context.Context, cl *client.Client, id pawl.ID, form string) error {
	if form == formText {
		v, err := a.followed(ctx, cl, id, a.follower(shape{form: form}), 0)
		if err != nil {
			return err
		}
		return a.conclude(ctx, cl, v, shape{form: form})
	}
	l := a.lines(form)
	v, err := a.followed(ctx, cl, id, l, 0)
	if err = errors.Join(err, l.err); err != nil || v.Status == lifecycle.JobCompleted {
		return err
	}
	return exit{outcome(v)}
}

// followed shows a job until it has ended, and goes on after it was out of reach for at most that
// long; 0 is no bound.
func (a *app) followed(ctx context.Context, cl *client.Client, id pawl.ID, f console.Follower, most time.Duration) (v *pawl.JobView, err error) {
	defer func() {
		f.Close()
		if durable.Gone(ctx) == nil && (ctx.Err() != nil || pawl.KindOf(err) == pawl.Unavailable) {
			console.Say(a.stderr, "hint", fmt.Sprintf("the job continues; see it with: pawl job show %s%s", id.Public(pawl.JobPrefix), a.given))
		}
		if ctx.Err() != nil {
			err = exit{codeInterrupted}
		}
	}()
	p := &patience{app: a, most: most}
	for {
		v, err = inspect.Follow(ctx, cl, id, func(v *pawl.JobView) {
			p.reached()
			f.Show(v)
		})
		if !p.wait(ctx, err) {
			return v, err
		}
	}
}

// A patience waits for what is out of reach, and says so once.
type patience struct {
	*app
	most  time.Duration // how long it waits; 0: there is no bound
	since time.Time     // when it was out of reach first
	pause time.Duration // the last one; 0: it is in reach
}

const firstPause, maxPause = 200 * time.Millisecond, 5 * time.Second

func (p *patience) reached() {
	if p.pause > 0 {
		fmt.Fprintln(p.logs, "it is in reach again")
	}
	p.pause = 0
}

// wait reports whether it is worth another try, some time later.
func (p *patience) wait(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil || pawl.KindOf(err) != pawl.Unavailable {
		return false
	}
	if p.pause == 0 {
		p.since = time.Now()
		bound := ""
		if p.most > 0 {
			bound = fmt.Sprintf(", for %s at most", p.most)
		}
		fmt.Fprintf(p.logs, "%v; trying again until it is back%s\n", err, bound)
	}
	if p.most > 0 && time.Since(p.since) > p.most {
		return false
	}
	p.pause = min(max(2*p.pause, firstPause), maxPause)
	return sleep.For(ctx, p.pause)
}

// jobLines writes a line about each job, if it is another than the last one about it.
type jobLines struct {
	w    io.Writer
	line func(*pawl.JobView) (string, error)
	last map[string]string // by id
	err  error             // the first one
}

func (l *jobLines) Since(*pawl.JobView) {}
func (l *jobLines) Close()              {}

func (l *jobLines) Show(v *pawl.JobView) {
	if l.err != nil {
		return
	}
	var line string
	if line, l.err = l.line(v); l.err == nil && line != l.last[v.ID] {
		l.last[v.ID] = line
		_, l.err = fmt.Fprintln(l.w, line)
	}
}

// lines returns the lines about jobs in a form.
func (a *app) lines(form string) *jobLines {
	l := &jobLines{w: a.stdout, line: jsonLine[*pawl.JobView], last: map[string]string{}}
	if form == formText {
		l.line = func(v *pawl.JobView) (string, error) { return console.JobLine(v, a.outZone()), nil }
	}
	return l
}

func jsonLine[T any](v T) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}
