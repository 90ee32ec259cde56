package loadstep

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/load/controller"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

const file = `name: small
files: [{name: data, count: 1, size: 4KiB}]
mix: [{operation: read}] # and nothing else
engine: "null"
rate: {operations: 12.5, arrival: poisson}
thresholds: [{operation: read, p99: 1s}]
`

// TestThresholdsAreAdded: those of a step come after those of the file, which stays as it is otherwise (L7).
func TestThresholdsAreAdded(t *testing.T) {
	t.Parallel()
	s := &step{input: input{Thresholds: json.RawMessage(`[{"operation":"read","p50":"2ms"},{"errors":0,"throughput":"1MiB"},{"operations":0.5}]`)}}
	src, err := s.withThresholds([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	got, err := spec.Parse(src)
	if err != nil {
		t.Fatalf("%v\n%s", err, src)
	}
	want, err := spec.Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	want.Threshold = append(want.Threshold, spec.Threshold{Operation: spec.Read, Metric: spec.P50, Limit: 2e6},
		spec.Threshold{Metric: spec.Failures}, spec.Threshold{Metric: spec.Throughput, Limit: 1 << 20}, spec.Threshold{Metric: spec.Operations, Limit: 0.5})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%s", diff, src)
	}
}

// TestEveryMetricIsAKey: a workflow takes the thresholds that a load file takes.
func TestEveryMetricIsAKey(t *testing.T) {
	t.Parallel()
	for _, metric := range spec.Metrics {
		value := "1ms"
		if metric == spec.Failures || metric == spec.Throughput || metric == spec.Operations {
			value = "1"
		}
		entry := fmt.Sprintf("{operation: read, %s: %s}", metric, value)
		if _, err := workflow.Parse("w.yaml", []byte("name: w\nsteps: [{id: a, load: {file: x.yaml, thresholds: ["+entry+"]}}]\n")); err != nil {
			t.Error(err)
		}
		if _, err := spec.Parse([]byte("name: w\nfiles: [{name: d, count: 1, size: 4KiB}]\nmix: [{operation: read}]\nthresholds: [" + entry + "]\n")); err != nil {
			t.Error(err)
		}
	}
}

// TestOutputsFit: an output that is too large keeps the figures of all operations.
func TestOutputsFit(t *testing.T) {
	t.Parallel()
	o := &Output{Folder: "there", Summary: report.Summary{
		Name: "small", Operations: []report.Operation{{Operation: "read", SizeClasses: make([]report.SizeClass, 9)}}, Agents: make([]report.AgentPart, 1000),
	}}
	if o.within(1<<20) != o {
		t.Error("an output that fits was changed")
	}
	small := o.within(64 << 10)
	want := &Output{Folder: "there", Summary: report.Summary{Name: "small", Operations: []report.Operation{{Operation: "read"}}}}
	if diff := cmp.Diff(want, small); diff != "" {
		t.Error(diff)
	}
	if len(o.Agents) != 1000 || len(o.Operations[0].SizeClasses) != 9 {
		t.Error("the output itself was changed")
	}
}

// TestWhatMayPass: only agents that are out of reach or busy, or cannot be started, are worth another attempt.
func TestWhatMayPass(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		err       error
		permanent bool
	}{
		{"busy", pawl.Errorf(pawl.Unavailable, "agent a: run b is on"), false},
		{"another version", pawl.Errorf(pawl.Conflict, "agent a: version 2"), true},
		{"no space", fmt.Errorf("run: %w", pawl.Errorf(pawl.Internal, "agent a: no space")), true},
		{"no file", &pawl.Error{Kind: pawl.NotFound, Message: "none", Hint: "relative"}, true},
		{"ended by an operator", &controller.AbortedError{Reason: "by ada"}, true},
		{"a full disk", fmt.Errorf("the result is not written: %w", &os.PathError{Op: "write", Path: "there", Err: syscall.ENOSPC}), true},
		{"not started", errors.New("agent local-1: it does not listen"), false},
	} {
		f := failure(test.err)
		if f.Permanent != test.permanent || f.Class != "load_failed" || !strings.HasPrefix(f.Message, test.err.Error()) {
			t.Errorf("%s: %+v", test.name, f)
		}
	}
}

// TestRefusedMoves: a move of an agent that its machine does not allow is in no trail, and the log of the step says
// so (L11).
func TestRefusedMoves(t *testing.T) {
	t.Parallel()
	var notes strings.Builder
	s := &step{Config: Config{Results: t.TempDir()}, task: &worker.Task{Log: worker.NewLog(worker.LogConfig{Tee: func(_ string, p []byte) { notes.Write(p) }})}, id: controller.NewID(time.Now())}
	test, err := spec.Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	j, err := s.journal([]byte(file), test)
	if err != nil {
		t.Fatal(err)
	}
	j.Moved(3, &loadpb.Transition{Event: "start", To: "RUNNING", Sequence: 1})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if got := notes.String(); !strings.Contains(got, "level=WARN") || !strings.Contains(got, "agent=3 sequence=1 event=start") {
		t.Errorf("the log of the step has %q", got)
	}
}

// TestUnwritten: of a run whose result cannot be written the log of the step has the table, and its failure
// the figures (L7).
func TestUnwritten(t *testing.T) {
	t.Parallel()
	var notes strings.Builder
	log := worker.NewLog(worker.LogConfig{Tee: func(_ string, p []byte) { notes.Write(p) }})
	s := &step{Config: Config{Results: t.TempDir()}, task: &worker.Task{Log: log}, id: controller.NewID(time.Now())}
	result, err := report.NewFolder(filepath.Join(s.Results, s.id))
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	test, err := spec.Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	j, err := s.journal([]byte(file), test)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := os.Mkdir(filepath.Join(filepath.Dir(result.Records()), "config.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	run := &report.Run{ID: s.id, Config: []byte(file), Test: test, Started: time.Now(), Ended: time.Now().Add(time.Second), Outcome: "completed", Agents: []report.Agent{{Address: "host1"}}}
	out, err := s.keep(result, j, run)
	if !errors.Is(err, os.ErrExist) || out.Folder != "" || out.RunID != s.id {
		t.Errorf("%+v, %v", out, err)
	}
	if got := notes.String(); !strings.Contains(got, "measured on 1 agent") || !strings.HasSuffix(got, "the result is not written\n") {
		t.Error(got)
	}
	var metadata map[string]any
	if err := json.Unmarshal(s.withResult(failure(err), out).Metadata, &metadata); err != nil || metadata["total"] == nil || metadata["folder"] != nil {
		t.Error(metadata, err)
	}
}
