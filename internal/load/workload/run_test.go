//go:build linux

package workload

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/load/stats"
)

// TestEveryKind: each kind of operation does its work, alone and on files that come and go, and
// everything is cleaned up after that (L9).
func TestEveryKind(t *testing.T) {
	t.Parallel()
	for _, kind := range spec.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			job := newJob(t, `
name: kinds
files: [{name: data, count: 8, size: 64KiB, tree: {width: 2, depth: 2}}]
mix: [{operation: `+string(kind)+`, files: data}]
jobs: 2
count: 500
`)
			_, f := perform(t, job)
			if f.GetError() != nil {
				t.Fatal(f.GetError())
			}
			if n, _, _ := total(t, f, string(kind)); n != 500 {
				t.Errorf("%d operations: want 500; %v", n, f)
			}
		})
	}
}

// TestIntervalsAddUp: the intervals after the warm-up are together the totals, histograms included, and those of
// the warm-up are marked and left out (L4, L7, L9).
func TestIntervalsAddUp(t *testing.T) {
	t.Parallel()
	job := newJob(t, `
name: sums
files: [{name: data, count: 4, size: {uniform: {min: 64KiB, max: 1MiB}}}]
mix:
  - {operation: read, weight: 5, block: {uniform: {min: 1B, max: 64KiB}}}
  - {operation: write, weight: 3, block: {list: [{size: 4KiB, weight: 1}, {size: 64KiB, weight: 2}]}, access: sequential}
  - {operation: stat, access: zipf}
jobs: 3
warmup: 250ms
duration: 500ms
interval: 100ms
rate: {operations: 20000, arrival: poisson}
`)
	intervals, f := perform(t, job)
	sums, totals := stats.Table{}, stats.Table{}
	var edges []int64
	for _, i := range intervals {
		edges = append(edges, i.GetStartNs()/1e6)
		if i.GetWarmup() != (i.GetStartNs() < 250e6) || i.GetEndNs() > i.GetStartNs()+100e6 {
			t.Errorf("from %d to %d ns: warm-up %t", i.GetStartNs(), i.GetEndNs(), i.GetWarmup())
		}
		if len(i.GetOperations()) == 0 || i.GetCpuUserSeconds()+i.GetCpuSystemSeconds() < 0 {
			t.Errorf("interval %v", i)
		}
		if i.GetWarmup() {
			continue
		}
		if err := sums.Add(i.GetOperations()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]int64{0, 100, 200, 250, 350, 450, 550, 650}, edges); diff != "" {
		t.Error(diff)
	}
	if err := totals.Add(f.GetTotals()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(totals.Proto(), sums.Proto(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	for k, c := range totals {
		if c.Service.Count() != c.Operations || c.Response.Count() != c.Operations || c.Response.Sum() < c.Service.Sum() {
			t.Errorf("%v: %d operations, %d and %d latencies", k, c.Operations, c.Service.Count(), c.Response.Count())
		}
	}
	if len(totals) < 5 {
		t.Errorf("%v: want reads of three size classes at least, writes of two, and stats", totals.Keys())
	}
}

// TestResponseTime: operations that begin late count from the time at which they were due: a target that is too slow
// for the rate shows in the response times and the backlog, not in the service times (L9).
func TestResponseTime(t *testing.T) {
	t.Parallel()
	job := newJob(t, "{name: late, files: [{name: data, count: 1, size: 4KiB}], mix: [{operation: read}], rate: 1e8, duration: 300ms, interval: 100ms}")
	intervals, f := perform(t, job)
	service, err := stats.Decode(f.GetTotals()[0].GetService())
	if err != nil {
		t.Fatal(err)
	}
	response, err := stats.Decode(f.GetTotals()[0].GetResponse())
	if err != nil {
		t.Fatal(err)
	}
	if response.Quantile(.5) < 10*service.Quantile(.5) || response.Max() < 200e6 {
		t.Errorf("service time %d ns, response time %d ns, %d at most", service.Quantile(.5), response.Quantile(.5), response.Max())
	}
	last := uint64(0)
	for _, i := range intervals[:3] {
		if i.GetBacklog() <= last {
			t.Errorf("the backlog is %d after %d", i.GetBacklog(), last)
		}
		last = i.GetBacklog()
	}
}

// TestRate: a rate is what is issued, in turn or at random (L9).
func TestRate(t *testing.T) {
	t.Parallel()
	for _, arrival := range []string{"constant", "poisson"} {
		t.Run(arrival, func(t *testing.T) {
			t.Parallel()
			job := newJob(t, "{name: rate, files: [{name: data}], mix: [{operation: create}], engine: \"null\", rate: {operations: 5000, arrival: "+arrival+"}, jobs: 2, duration: 1s}")
			_, f := perform(t, job)
			n, _, _ := total(t, f, "create")
			if n < 4500 || n > 5500 || arrival == "constant" && n > 5001 {
				t.Errorf("%d operations in a second: want 5000", n)
			}
		})
	}
}

// TestStart: threads begin at the start time and not before, and a start that has passed begins at once.
func TestStart(t *testing.T) {
	t.Parallel()
	job := newJob(t, "{name: start, files: [{name: data, count: 1, size: 4KiB}], mix: [{operation: read}], count: 10, jobs: 2}")
	p := start(t, job)
	p.prepare()
	at := soon() + int64(time.Second) // a busy machine must not miss it
	p.run(at)
	_, started, f := p.finished()
	if started.GetIntendedNs() != at || started.GetFirstNs() < at || started.GetLastNs() < started.GetFirstNs() || started.GetThreads() != 2 {
		t.Errorf("intended %d, %v", at, started)
	}
	if n, _, _ := total(t, f, "read"); n != 10 {
		t.Error(f)
	}
}

// TestErrors: failed operations are counted by class; the budget says how many a run survives (L9).
func TestErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		budget string
		ends   bool
		failed uint64
	}{
		"no budget":       {"{count: 0}", true, 1},
		"a count":         {"{count: 7}", true, 8},
		"a large count":   {"{count: 400}", false, 400},
		"percent":         {"{percent: 100}", false, 400},
		"too few percent": {"{percent: 50}", true, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := newJob(t, "{name: errors, files: [{name: data, count: 4, size: 4KiB}], mix: [{operation: stat}], count: 400, errors: "+c.budget+"}")
			p := start(t, job)
			p.prepare()
			for _, f := range []string{"f0", "f1", "f2", "f3"} {
				if err := os.Remove(filepath.Join(job.Root, "load/01RUN/agent-0/data", f)); err != nil {
					t.Fatal(err)
				}
			}
			p.run(soon())
			_, _, f := p.finished()
			if n, _, failed := total(t, f, "stat"); n != 0 || failed != c.failed || f.GetTotals()[0].GetErrors()["not_found"] != failed {
				t.Errorf("%d failed, want %d: %v", failed, c.failed, f.GetTotals())
			}
			if (f.GetError().GetCode() == loadpb.ErrorCode_ERROR_CODE_IO) != c.ends {
				t.Errorf("ended: %v, want %t", f.GetError(), c.ends)
			}
			if n := len(f.GetErrorSamples()); n != int(min(c.failed, maxErrors)) || !strings.Contains(f.GetErrorSamples()[0], "no such file") {
				t.Errorf("samples: %q", f.GetErrorSamples())
			}
			left(t, job, p.clean())
		})
	}
}

// TestVerify: contents are as they were written, by whom- and whenever; one wrong byte is found (L9).
func TestVerify(t *testing.T) {
	t.Parallel()
	const config = `
name: verify
files: [{name: data, count: 3, size: 1100000B, compressible: 30}, {name: made}]
mix:
  - {operation: write, files: data, block: {uniform: {min: 1B, max: 70000B}}}
  - {operation: read, files: data, block: {uniform: {min: 1B, max: 300000B}}}
  - {operation: read, files: made, block: 1000B}
  - {operation: create, files: made, block: {uniform: {min: 1B, max: 20000B}}}
  - {operation: rename, files: made}
  - {operation: delete, files: made}
  - {operation: append, files: made, block: 700B}
jobs: 3
count: 3000
verify: true
`
	_, f := perform(t, newJob(t, config))
	if f.GetError() != nil {
		t.Error(f.GetError())
	}
	job := newJob(t, "{name: verify, files: [{name: data, count: 1, size: 64KiB}], mix: [{operation: read, block: 64KiB}], count: 10, verify: true}")
	p := start(t, job)
	p.prepare()
	file, err := os.OpenFile(filepath.Join(job.Root, "load/01RUN/agent-0/data/f0"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte{1, 2, 3}, 5000); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	p.run(soon())
	_, _, f = p.finished()
	if e := f.GetError(); e.GetCode() != loadpb.ErrorCode_ERROR_CODE_VERIFICATION || !strings.Contains(e.GetMessage(), "offset 4608 ") {
		t.Error(e)
	}
	if _, _, n := total(t, f, "read"); n != 1 || f.GetTotals()[0].GetErrors()["verification"] != 1 {
		t.Error(f.GetTotals())
	}
}

// TestLostData: a file that is shorter than what was written is found, by both engines (L9).
func TestLostData(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"threads", "uring"} {
		job := newJob(t, "{name: lost, engine: "+engine+", files: [{name: data, count: 1, size: 64KiB}], mix: [{operation: read, block: 64KiB}], count: 10, verify: true}")
		p := start(t, job)
		p.prepare()
		if err := os.Truncate(filepath.Join(job.Root, "load/01RUN/agent-0/data/f0"), 5000); err != nil {
			t.Fatal(err)
		}
		p.run(soon())
		_, _, f := p.finished()
		if e := f.GetError(); e.GetCode() != loadpb.ErrorCode_ERROR_CODE_VERIFICATION || !strings.Contains(e.GetMessage(), "the file ends at offset 5000, before what was written") {
			t.Error(engine, e)
		}
	}
}

// TestShared: agents that share a set create a part of it each, use all of it, keep what is there, and delete
// their part.
func TestShared(t *testing.T) {
	t.Parallel()
	first := newJob(t, "{name: shared, shared: true, cleanup: nothing, verify: true, files: [{name: data, count: 5, size: 64KiB}], mix: [{operation: read, access: sequential}, {operation: write}], count: 500}")
	first.AgentCount = 2
	second := first
	second.AgentIndex, second.Manifest = 1, first.Manifest+"2"
	a, b := start(t, first), start(t, second)
	if n := a.prepare().GetFiles() + b.prepare().GetFiles(); n != 5 {
		t.Errorf("%d files: want 5", n)
	}
	for _, p := range []*process{a, b} {
		p.run(soon())
		if _, _, f := p.finished(); f.GetError() != nil {
			t.Error(f.GetError())
		}
	}
	again := second
	again.Manifest += "2"
	c := start(t, again)
	if s := c.prepare(); s.GetKeptFiles() != 2 || s.GetBytes() != 0 {
		t.Errorf("prepared again: %v", s)
	}
	c.clean()
	if report := b.clean(); report.GetDeletedFiles() != 2 || len(report.GetErrors()) > 0 {
		t.Error(report)
	}
	left(t, first, a.clean())
}

// TestDirect: direct I/O is done in the alignment of the file system, and refused where there is none or blocks do
// not fit (L9).
func TestDirect(t *testing.T) {
	t.Parallel()
	const config = "{name: direct, direct: true, verify: true, files: [{name: data, count: 3, size: {uniform: {min: 1B, max: 300000B}}}, {name: made}], mix: [{operation: read, files: data, access: ACCESS}, {operation: create, files: made, block: 12KiB}, {operation: read, files: made}], jobs: 2, count: 200}"
	for _, access := range []string{"random", "sequential", "zipf"} {
		_, f := perform(t, newJob(t, strings.Replace(config, "ACCESS", access, 1)))
		if f.GetError() != nil {
			t.Error(f.GetError())
		}
	}
	job := newJob(t, strings.Replace(config, "ACCESS", "random", 1))
	job.Root = memory(t)
	if e := start(t, job).refused(); e.GetCode() != loadpb.ErrorCode_ERROR_CODE_CONFIG_INVALID || e.GetSubject() != "direct" || !strings.Contains(e.GetMessage(), "tmpfs") {
		t.Error(e)
	}
	if _, faults := Plan(t.Context(), job); len(faults) != 1 || faults[0].GetSubject() != "direct" {
		t.Error(faults)
	}
}

// TestQuiet: nothing runs often beside the threads. Whatever wakes takes a processor from them, and with it, in the middle
// of a write, the lock of a file that the others wait for (L9).
func TestQuiet(t *testing.T) {
	t.Parallel()
	p := start(t, newJob(t, `{name: quiet, files: [{name: data, count: 1, size: 4KiB}], mix: [{operation: read}], engine: "null", rate: 10, duration: 2s}`))
	p.prepare()
	p.run(soon())
	_, _, f := p.finished()
	if f.GetError() != nil || p.wait() != 0 {
		t.Fatal(f.GetError(), p.errors)
	}
	const most = 2000 // the thread itself looks around every 10 ms
	if n := p.cmd.ProcessState.SysUsage().(*syscall.Rusage).Nvcsw; n > most {
		t.Errorf("the engine has woken %d times in 2 s, want %d at most", n, most)
	}
}
