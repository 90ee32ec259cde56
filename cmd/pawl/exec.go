package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/files"
	"github.com/pawl-dev/pawl/internal/privatejob"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

const execLong = `Run one command as a durable job: with a timeout, retries and an audit trail.

The output of the command goes to stdout and stderr as it is printed, and is stored:
"pawl job logs" shows it. The command runs without a shell, in the environment of pawl
itself. That environment is not stored; the variables of --env are.

The command reads the standard input of pawl if that is a pipe or a file. The input is
not stored, so a retry reads only what earlier attempts have left. If standard input is
a terminal, the command gets an empty one.

--timeout limits all attempts together; by default there is no limit. --retry is how
often a failed command is run again, 0 by default: after 1 s, 2 s, 4 s and so on up to
60 s, with jitter. If pawl is killed, the job stays unfinished: end it with "pawl job
cancel".

The exit code is that of the command, or 128 plus the number of the signal that ended
it; 1 if the command cannot be run, 124 if --timeout has passed, 130 if pawl is
interrupted (the job is then canceled). On failure the id of the job is printed on
stderr.`

type execFlags struct {
	timeout time.Duration
	retry   int
	env     []string
	dir     string
}

func newExec(a *app) *cobra.Command {
	var f execFlags
	c := &cobra.Command{
		Use: "exec [flags] -- COMMAND [ARG...]", Short: "Run one command as a job", Long: execLong,
		Example: "  pawl exec --timeout 10m --retry 3 -- rsync -a data/ backup:data/",
		Args:    want(1, -1, "a COMMAND"),
		RunE:    func(c *cobra.Command, args []string) error { return a.exec(c.Context(), args, &f) },
	}
	c.Flags().SetInterspersed(false)
	c.Flags().DurationVar(&f.timeout, "timeout", 0, "how long the job may take, such as 30s or 1h; default no limit")
	c.Flags().IntVar(&f.retry, "retry", 0, "how often a failed command is run again")
	c.Flags().StringArrayVar(&f.env, "env", nil, "a variable of the command, as KEY=VALUE; may be repeated")
	c.Flags().StringVar(&f.dir, "dir", "", "the folder in which the command starts; default the current one")
	return c
}

func (a *app) exec(ctx context.Context, argv []string, f *execFlags) error {
	def, err := f.definition(argv)
	if err != nil {
		return err
	}
	sub := client.Submission{Workflow: def, Private: true, Description: strings.Join(argv, " ")}
	if sub.Dir, err = f.folder(); err != nil {
		return err
	}
	return a.onLedger(ctx, false, func(ctx context.Context, l *ledger) error {
		done, err := submitOne(ctx, l.client, sub)
		if err != nil {
			return err
		}
		s := a.session(l, done.ID, 1, false)
		s.Worker.Handlers = a.handlers(worker.CommandConfig{Pass: []string{"*"}, Stdin: a.input()})
		return a.settled(ctx, s)
	})
}

// input returns the stdin of the command, or nil. It is never a terminal, which would stop the
// command because that is not in the terminal's foreground.
func (a *app) input() *os.File {
	if f, ok := a.stdin.(*os.File); ok && !term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// maxRetries is one less than the attempts that a step may have.
const maxRetries = 999

// definition builds the workflow of the command.
func (f *execFlags) definition(argv []string) (*workflow.Definition, error) {
	if f.timeout < 0 {
		return nil, usage("", "--timeout %s: want more than 0", f.timeout)
	}
	if err := inRange("--retry", f.retry, 0, maxRetries); err != nil {
		return nil, err
	}
	for i, arg := range argv {
		if !utf8.ValidString(arg) {
			return nil, usage("", "COMMAND[%d]: %q: want text in UTF-8", i, arg)
		}
	}
	env := map[string]string{}
	for _, pair := range f.env {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, usage("write --env LANG=C", "--env %q: want KEY=VALUE", pair)
		}
		if !utf8.ValidString(pair) {
			return nil, usage("", "--env %q: want text in UTF-8", pair)
		}
		env[key] = value
	}
	c := privatejob.Command{Argv: argv, Env: env, Timeout: f.timeout, Retries: f.retry}
	def, err := c.Definition()
	return def, asTyped(err)
}

// typed maps a part of the workflow to what the user typed for it.
var typed = strings.NewReplacer("steps[0].command", "COMMAND", "steps[0].env.", "--env ", "steps[0].env", "--env", "timeout", "--timeout")

// asTyped names mistakes as the user typed them: there is no workflow file to read.
func asTyped(err error) error {
	var problems workflow.Problems
	if !errors.As(err, &problems) {
		return err
	}
	named := slices.Clone(problems)
	for i := range named {
		named[i].Key = typed.Replace(named[i].Key)
	}
	return named
}

func (f *execFlags) folder() (string, error) {
	dir, err := files.Folder(f.dir)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", pawl.Errorf(pawl.NotFound, "--dir: there is no folder %s", dir)
	}
	return dir, nil
}

// pass passes the output of the command on unchanged.
func (a *app) pass(_ *worker.Task, stream string, p []byte) {
	w := a.stdout
	switch stream {
	case worker.Stderr:
		w = a.stderr
	case worker.Notes:
		return
	}
	// A closed pipe does not stop the command.
	_, _ = w.Write(p)
}

// settled runs the job to its end. It cancels an interrupted job, since nothing could continue
// it.
func (a *app) settled(ctx context.Context, s *privatejob.Session) error {
	s.Worker.Tee = a.pass
	v, err := a.ran(ctx, s, console.Silent{})
	public := s.ID.Public(pawl.JobPrefix)
	switch {
	case ctx.Err() != nil:
		_, err := s.Client.Jobs.Cancel(context.WithoutCancel(ctx), s.ID, pawl.Change{Actor: a.actor(), Reason: "interrupted"})
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stderr, "interrupted: job %s is canceled\n", public)
		return exit{codeInterrupted}
	case err != nil:
		return err
	case v.Status != lifecycle.JobCompleted:
		console.Say(a.stderr, "error", fmt.Sprintf("job %s %s: %s", public, strings.ToLower(string(v.Status)), console.Message(v.Error)))
		if code, ok := privatejob.CommandCode(v); ok {
			return exit{code}
		}
		return exit{outcome(v)}
	}
	return nil
}
