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
	"github.com/pawl-dev/pawl/internal/inspect"
	"github.com/pawl-dev/pawl/lifecycle"
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
	case inspect.TimedOut(v):
		return codeTimedOut
	}
	return codeFailed
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
	lines, printed := inspect.LastWords(ctx, cl, id, step)
	for _, l := range lines {
		fmt.Fprintf(a.stderr, "  | %s\n", console.Printable(strings.TrimRight(l, "\r")))
	}
	if printed {
		console.Say(a.stderr, "hint", fmt.Sprintf("see all that it printed with: pawl job logs %s %s%s", v.ID, console.Shell(step), a.given))
	}
}
