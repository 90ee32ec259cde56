package simulate_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/google/go-cmp/cmp"
	"github.com/pawl-dev/pawl/internal/rehearsal/rehearsaltest"
	"github.com/pawl-dev/pawl/internal/simulate"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func simulated(t testing.TB, def *workflow.Definition, cfg simulate.Config) *simulate.Result {
	t.Helper()
	result, err := simulate.Run(t.Context(), def, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// all are the workflow files that tests run: the examples, the good ones and those
// with faults, which are valid as well.
func all(t testing.TB) []string {
	t.Helper()
	return slices.Concat(rehearsaltest.Files(t, "../../examples/*.yaml"), rehearsaltest.Files(t, "../../examples/gostats/*.yaml"), rehearsaltest.Files(t, "../../workflow/testdata/good/*.yaml"), rehearsaltest.Files(t, "../verify/testdata/faults/*.yaml"))
}

// Every simulated job ends, whatever goes wrong, and does so again to the byte.
func TestSimulatedJobsEnd(t *testing.T) {
	t.Parallel()
	for _, path := range all(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			def, _ := rehearsaltest.Load(t, path)
			for seed := range uint64(20) {
				cfg := simulate.Config{Seed: seed}
				if seed%2 == 1 {
					cfg.Faults = simulate.Faults
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
		cfg        simulate.Config
	}{
		{"nightly", "nightly.yaml", simulate.Config{Seed: 39, Inputs: map[string]any{"day": "2026-01-31"}}},
		{"nightly-early", "nightly.yaml", simulate.Config{Seed: 10}},
		{"drain-faults", "drain.yaml", simulate.Config{Seed: 22, Faults: simulate.Faults}},
		{"drain", "drain.yaml", simulate.Config{Seed: 48}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			def, _ := rehearsaltest.Load(t, filepath.Join("testdata", tt.path))
			golden, got := filepath.Join("testdata", tt.name+".txt"), simulated(t, def, tt.cfg).Text()
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", golden, diff)
			}
		})
	}
}

// Faults show in the timelines of some seeds, and never without being asked for.
func TestFaultsHappen(t *testing.T) {
	t.Parallel()
	def, _ := rehearsaltest.Load(t, "../../examples/gostats/gostats.yaml")
	for fault, words := range map[simulate.Fault]string{simulate.Kill: "its worker died", simulate.Slow: "it took longer than", simulate.Duplicate: "and is refused"} {
		with, without := 0, 0
		for seed := range uint64(10) {
			with += strings.Count(simulated(t, def, simulate.Config{Seed: seed, Faults: []simulate.Fault{fault}}).Text(), words)
			if fault != simulate.Slow { // steps may take too long by themselves
				without += strings.Count(simulated(t, def, simulate.Config{Seed: seed}).Text(), words)
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
	def, _ := rehearsaltest.Load(t, "../../examples/hello.yaml")
	result := simulated(t, def, simulate.Config{Seed: 1})
	raw, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	var back simulate.Result
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
	if _, err := simulate.Run(t.Context(), def, simulate.Config{}); err == nil || !strings.Contains(err.Error(), "input code") {
		t.Errorf("error %v, want one that names the input", err)
	}
	if _, err := simulate.Run(t.Context(), def, simulate.Config{Inputs: map[string]any{"code": "ABCDEFA-12345"}}); err != nil {
		t.Error(err)
	}
}

// For any workflow, a simulated job ends, and no invariant of it breaks on the way.
func TestSimulatedJobsEndProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := simulate.Config{Seed: rapid.Uint64().Draw(t, "seed")}
		for _, f := range simulate.Faults {
			if rapid.Bool().Draw(t, string(f)) {
				cfg.Faults = append(cfg.Faults, f)
			}
		}
		result, err := simulate.Run(t.Context(), rehearsaltest.Draw(t), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if result.Broken != "" || !lifecycle.Job.Ended(result.Status) {
			t.Fatal(result.Text())
		}
	})
}

// A job in which nothing more can happen is an error.
func TestStuckIsAnError(t *testing.T) {
	t.Parallel()
	def, _ := rehearsaltest.Load(t, "../../examples/hello.yaml")
	if err := simulate.Stuck(def); err == nil || !strings.Contains(err.Error(), "nothing more can happen") {
		t.Errorf("got %v", err)
	}
}
