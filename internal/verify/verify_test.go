package verify_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/internal/rehearsal/rehearsaltest"
	"github.com/pawl-dev/pawl/internal/verify"
	"github.com/pawl-dev/pawl/workflow"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func verified(t testing.TB, path string) *verify.Report {
	t.Helper()
	def, src := rehearsaltest.Load(t, path)
	report, err := verify.Verify(t.Context(), def, nil)
	if err != nil {
		t.Fatal(err)
	}
	report.Locate(src)
	return report
}

// golden compares a text with a file.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// Each file of faults holds one: it is valid, and what is wrong with it is found,
// and told exactly as its golden file has it.
func TestFaults(t *testing.T) {
	t.Parallel()
	paths := rehearsaltest.Files(t, "testdata/faults/*.yaml")
	if len(paths) < 20 {
		t.Errorf("%d files of faults, want 20 at least", len(paths))
	}
	for _, path := range paths {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := verified(t, path)
			if len(report.Findings) == 0 {
				t.Error("nothing was found")
			}
			golden(t, strings.TrimSuffix(path, ".yaml")+".txt", report.Text(name))
		})
	}
}

// What is rightly found in files that are examples of something else, by rule.
var known = map[string][]string{
	"examples/faulty.yaml":                       {"missing-output"},                         // what it is for
	"workflow/testdata/good/example.yaml":        {"parallel", "job-timeout", "job-timeout"}, // shows every key
	"workflow/testdata/good/kinds.yaml":          {"waits-for-ever", "waits-for-ever"},       // likewise
	"workflow/testdata/good/nightly-report.yaml": {"parallel"},
}

// The examples are right: nothing is found but what is known, and everything was
// gone through.
func TestExamplesAreSound(t *testing.T) {
	t.Parallel()
	for _, path := range slices.Concat(rehearsaltest.Files(t, "../../examples/*.yaml"), rehearsaltest.Files(t, "../../examples/gostats/*.yaml"), rehearsaltest.Files(t, "../../workflow/testdata/good/*.yaml")) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			report := verified(t, path)
			if !report.All || !report.Ends {
				t.Errorf("all %t, ends %t", report.All, report.Ends)
			}
			var rules []string
			for _, f := range report.Findings {
				rules = append(rules, f.Rule)
			}
			if diff := cmp.Diff(known[strings.TrimPrefix(path, "../../")], rules); diff != "" {
				t.Errorf("findings (-want +got):\n%s\n%s", diff, report.Text(path))
			}
		})
	}
}

// In each file of sound ones something only looks like a fault: nothing is found.
func TestSound(t *testing.T) {
	t.Parallel()
	for _, path := range rehearsaltest.Files(t, "testdata/sound/*.yaml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			if report := verified(t, path); len(report.Findings) > 0 || !report.All || !report.Ends {
				t.Error(report.Text(path))
			}
		})
	}
}

// A workflow of a hundred steps is gone through whole where its branches do not
// look at each other, and within the limits where they do.
func TestVerifyLarge(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		all  bool
		file workflow.File
	}{
		{"beside each other", true, large(100, workflow.Drain, func(int) []string { return nil })},
		{"one after another", true, large(100, workflow.Halt, func(i int) []string { return before(i, 1) })},
		{"in pairs", false, large(100, workflow.Drain, func(i int) []string { return before(i, 7, 11) })},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			def, err := tt.file.Build()
			if err != nil {
				t.Fatal(err)
			}
			report, err := verify.Verify(t.Context(), def, nil)
			if err != nil {
				t.Fatal(err)
			}
			if report.All != tt.all || !report.Ends || report.States > 2*verify.MaxStates {
				t.Errorf("all %t, want %t; ends %t; %d states", report.All, tt.all, report.Ends, report.States)
			}
			t.Log(report.Summary())
			if again, err := verify.Verify(t.Context(), def, nil); err != nil || again.Text("x") != report.Text("x") {
				t.Errorf("it differs from itself: %v", err)
			}
		})
	}
}

func large(n int, onError workflow.OnError, needs func(int) []string) workflow.File {
	f := workflow.File{Name: "large", OnError: onError}
	for i := range n {
		f.Steps = append(f.Steps, workflow.Step{ID: fmt.Sprintf("s%d", i), Run: "true", Needs: needs(i)})
	}
	return f
}

func before(i int, distances ...int) []string {
	var ids []string
	for _, d := range distances {
		if i >= d {
			ids = append(ids, fmt.Sprintf("s%d", i-d))
		}
	}
	return ids
}

// A report says as JSON what it says as text.
func TestReportJSON(t *testing.T) {
	t.Parallel()
	report := verified(t, "testdata/faults/hook_output.yaml")
	raw, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var back verify.Report
	if err := json.Unmarshal(raw, &back); err != nil || back.Text("x") != report.Text("x") {
		t.Errorf("%v: %s", err, raw)
	}
}

// Inputs that are given do not vary: what only others lead to is not found.
func TestVerifyGiven(t *testing.T) {
	t.Parallel()
	def, _ := rehearsaltest.Load(t, "testdata/faults/skipped_field.yaml")
	for deep, want := range map[bool]int{false: 1, true: 0} {
		report, err := verify.Verify(t.Context(), def, map[string]any{"deep": deep})
		if err != nil {
			t.Fatal(err)
		}
		if got := report.Count(verify.Err); got != want {
			t.Errorf("deep=%t: %d errors, want %d", deep, got, want)
		}
	}
}

// A job in which nothing more can happen is an error, and so is one whose counts
// are wrong.
func TestStuckIsAnError(t *testing.T) {
	t.Parallel()
	def, _ := rehearsaltest.Load(t, "../../examples/hello.yaml")
	explored, miscounted := verify.Stuck(def)
	if explored == nil || !strings.Contains(explored.Error(), "nothing more can happen") {
		t.Errorf("got %v", explored)
	}
	if miscounted == nil || !strings.Contains(miscounted.Error(), "counts 1 active steps, and there are 0") {
		t.Errorf("got %v", miscounted)
	}
}

// A child whose inputs cannot be made up is looked at without exploring it, and
// the report says that not all was gone through.
func TestVerifyChildWithoutInputs(t *testing.T) {
	t.Parallel()
	report := verified(t, "testdata/children/parent.yaml")
	if report.All || !report.Ends || len(report.Findings) != 1 || report.Findings[0].Rule != "waits-for-ever" || report.Findings[0].File != "code.yaml" {
		t.Error(report.Text("parent.yaml"))
	}
}

// A fan-out of a thousand instances stays within the limits.
func TestVerifyWide(t *testing.T) {
	t.Parallel()
	items := make([]any, 1000)
	for i := range items {
		items[i] = i
	}
	f := workflow.File{Name: "wide", Steps: []workflow.Step{{ID: "each", Foreach: items, Handler: "each", With: "${{ item }}"}}}
	def, err := f.Build()
	if err != nil {
		t.Fatal(err)
	}
	report, err := verify.Verify(t.Context(), def, nil)
	if err != nil || !report.Ends || report.All || len(report.Findings) > 0 {
		t.Errorf("%v\n%s", err, report.Text("wide"))
	}
}

// When its context ends, the verification stops.
func TestVerifyStops(t *testing.T) {
	t.Parallel()
	def, _ := rehearsaltest.Load(t, "testdata/faults/skipped_field.yaml")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if report, err := verify.Verify(ctx, def, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v; want the error of the context", report, err)
	}
	if outcomes, err := verify.Halted(def); err != nil || outcomes > 1 {
		t.Errorf("%d outcomes, %v; want none after the first", outcomes, err)
	}
}
