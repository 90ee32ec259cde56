package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/files"
	"github.com/pawl-dev/pawl/internal/inspect"
	"github.com/pawl-dev/pawl/internal/privatejob"
	"github.com/pawl-dev/pawl/internal/signals"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

const runLong = `Run a workflow file to its end, in this process, as a durable job.

The id of the job is printed first, on stderr, then its progress; its output is printed
on stdout. On a terminal the progress is a tree that is updated in place (NO_COLOR
removes the colours). Elsewhere each change is a line; a fan-out of more than 10 prints
a line for each tenth that is done, and for each failure and retry.

--resume continues the newest unfinished job of the same workspace, file and inputs.
--resume=JOB continues that job, with the inputs that it has. If the process that ran
it has died, the job continues at once; if that process is alive, the exit code is 5.
The file must not have changed. If there is no job to continue, the exit code is 3.

Ctrl-C stops the running steps and leaves the job unfinished; --resume continues it. A
second Ctrl-C exits at once.

--workers is how many steps run at once, 10 by default; the limit of the workflow
applies too.

Exit codes: 0 the job completed, 1 it failed or was canceled, 124 it timed out,
130 interrupted.`

const runExample = `  pawl run nightly.yaml -i day=2026-01-31
  pawl run nightly.yaml --inputs @inputs.json -o json
  pawl run nightly.yaml -i day=2026-01-31 --resume`

// newest is the value of --resume without a job.
const newest = "newest"

type runFlags struct {
	shape
	inputs      inputFlags
	resume      string
	workers     int
	requestID   string
	description string
}

func newRun(a *app) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use: "run FILE", Short: "Run a workflow to its end", Long: runLong, Example: runExample,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 2 && f.resume == newest {
				return usage("write --resume="+args[1], "pawl run takes one FILE, and got %q too", args[1])
			}
			return want(1, 1, "a FILE")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("resume") && f.resume == "" {
				return usage("--resume alone continues the newest job", "--resume= names no job")
			}
			return a.run(c.Context(), args[0], &f)
		},
	}
	f.inputs.bind(c)
	f.shape.bind(c)
	c.Flags().StringVar(&f.resume, "resume", "", "continue the newest unfinished job of this file and inputs, or =JOB")
	c.Flags().Lookup("resume").NoOptDefVal = newest
	c.Flags().IntVar(&f.workers, "workers", 10, "steps that run at once, 1 to 1000")
	bindRequestID(c, &f.requestID, "job")
	c.Flags().StringVar(&f.description, "description", "", "what the job is for")
	return c
}

func (f *runFlags) check() error {
	if err := inRange("--workers", f.workers, 1, 1000); err != nil {
		return err
	}
	if f.resume != "" && (f.requestID != "" || f.description != "") {
		return usage("leave them out: the job has its own", "--resume takes neither --request-id nor --description")
	}
	return f.shape.check()
}

func (a *app) run(ctx context.Context, path string, f *runFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	def, err := runnable(path)
	if err != nil {
		return err
	}
	if err := a.served(path, def); err != nil {
		return err
	}
	return a.onLedger(ctx, false, func(ctx context.Context, l *ledger) error {
		r := &privatejob.Search{Store: l.store, Client: l.client, Workspace: a.workspace, File: path, Definition: def, Given: f.inputs.given(),
			Inputs: func() (json.RawMessage, error) { return f.inputs.of(def) }}
		id, resumed, err := a.choose(ctx, r, f)
		if err != nil {
			return err
		}
		a.announce(id, f.shape)
		return a.follow(ctx, a.session(l, id, f.workers, resumed), path, f.shape)
	})
}

// served refuses a workflow that would wait forever because a step needs a handler that this
// program does not have.
func (a *app) served(path string, def *workflow.Definition) error {
	known := a.handlers(worker.CommandConfig{})
	step, handler, file := privatejob.Unserved(path, def, func(handler string) bool { return known[handler] != nil })
	if step == "" {
		return nil
	}
	return usage("submit it with pawl submit to a worker that has the handler", "%s: step %s needs the handler %s, which pawl run does not have", file, step, handler)
}

// choose finds the job to continue, or creates one.
func (a *app) choose(ctx context.Context, r *privatejob.Search, f *runFlags) (id pawl.ID, resumed bool, err error) {
	switch f.resume {
	case "":
		return a.start(ctx, r, f)
	case newest:
		id, err = r.Newest(ctx)
		err = a.unfit(err)
	default:
		if id, err = a.jobOf(ctx, r.Client, f.resume); err == nil {
			err = a.unfit(r.Fits(ctx, id))
		}
	}
	return id, true, err
}

// unfit adds a remedy to the error for a job that cannot be continued.
func (a *app) unfit(err error) error {
	var no *privatejob.MismatchError
	if !errors.As(err, &no) || console.Hint(err) != "" {
		return err
	}
	return hinted(err, map[privatejob.Mismatch]string{
		privatejob.IsEnded:         "leave --resume out to start another job",
		privatejob.IsSubmitted:     "run a worker for it with: pawl dev" + a.given,
		privatejob.OtherWorkspace:  "name it with --workspace " + no.Workspace,
		privatejob.OtherWorkflow:   "give the file that it was created from",
		privatejob.OtherDefinition: "restore the old file, for example from git, or leave --resume out to start another job",
		privatejob.OtherInputs:     "leave the inputs out to continue with those that it has",
		privatejob.NoneUnfinished:  "leave --resume out to start one",
	}[no.Why])
}

// start submits a private job. A job that the same request id has created before is continued.
func (a *app) start(ctx context.Context, r *privatejob.Search, f *runFlags) (id pawl.ID, resumed bool, err error) {
	inputs, err := r.Inputs()
	if err != nil {
		return id, false, err
	}
	sub := client.Submission{Workflow: r.Definition, Inputs: inputs, Private: true, RequestID: f.requestID, Description: f.description}
	if sub.Dir, err = files.FolderOf(r.File); err != nil {
		return id, false, err
	}
	if f.requestID == "" {
		if id, ok := r.Abandoned(ctx, inputs); ok && f.form != formQuiet {
			console.Say(a.stderr, "hint", fmt.Sprintf("job %s of this file and these inputs is unfinished; --resume continues it", id.Public(pawl.JobPrefix)))
		}
	}
	done, err := submitOne(ctx, r.Client, sub)
	return done.ID, done.Replayed, err
}

func submitOne(ctx context.Context, cl *client.Client, sub client.Submission) (pawl.Submitted, error) {
	done, err := cl.Jobs.SubmitAll(ctx, sub)
	if err != nil {
		return pawl.Submitted{}, err
	}
	return done[0], done[0].Err
}

// announce prints the id of a job before any other output about it.
func (a *app) announce(id pawl.ID, s shape) {
	if s.form != formQuiet {
		fmt.Fprintf(a.stderr, "job %s\n", id.Public(pawl.JobPrefix))
	}
}

// session returns the session that runs a private job in this process.
func (a *app) session(l *ledger, id pawl.ID, capacity int, resumed bool) *privatejob.Session {
	return &privatejob.Session{Store: l.store, Engine: l.engine, Client: l.client, ID: id, Resumed: resumed,
		Worker:   worker.Config{Workspace: a.workspace, Actor: a.actor(), Capacity: capacity, Handlers: a.handlers(worker.CommandConfig{}), Log: a.log},
		Stopping: func() { fmt.Fprintln(a.stderr, "stopping the running steps; Ctrl-C again exits at once") }}
}

// ran runs a job to its end, even if the reader of its output is gone.
func (a *app) ran(ctx context.Context, s *privatejob.Session, f privatejob.Follower) (*pawl.JobView, error) {
	defer signals.IgnoreClosedPipes()()
	v, err := s.Run(ctx, f)
	return v, terminated(err)
}

// follow runs a job, shows it, and reports how it ended.
func (a *app) follow(ctx context.Context, s *privatejob.Session, path string, shape shape) error {
	was, err := s.Client.Jobs.Get(ctx, s.ID)
	if err != nil {
		return err
	}
	if lifecycle.Job.Ended(was.Status) { // the request id belongs to a job that has already ended
		return a.conclude(ctx, s.Client, was, shape)
	}
	if shape.verbose {
		p := console.NewPrefixer(a.stderr)
		if a.screen.Terminal {
			p.Sanitize = a.sanitize
		}
		s.Worker.Tee = teeTo(p)
	}
	f := a.follower(shape)
	if s.Resumed {
		f.Since(was)
	}
	v, err := a.ran(ctx, s, f)
	if ctx.Err() != nil {
		public := s.ID.Public(pawl.JobPrefix)
		fmt.Fprintf(a.stderr, "interrupted: job %s is unfinished\n", public)
		console.Say(a.stderr, "hint", fmt.Sprintf("continue it with: pawl run %s --resume=%s%s", console.Shell(path), public, a.given))
		return exit{codeInterrupted}
	}
	if err != nil {
		return err
	}
	return a.conclude(ctx, s.Client, v, shape)
}

// teeTo shows the output of steps, each line prefixed with the step's key.
func teeTo(p *console.Prefixer) func(*worker.Task, string, []byte) {
	return func(t *worker.Task, stream string, b []byte) {
		if stream != worker.Notes {
			p.Write(t.Key, stream, t.Claim, strings.ToValidUTF8(string(b), "\uFFFD"))
		}
	}
}

// handlers are the kinds of steps that every worker of this program serves.
func (a *app) handlers(c worker.CommandConfig) map[string]worker.Handler {
	command := worker.Command(c)
	return map[string]worker.Handler{"command": command, "run": command, "http": worker.HTTP(worker.HTTPConfig{}), "crew": a.crewSteps(), "load": a.loadSteps()}
}

// A shape is how a job is shown: the flag -o, and --verbose.
type shape struct {
	form    string
	verbose bool
}

// Values of -o.
const (
	formText  = "text"
	formTable = "table" // the same as text
	formJSON  = "json"
	formYAML  = "yaml"
	formName  = "name"
	formQuiet = "quiet"
)

func (s *shape) bind(c *cobra.Command) {
	c.Flags().StringVarP(&s.form, "output", "o", formText, "text: progress, then the output; json: the job as JSON; quiet: the output alone")
	c.Flags().BoolVar(&s.verbose, "verbose", false, "show the output of steps as they print it")
}

func (s *shape) check() error { return oneOf("output", s.form, formText, formJSON, formQuiet) }

// follower returns the follower that shows a job in this shape.
func (a *app) follower(s shape) console.Follower {
	switch {
	case s.form == formQuiet:
		return console.Silent{}
	case a.screen.Terminal && !s.verbose:
		return console.NewDrawing(console.NewLive(a.stderr, a.screen, console.Frame{Paint: a.colours(), Given: a.given, Zone: a.talkZone()}), a.logs)
	}
	t := console.NewTranscript(a.stderr, time.Now)
	t.Given, t.Zone = a.given, a.talkZone()
	return t
}

// conclude shows a job that has ended: its output or the whole job on stdout, and why it
// failed on stderr. The error carries the exit code.
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
	id, _ := pawl.ParseID(pawl.JobPrefix, v.ID) // a view always has a valid id
	console.JobFailure(a.stderr, v, func(step string) ([]string, bool) { return inspect.StderrTail(ctx, cl, id, step) }, a.given)
	return exit{outcome(v)}
}

// outcome returns the exit code for the end of a job.
func outcome(v *pawl.JobView) int {
	switch {
	case v.Status == lifecycle.JobCompleted:
		return codeOK
	case inspect.TimedOut(v):
		return codeTimedOut
	}
	return codeFailed
}
