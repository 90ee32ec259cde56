package loadstep

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/files"
	"github.com/pawl-dev/pawl/internal/load/controller"
	"github.com/pawl-dev/pawl/internal/load/journal"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/sleep"
	"github.com/pawl-dev/pawl/worker"
)

// A Config says where results are kept, and how agents are reached.
type Config struct {
	Results     string                                 // the folder that has a folder for each run
	Program     string                                 // the program pawl, which is also the agents that a step starts
	Build       string                                 // its name and version, for people
	Credentials func() (controller.Credentials, error) // for agents that are named
	Stores      func() ([]string, error)               // the parts of buckets that agents which a step starts may use, as the flag --s3 names them
}

// An input is the input of a step.
type input struct {
	File       string          `json:"file"`
	Agents     []string        `json:"agents"`
	Local      int             `json:"local"`
	Root       string          `json:"root"`
	Thresholds json.RawMessage `json:"thresholds"`
}

// An Output is the output of a step.
type Output struct {
	Folder string `json:"folder,omitempty"` // with the result, on the machine of the worker
	report.Summary
}

// The classes of failures.
const (
	classFailed    = "load_failed"
	classThreshold = "load_threshold"
)

const (
	maxFile  = 1 << 20         // bytes, which the protocol allows, too
	maxNamed = 10              // violations in a message
	every    = 5 * time.Second // between two notes about the same thing
)

// Handler returns the handler of such steps.
func Handler(c Config) worker.Handler {
	return worker.Func(func(ctx context.Context, t *worker.Task) (any, error) {
		s := &step{Config: c, task: t, id: controller.NewID(time.Now())}
		out, err := s.attempt(ctx)
		var f *pawl.Failure
		switch {
		case err == nil:
			return out.within(cmp.Or(max(t.Limits.Output, 0), worker.DefaultOutputLimit)), nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.As(err, &f):
			return nil, f
		}
		return nil, failure(err)
	})
}

// failure returns the failure of a run. It may pass if agents were out of reach or busy, and if they
// could not be started; it is permanent otherwise, if an operator has ended it, and if it is of a disk
// that takes no more.
func failure(err error) *pawl.Failure {
	var e *pawl.Error
	var aborted *controller.AbortedError
	f := &pawl.Failure{Class: classFailed, Message: err.Error(), Permanent: errors.As(err, &e) && e.Kind != pawl.Unavailable || errors.As(err, &aborted) || takesNoMore(err)}
	if e != nil && e.Hint != "" {
		f.Message += " (" + e.Hint + ")"
	}
	return f
}

// takesNoMore reports whether a disk is full or closed to this process, which does not pass by running
// the load again.
func takesNoMore(err error) bool {
	return slices.ContainsFunc([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EROFS, fs.ErrPermission}, func(e error) bool { return errors.Is(err, e) })
}

// A step is one attempt of a step of a workflow.
type step struct {
	Config
	input
	task *worker.Task
	id   string // of the run
	dir  string // that paths are relative to

	phase    controller.Phase
	failed   map[int]bool  // agents whose failure was noted
	progress time.Time     // when some was noted
	next     time.Duration // the end of the interval to be noted next
}

func (s *step) note(format string, args ...any) { s.task.Log.Notef(format, args...) }

// attempt runs the load. When ctx ends, it waits for the agents to clean up, for the grace at most.
func (s *step) attempt(ctx context.Context) (*Output, error) {
	src, test, err := s.load()
	if err != nil {
		return nil, err
	}
	result, err := report.NewFolder(filepath.Join(s.Results, s.id))
	if err != nil {
		return nil, fmt.Errorf("the result could not be written: %w", err)
	}
	defer func() {
		if err := result.Close(); err != nil {
			s.note("what was written of the result cannot be removed: %v", err)
		}
	}()
	forced, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	targets, end, err := s.agents(ctx, test)
	if err != nil {
		return nil, err
	}
	grace := cmp.Or(max(s.task.Limits.Grace, 0), worker.DefaultGrace)
	defer context.AfterFunc(ctx, func() {
		if sleep.For(forced, grace) {
			s.note("the agents have not ended within %s, and clean up by themselves", grace)
			cancel()
		}
	})()
	j, err := s.journal(src, test)
	if err != nil {
		return nil, errors.Join(err, end(forced))
	}
	defer func() {
		if err := j.Close(); err != nil {
			s.note("the journal of the run is not complete: %v", err)
		}
	}()
	s.note("run %s of load %s", s.id, test.Name)
	run, failed := controller.Run(forced, controller.Config{
		ID: s.id, File: src, Test: test, Agents: targets, Build: s.Build, Log: s.log(slog.LevelWarn), Records: result.Records(), Stop: ctx.Done(), Abort: j.Abort(), Moved: j.Moved, Recorded: j.Recorded,
		Changed: func(v controller.View) { j.Changed(v); s.changed(v) }, Interval: func(i controller.Interval) { j.Interval(i); s.interval(i) },
	})
	ended := end(forced)
	cancel()
	if run == nil {
		return nil, errors.Join(failed, ended)
	}
	j.Ended(run)
	out, err := s.keep(result, j, run)
	if err = errors.Join(err, ended); failed != nil {
		if err != nil {
			s.note("%v", err)
		}
		return nil, s.withResult(failure(failed), out)
	}
	if err != nil {
		return nil, s.withResult(failure(err), out)
	}
	if v := out.Violations; len(v) > 0 {
		named := strings.Join(v[:min(len(v), maxNamed)], "; ")
		if more := len(v) - maxNamed; more > 0 {
			named += fmt.Sprintf("; and %d more", more)
		}
		return nil, s.withResult(&pawl.Failure{Class: classThreshold, Message: named, Permanent: true}, out)
	}
	return out, nil
}

// journal begins the journal of the run, beside its result.
func (s *step) journal(src []byte, test *spec.Test) (*journal.Journal, error) {
	return journal.Open(journal.Config{Dir: filepath.Join(s.Results, s.id), Info: journal.Info{Run: s.id, Actor: s.task.StepID, Program: s.Build}, Config: src, Test: test, Log: s.log(slog.LevelWarn)})
}

// log returns what writes into the notes of the step.
func (s *step) log(least slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(s.task.Log.Stream(worker.Notes), &slog.HandlerOptions{Level: least}))
}

// load reads the file, with the thresholds of the step.
func (s *step) load() ([]byte, *spec.Test, error) {
	if err := json.Unmarshal(s.task.Work.With, &s.input); err != nil {
		return nil, nil, pawl.Errorf(pawl.Invalid, "the input of the step: %v", err)
	}
	dir, err := filepath.Abs(s.path(s.task.BaseDir, s.task.Work.Dir))
	if err != nil {
		return nil, nil, err
	}
	s.dir = dir
	path := s.path(dir, s.File)
	src, err := files.Read(path, maxFile)
	switch {
	case pawl.KindOf(err) == pawl.NotFound:
		return nil, nil, &pawl.Error{Kind: pawl.NotFound, Message: "there is no load file " + path + " on the machine of the worker",
			Hint: relative("file")}
	case err != nil:
		return nil, nil, err
	}
	test, err := spec.ParseFile(path, src)
	if err != nil || s.Thresholds == nil {
		return src, test, invalid(err)
	}
	if src, err = s.withThresholds(src); err != nil {
		return nil, nil, err
	}
	test, err = spec.ParseFile(path+" with the thresholds of the step", src)
	return src, test, invalid(err)
}

// relative is the hint for a path where nothing is.
func relative(key string) string {
	return key + " is relative to the dir of the step, and that to the folder of the job; name an absolute path, or submit the job with --dir"
}

// path returns a path that is absolute or below a folder.
func (s *step) path(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// invalid returns the error of a file that is wrong, which no further attempt makes right.
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return &pawl.Error{Kind: pawl.Invalid, Message: err.Error()}
}

// withThresholds returns the file with those of the step after its own, so that the result says what
// it was judged by.
func (s *step) withThresholds(src []byte) ([]byte, error) {
	var file struct {
		Thresholds []any `yaml:"thresholds"`
	}
	var more []any
	if err := errors.Join(yaml.Unmarshal(src, &file), yaml.Unmarshal(s.Thresholds, &more)); err != nil {
		return nil, err
	}
	return spec.Replace(src, yaml.MapSlice{{Key: "thresholds", Value: append(file.Thresholds, more...)}})
}

// agents returns the agents of the step, and what ends those that it has started.
func (s *step) agents(ctx context.Context, test *spec.Test) ([]controller.Target, func(context.Context) error, error) {
	if len(s.Agents) == 0 {
		root := s.Root
		if root != "" {
			root = s.path(s.dir, root)
			if info, err := os.Stat(root); err != nil || !info.IsDir() {
				return nil, nil, &pawl.Error{Kind: pawl.NotFound, Message: "there is no folder " + root + " on the machine of the worker", Hint: relative("root")}
			}
		}
		stores, err := s.stores(test)
		if err != nil {
			return nil, nil, err
		}
		return controller.LocalAgents(ctx, max(s.Local, 1), s.Program, root, stores, s.log(slog.LevelInfo))
	}
	credentials, err := s.Credentials()
	if err != nil {
		return nil, nil, err
	}
	targets, err := controller.Targets(s.Agents, credentials)
	return targets, func(context.Context) error { return nil }, err
}

// stores returns what the worker allows the agents that it starts, for a load that uses an object store.
func (s *step) stores(test *spec.Test) ([]string, error) {
	if test.Engine != spec.S3 {
		return nil, nil
	}
	return s.Stores()
}

// keep keeps the result of a run, and notes what was measured. Of a load that never began there is
// nothing to keep. With an error there is an output, too, as far as it is known.
func (s *step) keep(result *report.Folder, j *journal.Journal, run *report.Run) (*Output, error) {
	began := !run.Started.IsZero()
	keep := report.Evaluate
	if began {
		keep = result.Write
	}
	r, err := keep(run)
	folder, where := "", "the result is not written"
	switch {
	case err == nil && began:
		folder = filepath.Join(s.Results, s.id)
		where = "result in " + console.Shell(folder)
	case err != nil:
		err = fmt.Errorf("the result is not written: %w", err)
		if path := j.Path(); began && path != "" {
			err = fmt.Errorf("%w; what was measured while it ran is in %s", err, console.Shell(path))
		}
		var e error
		if r, e = report.Evaluate(run); e != nil { // what was measured is at least noted
			j.Kept(run, "")
			return &Output{}, err
		}
	}
	out := &Output{Folder: folder, Summary: r.Summary}
	j.Kept(run, folder)
	var table strings.Builder
	if e := console.LoadReport(&table, &r.Summary, time.UTC); e == nil && began { // a Builder never fails
		s.note("%s%s", table.String(), where)
	}
	return out, err
}

// withResult returns a failure that says where the result is, and what was measured in all.
func (s *step) withResult(f *pawl.Failure, out *Output) *pawl.Failure {
	metadata := map[string]any{"run_id": s.id}
	if out.Folder != "" {
		metadata["folder"] = out.Folder
	}
	if out.Started != nil {
		metadata["total"] = out.Total
	}
	f.Metadata, _ = json.Marshal(metadata) // numbers and texts
	return f
}

// within returns an output that has at most limit bytes as JSON: without the parts of the agents, and
// without size classes, if it has more.
func (o *Output) within(limit int) *Output {
	if b, err := json.Marshal(o); err != nil || len(b) <= limit {
		return o
	}
	small := *o
	small.Agents, small.Operations = nil, nil
	for _, operation := range o.Operations {
		operation.SizeClasses = nil
		small.Operations = append(small.Operations, operation)
	}
	return &small
}

// changed notes how far the run is, and which agents have failed.
func (s *step) changed(v controller.View) {
	if v.Phase != s.phase {
		s.phase = v.Phase
		s.note("%s", strings.TrimSuffix(string(v.Phase)+": "+v.Reason, ": "))
	}
	if s.failed == nil {
		s.failed = map[int]bool{}
	}
	for i := range v.Agents {
		a := &v.Agents[i]
		if a.Failure != nil && !s.failed[a.Index] {
			s.failed[a.Index] = true
			s.note("%s: %s", a.Name, a.Failure.GetMessage())
		}
		if a.Progress != nil && time.Since(s.progress) >= every {
			s.progress = time.Now()
			s.note("%s: %s", a.Name, console.LoadProgress(a.Progress))
		}
	}
}

// interval notes what was done in an interval, of those that are more frequent every 5 s.
func (s *step) interval(i controller.Interval) {
	if i.End >= s.next {
		s.next = i.End.Truncate(every) + every
		s.note("%s", console.LoadLine(&i))
	}
}
