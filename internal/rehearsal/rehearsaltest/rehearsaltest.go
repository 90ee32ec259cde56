// Package rehearsaltest has the workflows with which verification and simulation are
// tested: files, and random ones.
package rehearsaltest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/workflow"
	"pgregory.net/rapid"
)

// Load reads a workflow file, its children beside it.
func Load(t testing.TB, path string) (*workflow.Definition, []byte) {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	def, err := workflow.ParseWith(path, src, func(from, name string) (string, []byte, error) {
		known := filepath.Join(filepath.Dir(from), name)
		child, err := os.ReadFile(known)
		return known, child, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return def, src
}

// Files returns the files that match a pattern, of which there is one at least.
func Files(t testing.TB, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %v, %v", pattern, paths, err)
	}
	return paths
}

// Draw draws a workflow of any form.
func Draw(t *rapid.T) *workflow.Definition {
	def, err := drawFile(t).Build()
	if err != nil {
		t.Fatal(err)
	}
	return def
}

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
