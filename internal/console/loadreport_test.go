package console

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/spec"
)

// TestLoadReport: a result is shown with its parts, whatever is missing, and control characters
// do not reach the terminal (L7).
func TestLoadReport(t *testing.T) {
	t.Parallel()
	started := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	latency := report.Latency{Count: 1000, Mean: 81_234.5, Min: 900, P50: 80_127, P90: 161_791, P95: 200_703, P99: 401_407, P999: 1_605_631, Max: 12_345_678}
	slow := latency
	slow.Max = 2_000_000_000
	read := report.Figures{Operations: 990, Bytes: 990 * 4096, Errors: 10, ErrorClasses: map[string]uint64{"no_space": 1, "io": 9}, OperationsPerSecond: 123.75, BytesPerSecond: 506_880, Service: latency, Response: &slow}
	stat := report.Figures{Operations: 8, OperationsPerSecond: 1, Service: latency}
	s := &report.Summary{
		RunID: "01JCQ2H7W3T5V9XKZ8M4N6P0RS", Name: "mixed", Outcome: report.Failed, Reason: "agent b has failed:\n\x1b[31mno space", Partial: true, Live: 1, NotBegun: 4321, Started: &started, Seconds: 8,
		Violations: []string{"p99 of read: 401µs, want at most 100µs"}, Skew: &report.Skew{First: -1_500, Last: 600_000, Bound: 40_000}, Total: read,
		Operations: []report.Operation{
			{Operation: "read", Figures: read, SizeClasses: []report.SizeClass{{Class: "<=4KiB", Figures: stat}, {Class: "<=64KiB", Figures: read}}}, {Operation: "stat", Figures: stat},
		},
		Agents: []report.AgentPart{
			{Folder: "a", Host: "host-1", Status: "completed", Figures: read, ClockOffset: 5_000_000_000, ClockBound: 40_000, ClockProbes: 32, SkewFirst: -1_500, SkewLast: 200_000},
			{Folder: "b", Host: "evil\x1b[2J", Status: "error", Cleanup: &report.Cleanup{Left: 3, Errors: []string{"remove \x1b[31mdata/f1: permission denied", "another"}}, Problem: "there is no result", Error: &report.AgentError{Message: "no space left"}},
			{Folder: "c", Host: "host-3", Status: "running", Partial: true, Live: true, Figures: stat, Problem: "there is no result; its figures are of\x1b what came", Error: &report.AgentError{Message: "gone"}},
		},
	}
	var b strings.Builder
	if err := LoadReport(&b, s, time.UTC); err != nil {
		t.Fatal(err)
	}
	golden(t, "load-report.txt", b.String())
}

// TestLoadComparison: each measure has its change, interval and verdict (L7).
func TestLoadComparison(t *testing.T) {
	t.Parallel()
	c := &report.Comparison{A: "01A", B: "01B", Config: []string{"jobs: 1 and 4"}, Partial: []string{"01B"}, Operations: []report.ComparedFigures{{Operation: "read", Measures: []report.Compared{
		{Measure: report.MeasureRate, A: 1234.5, B: 987.6, Change: -0.2, Low: -0.25, High: -0.15, Verdict: report.Worse},
		{Measure: report.MeasureP50, A: 80_127, B: 81_000, Change: 0.011, Low: -0.02, High: 0.04, Verdict: report.NoDifference},
		{Measure: report.MeasureP99, A: 1e6, B: 2e6, Verdict: report.TooShort},
		{Measure: report.MeasureErrors, B: 0.01234, Verdict: report.Worse},
	}}}}
	var b strings.Builder
	if err := LoadComparison(&b, c); err != nil {
		t.Fatal(err)
	}
	golden(t, "load-comparison.txt", b.String())
}

// TestLoadPlans: plans have the faults of their agents below them.
func TestLoadPlans(t *testing.T) {
	t.Parallel()
	plans := []LoadPlan{
		LoadPlanOf("a:7296", &loadpb.Plan{Files: 4, Folders: 3, Bytes: 64 << 20, FreeBytes: 20 << 30, FileSystem: "ext4", DirectAlignment: 512, PrepareSeconds: 0.134, RunSeconds: 6}, nil),
		LoadPlanOf("b:7296", nil, []*loadpb.Error{{Message: "no space: 64 MiB are needed", Hint: "make room"}}),
	}
	var b strings.Builder
	if err := LoadPlans(&b, plans); err != nil {
		t.Fatal(err)
	}
	golden(t, "load-plans.txt", b.String())
}

// TestLoadTest: a file is said in words.
func TestLoadTest(t *testing.T) {
	t.Parallel()
	test, err := spec.Parse([]byte(`name: a
files: [{name: data, count: 1000, size: {lognormal: {mean: 64KiB, deviation: 8KiB, min: 4KiB, max: 1MiB}}, tree: {width: 10, depth: 2}}, {name: fresh}]
mix: [{operation: read, files: data, weight: 3, access: {zipf: 1.1}}, {operation: create, files: fresh, block: 1KiB}]
engine: uring
direct: true
jobs: 2
depth: 32
count: 5000
warmup: 2s
rate: {operations: 100, arrival: poisson}
`))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	LoadTest(&b, test)
	golden(t, "load-test.txt", b.String())
}
