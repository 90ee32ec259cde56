package worker

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/process"
	"github.com/pawl-dev/pawl/workflow"
)

// CommandConfig is what Command needs. The zero value is usable.
type CommandConfig struct {
	// Pass names variables of this process's environment that commands get besides
	// those that the package comment lists. A name that ends in * means all names with
	// that beginning.
	Pass []string

	// Environ returns this process's environment; default os.Environ.
	Environ func() []string

	// Stdin is what commands read, each from where the one before it stopped; nil is
	// /dev/null. It is for a worker that runs one command: it is not stored, so a retry
	// gets nothing that was read before.
	Stdin *os.File

	// TempDir is where the folder of an attempt is made; default os.TempDir. What
	// killed processes left there is removed before the first attempt.
	TempDir string
}

// Command makes the Handler that runs programs and scripts. The package comment
// says how.
func Command(c CommandConfig) Handler {
	if c.Environ == nil {
		c.Environ = os.Environ
	}
	var once sync.Once
	return func(ctx context.Context, t *Task) Result {
		once.Do(func() { sweep(c.TempDir) })
		return c.run(ctx, t)
	}
}

func (c CommandConfig) run(ctx context.Context, t *Task) Result {
	if ctx.Err() != nil {
		return Result{Failure: stopped(ctx)}
	}
	f, err := makeFolder(c.TempDir, t)
	if err != nil {
		return Result{Failure: retryable("start_failed", "make the folder of the attempt: %v", err)}
	}
	defer f.remove(t.Log)
	r := run{task: t, limits: t.Limits.withDefaults(), folder: f}
	spec, failure := c.build(t, f)
	if failure == nil {
		failure = r.execute(ctx, spec)
	}
	if failure != nil {
		return Result{Failure: failure}
	}
	return r.output()
}

// build returns the process.Spec of a task, or why the task cannot be run.
func (c CommandConfig) build(t *Task, f *folder) (s process.Spec, failure *pawl.Failure) {
	argv := t.Work.Argv
	if t.Work.Kind == workflow.KindRun {
		argv = []string{"/bin/sh", "-e", f.script}
	}
	if failure := checkWork(argv, t.Work.Env); failure != nil {
		return s, failure
	}
	if s.Dir, failure = workingDir(t); failure != nil {
		return s, failure
	}
	env := environment(c.Environ(), c.Pass, t, f)
	if s.Path, failure = findProgram(t, argv[0], s.Dir, env["PATH"]); failure != nil {
		return s, failure
	}
	s.Stdin = c.Stdin
	s.Args, s.Env = argv, process.EnvironmentList(env)
	return s, nil
}

// A run is the execution of one task.
type run struct {
	task   *Task
	limits Limits
	folder *folder
	stdout capture
	stderr ring
}

// execute runs a program to its end, and returns nil if it succeeded.
func (r *run) execute(ctx context.Context, s process.Spec) *pawl.Failure {
	if r.task.Output != workflow.OutputNone {
		r.stdout.limit = r.limits.Output
	}
	r.stderr.limit = maxExcerpt
	s.Stdout = io.MultiWriter(r.task.Log.Stream(Stdout), &r.stdout)
	s.Stderr = io.MultiWriter(r.task.Log.Stream(Stderr), &r.stderr)
	s.Drain = r.limits.Drain
	p, err := process.Start(s)
	if err != nil {
		return startFailure(s.Args[0], err)
	}
	wasStopped := wait(ctx, p, r.limits.Grace, r.task.Log)
	<-p.Done()
	if p.Exit().Held {
		r.task.Log.Notef("a process that left the group still holds the output open; its further output is not kept")
	}
	if wasStopped {
		return stopped(ctx)
	}
	return r.ended(p.Exit())
}

// ended judges how the process ended.
func (r *run) ended(e process.Exit) *pawl.Failure {
	if e.Code == 0 {
		return nil
	}
	tail := bounded(string(r.stderr.bytes()), maxExcerpt)
	fields := map[string]any{"stderr": tail}
	var f *pawl.Failure
	if e.Signal != 0 {
		n := int(e.Signal)
		f = retryable(fmt.Sprintf("signal_%d", n), "killed by signal %d (%v)%s", n, e.Signal, lastLine(tail))
		fields["signal"] = n
	} else {
		n := e.Code
		f = retryable(fmt.Sprintf("exit_%d", n), "exit status %d%s", n, lastLine(tail))
		f.Permanent = slices.Contains(r.task.PermanentExitCodes, n)
		fields["exit_code"] = n
	}
	f.Metadata = metadata(fields)
	return f
}

// lastLine returns ": " and the last line of text that is not blank, or nothing.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	line := strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
	if line == "" {
		return ""
	}
	return ": " + bounded(line, maxMessage)
}

// output returns the output of a command that succeeded.
func (r *run) output() Result {
	mode := r.task.Output
	s, written, failure := r.folder.result(r.limits.Output)
	if failure != nil {
		return Result{Failure: failure}
	}
	if written {
		mode = workflow.OutputJSON
	} else {
		s = source{name: "stdout", bytes: r.stdout.buf, size: r.stdout.size, limit: r.limits.Output}
	}
	result, note := s.output(mode)
	if note != "" {
		r.task.Log.Notef("%s", note)
	}
	return result
}
