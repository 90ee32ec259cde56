package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// A shape is how a job is shown: the flag -o, and --verbose.
type shape struct {
	form    string
	verbose bool
}

// Values of -o.
const (
	formText  = "text"
	formJSON  = "json"
	formQuiet = "quiet"
)

func (s *shape) bind(c *cobra.Command) {
	c.Flags().StringVarP(&s.form, "output", "o", formText, "text: progress, then the output; json: the job as JSON; quiet: the output alone")
	c.Flags().BoolVar(&s.verbose, "verbose", false, "show what steps print, as they print it")
}

func (s *shape) check() error { return oneOf("output", s.form, formText, formJSON, formQuiet) }

// follower returns who shows a job in this shape.
func (a *app) follower(s shape) console.Follower {
	switch {
	case s.form == formQuiet:
		return console.Silent{}
	case a.screen.Terminal && !s.verbose:
		return console.NewDrawing(console.NewLive(a.stderr, a.screen, console.Frame{Paint: a.colours(), Given: a.given, Zone: a.talkZone()}), a.logs)
	}
	t := console.NewTeller(a.stderr, time.Now)
	t.Given, t.Zone = a.given, a.talkZone()
	return t
}

// maxRest bounds how long a job of very many steps is not looked at.
const maxRest = time.Second

// follow has a job shown until it has ended, and returns it. A job of very many
// steps is looked at less often than it changes.
func follow(ctx context.Context, cl *client.Client, id pawl.ID, show func(*pawl.JobView)) (*pawl.JobView, error) {
	var last *pawl.JobView
	err := cl.Jobs.Watch(ctx, id, func() (bool, error) {
		began := time.Now()
		v, err := cl.Jobs.Get(ctx, id)
		if err != nil {
			return false, err
		}
		last = v
		show(v)
		if lifecycle.Job.Ended(v.Status) {
			return false, nil
		}
		return rest(ctx, min(4*time.Since(began), maxRest)), ctx.Err()
	})
	return last, err
}

// rest waits, and reports whether there is a reason to go on.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// conclude shows a job that has ended: its output or the whole of it on stdout,
// and why it failed on stderr. The error carries the exit code.
func (a *app) conclude(ctx context.Context, cl *client.Client, v *pawl.JobView, s shape) error {
	switch {
	case s.form == formJSON:
		if err := console.JSON(a.stdout, v); err != nil {
			return err
		}
	case v.Status == lifecycle.JobCompleted:
		if err := console.Output(a.stdout, v.Output); err != nil {
			return err
		}
	}
	if v.Status == lifecycle.JobCompleted {
		return nil
	}
	a.blame(ctx, cl, v)
	return exit{outcome(v)}
}

// outcome returns the exit code that a job's end stands for.
func outcome(v *pawl.JobView) int {
	switch {
	case v.Status == lifecycle.JobCompleted:
		return codeOK
	case timedOut(v):
		return codeTimedOut
	}
	return codeFailed
}

// timedOut reports whether the job was canceled by its own deadline, and not by
// somebody who says so.
func timedOut(v *pawl.JobView) bool {
	if v.Status != lifecycle.JobCanceled {
		return false
	}
	for _, t := range v.StateHistory {
		if t.Actor == "engine" && strings.HasPrefix(t.Reason, "timeout:") {
			return true
		}
	}
	return false
}

// blame says why a job did not complete, with the last words of the step that
// failed.
func (a *app) blame(ctx context.Context, cl *client.Client, v *pawl.JobView) {
	why := strings.ToLower(string(v.Status))
	step := ""
	if f := v.Error; f != nil {
		if step = f.Step; step != "" && !strings.HasPrefix(f.Message, "step "+step+":") {
			why += ": step " + step
		}
		if f.Message != why { // "canceled" without a reason is its own
			why += ": " + f.Text()
		}
	}
	console.Say(a.stderr, "error", "job "+v.ID+" "+why)
	if step == "" {
		return
	}
	if command := v.Error.Resolve(v.ID); command != "" {
		console.Say(a.stderr, "hint", "give its output yourself, and go on from there: "+command+a.given)
	}
	id, err := pawl.ParseID(pawl.JobPrefix, v.ID)
	if err != nil {
		return
	}
	lines, printed := lastWords(ctx, cl, id, step)
	for _, l := range lines {
		fmt.Fprintf(a.stderr, "  | %s\n", console.Printable(strings.TrimRight(l, "\r")))
	}
	if printed {
		console.Say(a.stderr, "hint", fmt.Sprintf("see all that it printed with: pawl job logs %s %s%s", v.ID, console.Shell(step), a.given))
	}
}

// maxLastWords bounds the lines of stderr that are shown of a failed step.
const maxLastWords = 10

// maxLastBytes bounds the bytes of stderr that these are taken of.
const maxLastBytes = 64 << 10

// lastWords returns the last lines of what the last attempt of a step wrote to its standard
// error, and whether the step has printed anything.
func lastWords(ctx context.Context, cl *client.Client, id pawl.ID, step string) (lines []string, printed bool) {
	claim, last := 0, "" // of the last attempt: claims rise
	err := cl.Inspect.Logs(ctx, id, step, func(l pawl.LogLine) error {
		printed = true
		if l.Claim > claim {
			claim, last = l.Claim, ""
		}
		if l.Stream == worker.Stderr {
			last += l.Text
			last = last[max(0, len(last)-maxLastBytes):]
		}
		return nil
	})
	text := strings.TrimRight(last, "\n")
	if err != nil || text == "" { // of an error: why the job has failed matters more
		return nil, printed
	}
	lines = strings.Split(text, "\n")
	return lines[max(0, len(lines)-maxLastWords):], printed
}
