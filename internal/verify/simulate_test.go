package verify_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/verify"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

func simulated(t testing.TB, def *workflow.Definition, cfg verify.Config) *verify.Result {
	t.Helper()
	result, err := verify.Simulate(def, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// all are the workflow files that tests run: the examples, the good ones and those
// with faults, which are valid as well.
func all(t testing.TB) []string {
	t.Helper()
	return slices.Concat(files(t, "../../examples/*.yaml"), files(t, "../../examples/gostats/*.yaml"), files(t, "../../workflow/testdata/good/*.yaml"), files(t, "testdata/faults/*.yaml"))
}

// Every simulated job ends, whatever goes wrong, and does so again to the byte.
func TestSimulatedJobsEnd(t *testing.T) {
	t.Parallel()
	for _, path := range all(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			def, _ := load(t, path)
			for seed := range uint64(20) {
				cfg := verify.Config{Seed: seed}
				if seed%2 == 1 {
					cfg.Faults = verify.Faults
				}
				result := simulated(t, def, cfg)
				if result.Broken != "" || !lifecycle.Job.Ended(result.Status) {
					t.Fatalf("seed %d: %s", seed, result.Text())
				}
				if again := simulated(t, def, cfg); again.Text() != result.Text() {
					t.Fatalf("seed %d differs from itself", seed)
				}
			}
		})
	}
}

// What a simulation says is what its golden file has.
func TestSimulateGolden(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, path string
		cfg        verify.Config
	}{
		{"nightly", "nightly.yaml", verify.Config{Seed: 39, Inputs: map[string]any{"day": "2026-01-31"}}},
		{"nightly-early", "nightly.yaml", verify.Config{Seed: 10}},
		{"drain-faults", "drain.yaml", verify.Config{Seed: 22, Faults: verify.Faults}},
		{"drain", "drain.yaml", verify.Config{Seed: 48}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			def, _ := load(t, filepath.Join("testdata", "simulate", tt.path))
			golden(t, filepath.Join("testdata", "simulate", tt.name+".txt"), simulated(t, def, tt.cfg).Text())
		})
	}
}

// Faults show in the timelines of some seeds, and never without being asked for.
func TestFaultsHappen(t *testing.T) {
	t.Parallel()
	def, _ := load(t, "../../examples/gostats/gostats.yaml")
	for fault, words := range map[verify.Fault]string{verify.Kill: "its worker died", verify.Slow: "it took longer than", verify.Duplicate: "and is refused"} {
		with, without := 0, 0
		for seed := range uint64(10) {
			with += strings.Count(simulated(t, def, verify.Config{Seed: seed, Faults: []verify.Fault{fault}}).Text(), words)
			if fault != verify.Slow { // steps may take too long by themselves
				without += strings.Count(simulated(t, def, verify.Config{Seed: seed}).Text(), words)
			}
		}
		if with == 0 || without > 0 {
			t.Errorf("%s: %d times with it, %d without", fault, with, without)
		}
	}
}

// The result says as JSON what it says as text.
func TestResultJSON(t *testing.T) {
	t.Parallel()
	def, _ := load(t, "../../examples/hello.yaml")
	result := simulated(t, def, verify.Config{Seed: 1})
	raw, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	var back verify.Result
	if err := json.Unmarshal(raw, &back); err != nil || back.Text() != result.Text() {
		t.Errorf("%v: %s", err, raw)
	}
}

// An input for which no value can be made up has to be given.
func TestInputIsAskedFor(t *testing.T) {
	t.Parallel()
	file := workflow.File{Name: "asks", Inputs: map[string]workflow.InputSchema{"code": {Required: true, Pattern: "^[A-F]{7}-[0-9]{5}$"}}, Steps: []workflow.Step{}}
	def, err := file.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verify.Simulate(def, verify.Config{}); err == nil || !strings.Contains(err.Error(), "input code") {
		t.Errorf("error %v, want one that names the input", err)
	}
	if _, err := verify.Simulate(def, verify.Config{Inputs: map[string]any{"code": "ABCDEFA-12345"}}); err != nil {
		t.Error(err)
	}
}

// drawFile draws a workflow of any form.
func drawFile(t *rapid.T) workflow.File {
	f := workflow.File{Name: "drawn", Workers: rapid.IntRange(1, 4).Draw(t, "workers"), Inputs: map[string]workflow.InputSchema{"go": {Type: workflow.TypeBoolean, Default: true}}}
	if rapid.Bool().Draw(t, "drain") {
		f.OnError = workflow.Drain
	}
	if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
		f.Timeout = rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour}).Draw(t, "timeout")
	}
	n := rapid.IntRange(0, 7).Draw(t, "steps")
	for i := range n {
		s := drawStep(t, fmt.Sprintf("s%d", i))
		for j := range i {
			if rapid.IntRange(0, 3).Draw(t, "needs") == 0 {
				s.Needs = append(s.Needs, fmt.Sprintf("s%d", j))
			}
		}
		if len(s.Needs) > 0 && rapid.IntRange(0, 2).Draw(t, "if") == 0 {
			s.If = rapid.SampledFrom([]string{"inputs.go", "!inputs.go", "steps.%s.status == 'complete'", "steps.%s.status == 'skipped'", "steps.%s.output.n > 3", "true"}).Draw(t, "condition")
			s.If = strings.ReplaceAll(s.If, "%s", s.Needs[0])
			if strings.Contains(s.If, "output") && !asked(f.Steps, s.Needs[0]) {
				s.If = ""
			}
		}
		if s.Run != "" && len(s.Needs) > 0 && asked(f.Steps, s.Needs[0]) && rapid.Bool().Draw(t, "reads") {
			s.Env = map[string]string{"N": "${{ steps." + s.Needs[0] + ".output.n }}"}
		}
		f.Steps = append(f.Steps, s)
	}
	if rapid.Bool().Draw(t, "hooks") {
		f.Hooks = workflow.Hooks{Failure: []workflow.Step{{ID: "h0", Run: "true"}}, Always: []workflow.Step{{ID: "h1", Handler: "tidy", Timeout: time.Minute}, {ID: "h2", Run: "true"}}}
	}
	if asked(f.Steps, "s0") && rapid.Bool().Draw(t, "hook reads") {
		f.Hooks.Always = append(f.Hooks.Always, workflow.Step{ID: "h3", HTTP: &workflow.HTTP{URL: "https://example.org/${{ steps.s0.output.n }}"}})
	}
	if n > 0 && rapid.Bool().Draw(t, "output") {
		f.Output = "${{ steps.s0.output }}"
	}
	return f
}

// asked reports whether a condition may ask for a field of a step's output.
func asked(steps []workflow.Step, id string) bool {
	return slices.ContainsFunc(steps, func(s workflow.Step) bool { return s.ID == id && s.Run != "" && s.Foreach == nil && s.Matrix == nil })
}

func drawStep(t *rapid.T, id string) workflow.Step {
	s := workflow.Step{ID: id}
	worker := false
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0:
		s.Approval = &workflow.ApprovalStep{Prompt: "?", Expires: time.Hour}
	case 1:
		s.Sleep = "30s"
	case 2:
		s.Event = &workflow.EventStep{Name: rapid.SampledFrom([]string{"one", "two"}).Draw(t, "event"), Timeout: rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "event timeout")}
	case 3:
		s.Workflow = &workflow.ChildStep{Name: "other"}
	default:
		s.Run, s.Output, worker = "true", workflow.OutputJSON, true
		s.Retry.MaxAttempts = rapid.IntRange(1, 4).Draw(t, "attempts")
	}
	if worker && rapid.IntRange(0, 2).Draw(t, "queue timeout") == 0 {
		s.QueueTimeout = time.Second
	}
	switch rapid.IntRange(0, 5).Draw(t, "fan") {
	case 0:
		s.Foreach, s.Parallel = []any{1, 2, 3}, rapid.IntRange(1, 3).Draw(t, "parallel")
	case 1:
		s.Matrix = []workflow.Axis{{Name: "x", Values: []any{1, 2}}}
	}
	return s
}

// What is left out of an exploration makes no difference: walks in which any step
// may end next, in any way, end only as explored paths do, and find nothing that
// is not found without them.
func TestReductionProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		def := build(t)
		report, err := verify.Verify(t.Context(), def, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !report.All {
			return // it does not claim anything
		}
		found := map[string]bool{}
		for _, f := range report.Findings {
			found[f.Rule+" "+f.Key] = true
		}
		for seed := range uint64(5) {
			end, findings, err := verify.Walk(def, rapid.Uint64().Draw(t, "walk")+seed)
			if err != nil {
				t.Fatal(err)
			}
			if report.Endings[end] == 0 {
				t.Fatalf("a walk ends %s, and no explored path does: %v", end, report.Endings)
			}
			for _, f := range findings {
				if !found[f.Rule+" "+f.Key] {
					t.Fatalf("a walk finds what the exploration did not:\n%s", f.Text("drawn"))
				}
			}
		}
	})
}

func build(t *rapid.T) *workflow.Definition {
	def, err := drawFile(t).Build()
	if err != nil {
		t.Fatal(err)
	}
	return def
}

// For any workflow, a simulated job ends, and no invariant of it breaks on the way.
func TestSimulatedJobsEndProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := verify.Config{Seed: rapid.Uint64().Draw(t, "seed")}
		for _, f := range verify.Faults {
			if rapid.Bool().Draw(t, string(f)) {
				cfg.Faults = append(cfg.Faults, f)
			}
		}
		result, err := verify.Simulate(build(t), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if result.Broken != "" || !lifecycle.Job.Ended(result.Status) {
			t.Fatal(result.Text())
		}
	})
}

// For any workflow, the verification ends, and says that each path does.
func TestVerifyProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		report, err := verify.Verify(t.Context(), build(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !report.Ends {
			t.Fatal(report.Text("drawn"))
		}
	})
}
