package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/load/histogram"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/load/stats"
)

var update = flag.Bool("update", false, "rewrite the expected files")

const config = `name: mixed
files: [{name: data, count: 4, size: 16MiB}]
mix:
  - {operation: read, weight: 3}
  - {operation: write, block: 64KiB}
  - {operation: stat}
rate: 100
warmup: 2s
duration: 8s
thresholds:
  - {operation: read, p99: 1ms}
  - {errors: 1}
  - {throughput: 1GiB}
  - {operation: write, operations: 1}
`

// A model makes runs whose truth is known.
type model struct {
	seed    uint64
	agents  int
	seconds int
	slower  float64 // factor of all latencies
	config  string
}

// run returns the run of a model, and the table of all that it has after the warm-up.
func (m model) run(t testing.TB) (Run, stats.Table) {
	t.Helper()
	test, err := spec.Parse([]byte(m.config))
	if err != nil {
		t.Fatal(err)
	}
	random, truth := rand.New(rand.NewPCG(m.seed, 2)), stats.Table{}
	run := Run{
		ID: "01JCQ2H7W3T5V9XKZ8M4N6P0RS", Config: []byte(m.config), Test: test, Outcome: Completed,
		Started: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Ended: time.Date(2026, 3, 1, 12, 0, m.seconds, 0, time.UTC),
	}
	warm := int(test.Warmup / time.Second)
	for i := range m.agents {
		var out bytes.Buffer
		totals := stats.Table{}
		for s := range m.seconds {
			second := m.second(random)
			if s >= warm {
				totals.Merge(second)
			}
			record(t, &out, &loadpb.ResultRecord{Record: &loadpb.ResultRecord_Interval{Interval: &loadpb.Interval{
				StartNs: int64(s)*1e9 + int64(i)*1e5, EndNs: int64(s+1)*1e9 + int64(i)*1e5, Warmup: s < warm, Operations: second.Proto(),
				Backlog: uint64(s % 3), CpuUserSeconds: 0.25, CpuSystemSeconds: 0.5,
			}}})
		}
		truth.Merge(totals)
		record(t, &out, &loadpb.ResultRecord{Record: &loadpb.ResultRecord_Result{Result: m.result(run.ID, i, m.seconds-warm, totals)}})
		run.Agents = append(run.Agents, Agent{
			Index: i, Address: fmt.Sprintf("10.0.0.%d:7171", i+1), Status: loadpb.Status_STATUS_COMPLETED, Records: file(t, out.Bytes()), Dropped: int64(i),
			Info:  &loadpb.AgentInfo{Id: fmt.Sprintf("node-%d", i+1), Hostname: fmt.Sprintf("host-%d", i+1), Cpus: 8, MemoryBytes: 32 << 30, Kernel: "6.18.0", Build: "pawl 1.2.3"},
			Clock: Clock{Offset: time.Duration(i) * 5 * time.Second, Bound: 40 * time.Microsecond, Probes: 32},
			Skew:  [2]time.Duration{time.Duration(i+1) * 100 * time.Microsecond, time.Duration(i+1) * 200 * time.Microsecond}, Begun: true,
		})
	}
	return run, truth
}

func (m model) result(id string, i, seconds int, totals stats.Table) *loadpb.Result {
	return &loadpb.Result{
		RunId: id, Status: loadpb.Status_STATUS_COMPLETED, Assignment: &loadpb.Assignment{AgentIndex: uint32(i), AgentCount: uint32(m.agents)},
		ConfigYaml: m.config, Totals: totals.Proto(), Seconds: float64(seconds), CpuUserSeconds: 2, CpuSystemSeconds: 4,
		Prepare:      &loadpb.PrepareStats{Seconds: 1.5, Files: 4, Bytes: 64 << 20},
		Cleanup:      &loadpb.CleanupReport{DeletedFiles: 4, DeletedFolders: 1},
		Transitions:  []*loadpb.Transition{{From: "idle", Event: "config_accepted", To: "config_received", Sequence: 1, AtNs: 5}, {From: "running", Event: "finished", To: "completed", Sequence: 9, AtNs: 6}},
		ErrorSamples: []string{"read data/f3: input/output error"},
	}
}

// second draws what an agent does in a second.
func (m model) second(random *rand.Rand) stats.Table {
	table := stats.Table{}
	for _, one := range []struct {
		key   stats.Key
		n     int
		bytes uint64
		base  float64
	}{
		{stats.Key{Operation: "read", SizeClass: "<=4KiB"}, 300, 4096, 80e3}, {stats.Key{Operation: "write", SizeClass: "<=64KiB"}, 100, 65536, 200e3},
		{stats.Key{Operation: "stat"}, 50, 0, 2e3},
	} {
		slower := max(m.slower, 1)
		n := int(float64(one.n) * (0.9 + 0.2*random.Float64()) / slower)
		c := &stats.Counter{Operations: uint64(n), Bytes: uint64(n) * one.bytes, Response: &histogram.Histogram{}}
		for range n {
			v := int64(slower * one.base * (0.5 + random.ExpFloat64()))
			c.Service.Record(v)
			c.Response.Record(v + 1000)
		}
		if one.key.Operation == "read" && random.IntN(10) == 0 {
			c.Errors = map[string]uint64{"io": 1}
		}
		table[one.key] = c
	}
	return table
}

func record(t testing.TB, out *bytes.Buffer, r *loadpb.ResultRecord) {
	t.Helper()
	if _, err := protodelim.MarshalTo(out, r); err != nil {
		t.Fatal(err)
	}
}

// file returns a new file of records; none for nil.
func file(t testing.TB, records []byte) string {
	t.Helper()
	if records == nil {
		return ""
	}
	path := filepath.Join(t.TempDir(), "records")
	if err := os.WriteFile(path, records, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// write writes a copy of a run as the folder dir.
func write(t testing.TB, dir string, run Run) (*Report, error) {
	t.Helper()
	f, err := NewFolder(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	run.Agents = slices.Clone(run.Agents)
	for i := range run.Agents {
		if a := &run.Agents[i]; a.Records != "" {
			data, err := os.ReadFile(a.Records)
			if err != nil {
				t.Error(err)
			}
			a.Records = filepath.Join(f.Records(), strconv.Itoa(i))
			if err := os.WriteFile(a.Records, data, 0o600); err != nil {
				t.Error(err)
			}
		}
	}
	return f.Write(&run)
}

func written(t *testing.T, run Run) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "result")
	if _, err := write(t, dir, run); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestMergedOverAgents: totals and percentiles of three agents are those of one histogram with
// all their values, and what is read back is what was written (L7).
func TestMergedOverAgents(t *testing.T) {
	t.Parallel()
	run, truth := model{seed: 1, agents: 3, seconds: 10, config: config}.run(t)
	dir := written(t, run)
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(truth, r.Totals, cmp.AllowUnexported(histogram.Histogram{})); diff != "" {
		t.Error("totals", diff)
	}
	want := latencyOf(&truth[stats.Key{Operation: "read", SizeClass: "<=4KiB"}].Service)
	if diff := cmp.Diff(want, r.Summary.Operations[0].Service); r.Summary.Operations[0].Operation != "read" || diff != "" {
		t.Error(diff)
	}
	before, err := Evaluate(&run)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Summary, r.Summary); diff != "" {
		t.Error("summary", diff)
	}
	if diff := cmp.Diff(before.Series, r.Series); diff != "" {
		t.Error("series", diff)
	}
	if s := r.Summary; s.Partial || s.Seconds != 8 || *s.Skew != (Skew{First: 100_000, Last: 600_000, Bound: 40_000}) || len(r.Series) != 10 {
		t.Errorf("%+v", s)
	}
	checkIntervals(t, dir, r)
}

// checkIntervals: the rows of intervals.tsv add up to the totals, per agent and over all.
func checkIntervals(t *testing.T, dir string, r *Report) {
	t.Helper()
	sums := map[string]uint64{}
	for _, row := range rows(t, filepath.Join(dir, "intervals.tsv")) {
		n, err := strconv.ParseUint(row["operations"], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if row["warmup"] == "false" {
			sums[row["agent"]+" "+row["operation"]] += n
		}
	}
	want := map[string]uint64{"all all": r.Summary.Total.Operations}
	for _, o := range r.Summary.Operations {
		want["all "+o.Operation] = o.Operations
	}
	for _, a := range r.Summary.Agents {
		want[a.ID+" all"] = a.Operations
	}
	if diff := cmp.Diff(want, sums); diff != "" {
		t.Error(diff)
	}
}

// rows reads a table by its columns, of which each row has all.
func rows(t *testing.T, path string) (all []map[string]string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text(t, path), "\n"), "\n")
	columns := strings.Split(lines[0], "\t")
	for _, line := range lines[1:] {
		cells := strings.Split(line, "\t")
		if len(cells) != len(columns) {
			t.Fatalf("%s: %d cells under %d columns: %q", path, len(cells), len(columns), line)
		}
		row := map[string]string{}
		for i, c := range columns {
			row[c] = cells[i]
		}
		all = append(all, row)
	}
	return all
}

func text(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestFolder: the whole folder of a small run, but for its records, is as expected (L7).
func TestFolder(t *testing.T) {
	t.Parallel()
	run, _ := model{seed: 1, agents: 2, seconds: 4, config: config}.run(t)
	dir := written(t, run)
	var got strings.Builder
	for _, name := range tree(t, dir) {
		fmt.Fprintf(&got, "== %s\n", name)
		switch {
		case strings.HasSuffix(name, ".hgrm"):
			lines := strings.SplitAfter(text(t, filepath.Join(dir, name)), "\n")
			got.WriteString(strings.Join(lines[:4], "") + strings.Join(lines[len(lines)-5:], ""))
		case !strings.HasSuffix(name, ".pb"):
			got.WriteString(text(t, filepath.Join(dir, name)))
		}
	}
	golden(t, "testdata/folder.txt", got.String())
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(text(t, path), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func tree(t *testing.T, dir string) (names []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(dir, p)
			names = append(names, name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

// TestDistribution: a distribution is in the form of HdrHistogram: percentiles ascend to 1, and
// the value at each is what the histogram says (L7).
func TestDistribution(t *testing.T) {
	t.Parallel()
	var h histogram.Histogram
	for v := range int64(1000) {
		h.Record(v * v)
	}
	var out strings.Builder
	if err := distribution(&h)(&out); err != nil {
		t.Fatal(err)
	}
	last, lines := 0.0, 0
	for line := range strings.Lines(out.String()) {
		var value, percentile, inverse float64
		var count uint64
		if n, _ := fmt.Sscan(line, &value, &percentile, &count, &inverse); n < 3 {
			continue
		}
		lines++
		if want := float64(h.Quantile(float64(count)/1000)) / 1e6; percentile <= last || fmt.Sprintf("%.6f", value) != fmt.Sprintf("%.6f", want) {
			t.Errorf("value %v at %v, want %v", value, percentile, want)
		}
		last = percentile
	}
	if last != 1 || lines < 100 || !strings.Contains(out.String(), "Total count    =         1000]") {
		t.Error(last, lines, out.String())
	}
}

// TestThresholds: each threshold that is not kept is a sentence with the value and the limit (L7).
func TestThresholds(t *testing.T) {
	t.Parallel()
	run, truth := model{seed: 2, agents: 2, seconds: 10, config: config}.run(t)
	p99 := truth[stats.Key{Operation: "read", SizeClass: "<=4KiB"}].Response.Quantile(0.99)
	run.Test.Threshold = []spec.Threshold{
		{Operation: spec.Read, Metric: spec.P99, Limit: float64(p99)}, // kept
		{Operation: spec.Read, Metric: spec.P99, Limit: float64(p99 - 1)},
		{Metric: spec.Failures, Limit: 0},
		{Operation: spec.Stat, Metric: spec.Failures, Limit: 0}, // kept
		{Metric: spec.Throughput, Limit: 1 << 40},
		{Operation: spec.Write, Metric: spec.Operations, Limit: 1}, // kept
		{Operation: spec.Delete, Metric: spec.P50, Limit: 1},
	}
	r, err := write(t, filepath.Join(t.TempDir(), "r"), run)
	if err != nil {
		t.Fatal(err)
	}
	got := r.Summary.Violations
	failed := truth[stats.Key{Operation: "read", SizeClass: "<=4KiB"}].Errors["io"]
	rate := fmt.Sprintf("%.1f MiB/s", float64(sum(truth, "").Bytes)/8/(1<<20))
	want := []string{
		fmt.Sprintf("p99 of read: %s, want at most %s", time.Duration(p99), time.Duration(p99-1)),
		fmt.Sprintf("errors of all operations: %d, want at most 0", failed),
		fmt.Sprintf("throughput of all operations: %s, want at least 1048576.0 MiB/s", rate),
		"p50 of delete: nothing was measured",
	}
	if diff := cmp.Diff(want, got); diff != "" || failed == 0 {
		t.Error(diff)
	}
}

// TestThresholdOfFailures: a latency is not within its limit only because every operation has failed (L7).
func TestThresholdOfFailures(t *testing.T) {
	t.Parallel()
	failed := &Figures{Errors: 7, Response: &Latency{}}
	for metric, want := range map[spec.Metric]string{spec.P99: "nothing was measured", spec.Maximum: "nothing was measured", spec.Failures: "7, want at most 1"} {
		if got := violation(spec.Threshold{Metric: metric, Limit: 1}, failed); got != want {
			t.Errorf("%s: %q, want %q", metric, got, want)
		}
	}
}

// TestThresholdOfOverdue: operations that were due for longer than a limit and had not begun at the end
// count as slower than it, though no histogram has them (L7).
func TestThresholdOfOverdue(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		metric  spec.Metric
		limit   time.Duration
		backlog [2]uint64 // of each agent
		want    string
	}{
		{spec.P99, time.Second, [2]uint64{}, ""},
		{spec.P99, time.Second, [2]uint64{101, 0}, ""},
		{spec.P99, time.Second, [2]uint64{100, 100}, ""}, // of which none was due for a second
		{spec.P99, time.Second, [2]uint64{200, 0}, "100 operations had been due for longer than 1s and not begun at the end"},
		{spec.P50, time.Second, [2]uint64{200, 0}, ""}, // half of them are above the median
		{spec.Maximum, time.Second, [2]uint64{101, 0}, "1 operations had been due for longer than 1s and not begun at the end"},
		{spec.Throughput, time.Second, [2]uint64{200, 200}, ""},
	} {
		r := &Report{Run: &Run{Test: &spec.Test{Rate: &spec.Rate{Operations: 100}}}}
		r.Summary.Total = Figures{Operations: 2000, Response: &Latency{Count: 2000}}
		for _, n := range tt.backlog {
			r.Summary.Agents, r.Summary.NotBegun = append(r.Summary.Agents, AgentPart{NotBegun: n}), r.Summary.NotBegun+n
		}
		if got := r.overdue(spec.Threshold{Metric: tt.metric, Limit: float64(tt.limit)}); got != tt.want {
			t.Errorf("%s with %v: %q, want %q", tt.metric, tt.backlog, got, tt.want)
		}
	}
}

// TestWritten: a folder that is there is never written into, and a run that cannot be written
// leaves nothing (L7).
func TestWritten(t *testing.T) {
	t.Parallel()
	run, _ := model{seed: 1, agents: 1, seconds: 3, config: config}.run(t)
	dir := written(t, run)
	before := text(t, filepath.Join(dir, "summary.json"))
	for _, there := range []string{dir, t.TempDir()} {
		_, err := write(t, there, run)
		var refused *pawl.Error
		if !errors.As(err, &refused) || refused.Kind != pawl.Conflict {
			t.Errorf("%s: %v", there, err)
		}
	}
	if text(t, filepath.Join(dir, "summary.json")) != before {
		t.Error("the folder has changed")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := write(t, filepath.Join(file, "r"), run); err == nil {
		t.Error("a result beneath a file")
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), ".*")); len(left) > 0 {
		t.Error("left behind:", left)
	}
}

// TestWriters: of two that write one folder at once one succeeds, and its files are complete (L7).
func TestWriters(t *testing.T) {
	t.Parallel()
	run, _ := model{seed: 1, agents: 2, seconds: 3, config: config}.run(t)
	dir := filepath.Join(t.TempDir(), "r")
	results := make(chan error, 4)
	for range cap(results) {
		go func() {
			_, err := write(t, dir, run)
			results <- err
		}()
	}
	succeeded := 0
	for range cap(results) {
		var refused *pawl.Error
		if err := <-results; err == nil {
			succeeded++
		} else if !errors.As(err, &refused) || refused.Kind != pawl.Conflict {
			t.Error(err)
		}
	}
	if _, err := Read(dir); err != nil || succeeded != 1 {
		t.Error(succeeded, err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(dir)); len(entries) != 1 {
		t.Error(entries)
	}
}

// TestPartial: what there is of a run that has not completed is kept and marked, whatever is
// wrong with the records of an agent (L5, L7).
func TestPartial(t *testing.T) {
	t.Parallel()
	whole, _ := model{seed: 1, agents: 1, seconds: 5, config: config}.run(t)
	path := whole.Agents[0].Records
	_, problem := (&Agent{Records: path}).result()
	if problem != nil {
		t.Fatal(problem)
	}
	var firstTwo, evil, unknown, endless bytes.Buffer
	n := 0
	for r, err := range (&Agent{Records: path}).records() {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n <= 3 { // the last of them after the warm-up
			record(t, &firstTwo, r)
		}
	}
	evil.Write(firstTwo.Bytes())
	record(t, &evil, &loadpb.ResultRecord{Record: &loadpb.ResultRecord_Interval{Interval: &loadpb.Interval{Operations: []*loadpb.OperationStats{{Operation: "../../x"}}}}})
	unknown.Write(firstTwo.Bytes())
	record(t, &unknown, &loadpb.ResultRecord{Record: &loadpb.ResultRecord_Interval{Interval: &loadpb.Interval{Operations: []*loadpb.OperationStats{{Operation: "defragment"}}}}})
	endless.Write(firstTwo.Bytes())
	record(t, &endless, &loadpb.ResultRecord{Record: &loadpb.ResultRecord_Interval{Interval: &loadpb.Interval{StartNs: 5, EndNs: 4}}})
	result := []byte(text(t, path))
	for _, tt := range []struct {
		name, problem string
		result        []byte
		intervals     int
	}{
		{"none", "there is no result", nil, 0},
		{"empty", "the result ends before its last record", []byte{}, 0},
		{"no last record", "the result ends before its last record", firstTwo.Bytes(), 3},
		{"torn", "record 6 of the result is damaged: unexpected EOF", result[:len(result)-1], 5},
		{"a name that leads elsewhere", `record 4 of the result is damaged: "../../x" of size class "" is no operation`, evil.Bytes(), 3},
		{"an operation that is none", `record 4 of the result is damaged: "defragment" of size class "" is no operation`, unknown.Bytes(), 3},
		{"an interval that ends before it begins", "record 4 of the result is damaged: from 5 ns to 4 ns is not a valid interval", endless.Bytes(), 3},
		{"a length of 2^50", "record 1 of the result is damaged: ", []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02, 0}, 0},
		{"noise", "record 1 of the result is damaged: ", bytes.Repeat([]byte{0x05}, 100), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run := whole
			run.Outcome, run.Reason = Failed, "an agent has failed"
			run.Agents = []Agent{whole.Agents[0]}
			run.Agents[0].Records, run.Agents[0].Info = file(t, tt.result), &loadpb.AgentInfo{Id: "../up"}
			run.Agents[0].Error = &loadpb.Error{Code: loadpb.ErrorCode_ERROR_CODE_CONNECTION_LOST, Message: "gone"}
			r, err := Read(written(t, run))
			if err != nil {
				t.Fatal(err)
			}
			a := r.Summary.Agents[0]
			if !strings.HasPrefix(a.Problem, tt.problem) || !r.Summary.Partial || len(r.Series) != tt.intervals || a.Folder != "agent-0" || a.Error.Message != "gone" {
				t.Errorf("%q, partial %t, %d intervals, folder %s", a.Problem, r.Summary.Partial, len(r.Series), a.Folder)
			}
			if want := max(float64(tt.intervals-2), 0); a.Seconds != want || (a.Operations > 0) != (want > 0) {
				t.Errorf("%v seconds, %d operations", a.Seconds, a.Operations)
			}
		})
	}
}

// TestLive: what has come of an agent without a result counts, and is marked in the summary, in the
// tables and on the page, with why it is so and what is missing (L5, L7).
func TestLive(t *testing.T) {
	t.Parallel()
	run, _ := model{seed: 1, agents: 2, seconds: 5, config: config}.run(t)
	var live bytes.Buffer
	n := 0
	for r := range run.Agents[1].records() {
		if n++; n != 3 && n < 6 { // one was lost on the way, and the result did not come
			record(t, &live, r)
		}
	}
	a := &run.Agents[1]
	a.Records, a.Live, a.Missing, a.Status = file(t, live.Bytes()), true, "connection refused", loadpb.Status_STATUS_RUNNING
	a.Error = &loadpb.Error{Code: loadpb.ErrorCode_ERROR_CODE_CONNECTION_LOST, Message: "gone"}
	dir := written(t, run)
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	whole, got := r.Summary.Agents[0], r.Summary.Agents[1]
	const problem = "there is no result; its figures are of the 4 intervals that have come while it ran, up to 5s, without 1 that were lost on the way: connection refused"
	if got.Problem != problem || !got.Live || !got.Partial || got.State() != "lost, partial" || got.Seconds != 2 || got.Service.Count == 0 || whole.Partial || r.Summary.Live != 1 || !r.Summary.Partial {
		t.Errorf("%+v", got)
	}
	if r.Summary.Total.Operations != got.Operations+whole.Operations {
		t.Errorf("%d operations in all", r.Summary.Total.Operations)
	}
	checkIntervals(t, dir, r)
	for _, row := range rows(t, filepath.Join(dir, "operations.tsv")) {
		if row["partial"] != "true" || row["live_agents"] != "1" {
			t.Error(row)
		}
	}
	for _, row := range rows(t, filepath.Join(dir, "intervals.tsv")) {
		if want := row["agent"] == "node-2" || row["agent"] == "all" && row["start_s"] != "2.000"; (row["live_agents"] == "1") != want {
			t.Error(row)
		}
	}
	if err := os.Remove(filepath.Join(dir, "agents", got.Folder, "live.pb")); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); pawl.KindOf(err) != pawl.Invalid { // and not figures without the agent
		t.Error(err)
	}
	run.Agents[1].Records = file(t, live.Bytes())
	page := pageOf(t, &run)
	wellFormed(t, page)
	for _, want := range []string{problem, "There is no result of 1 agent. All figures include what has come while it ran", `bad">lost, partial<`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestReadRefuses: what is no result folder, or one of another version, is named (L7).
func TestReadRefuses(t *testing.T) {
	t.Parallel()
	var e *pawl.Error
	if _, err := Read(t.TempDir()); !errors.As(err, &e) || e.Kind != pawl.NotFound {
		t.Error(err)
	}
	run, _ := model{seed: 1, agents: 1, seconds: 3, config: config}.run(t)
	for name, change := range map[string]func(*Summary){
		"is of schema 2":        func(s *Summary) { s.Schema = 2 },
		"is no folder of an":    func(s *Summary) { s.Agents[0].Folder = "../../etc" },
		"no such file or direc": func(s *Summary) { s.Agents[0].Folder = "other" },
	} {
		dir := written(t, run)
		path := filepath.Join(dir, "summary.json")
		var s Summary
		if err := json.Unmarshal([]byte(text(t, path)), &s); err != nil {
			t.Fatal(err)
		}
		change(&s)
		changed, _ := json.Marshal(s)
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestShiftedIntervals: the interval in which a warm-up ends and the one after it stay apart, and
// one that an agent lacks is that of the others (L7).
func TestShiftedIntervals(t *testing.T) {
	t.Parallel()
	run, _ := model{seed: 1, agents: 1, seconds: 3, config: config}.run(t)
	run.Agents = append(run.Agents, run.Agents[0])
	for i, starts := range [][]int64{{0, 1000, 1200, 2200}, {0, 1000, 2200}} {
		var out bytes.Buffer
		for _, ms := range starts {
			end := ms + 1000
			if ms == 1000 {
				end = 1200
			}
			record(t, &out, &loadpb.ResultRecord{Record: &loadpb.ResultRecord_Interval{Interval: &loadpb.Interval{
				StartNs: ms*1e6 + int64(i)*1e5, EndNs: end * 1e6, Warmup: ms < 1200, Operations: []*loadpb.OperationStats{{Operation: "stat", Operations: 1}},
			}}})
		}
		run.Agents[i].Records = file(t, out.Bytes())
	}
	r, err := Evaluate(&run)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range r.Series {
		got = append(got, fmt.Sprintf("%.1f-%.1f %t %d", p.Start, p.End, p.Warmup, p.Operations))
	}
	if diff := cmp.Diff([]string{"0.0-1.0 true 2", "1.0-1.2 true 2", "1.2-2.2 false 1", "2.2-3.2 false 2"}, got); diff != "" {
		t.Error(diff)
	}
}
