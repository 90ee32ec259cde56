//go:build linux

package workload

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/stats"
)

var (
	fioSeconds = flag.Int("load.seconds", 3, "seconds of each measurement beside fio")
	fioRounds  = flag.Int("load.rounds", 3, "measurements of each kind")
	fioSize    = flag.Int("load.size", 256, "MiB of each of the 4 files")
)

// A measured is one measurement. Latencies are in microseconds.
type measured struct{ rate, p50, p99 float64 }

// BenchmarkFio holds the engine against fio: the same files, threads, blocks and seconds, one after
// the other in turn. ratio is the engine's median over fio's; fio-spread is fio's greatest over its
// least. Each measurement begins with a sync, since buffered writes depend on what is dirty. fio runs
// with --invalidate=0, or it would empty the cache on every pass, and without --scramble_buffers.
func BenchmarkFio(b *testing.B) {
	if _, err := exec.LookPath("fio"); err != nil {
		b.Fatal("this needs fio: apt-get install fio")
	}
	job := newJob(b, "")
	job.Manifest += ".0"
	config := func(kind, access, block string, jobs int, direct bool, engine string) string {
		return fmt.Sprintf(`
name: fio
shared: true
files: [{name: data, count: 4, size: %dMiB}]
mix: [{operation: %s, block: %s, access: %s}]
jobs: %d
direct: %t
engine: %s
duration: %ds
`, *fioSize, kind, block, access, jobs, direct, engine, *fioSeconds)
	}
	job.Config = config("read", "random", "4KiB", 1, false, "threads")
	keeper := start(b, job)
	keeper.prepare()
	defer func() { left(b, job, keeper.clean()) }()
	for _, c := range []struct{ name, kind, access, block, rw string }{
		{"read4KiB", "read", "random", "4KiB", "randread"},
		{"write4KiB", "write", "random", "4KiB", "randwrite"},
		{"read1MiB", "read", "sequential", "1MiB", "read"},
		{"write1MiB", "write", "sequential", "1MiB", "write"},
	} {
		for _, direct := range []bool{false, true} {
			for _, jobs := range []int{1, 4} {
				name := fmt.Sprintf("%s/%s/%djobs", c.name, map[bool]string{true: "direct", false: "buffered"}[direct], jobs)
				b.Run(name, func(b *testing.B) {
					job := job
					job.Config = config(c.kind, c.access, c.block, jobs, direct, "threads")
					besideFio(b, job, []string{"--rw=" + c.rw, "--bs=" + strings.TrimSuffix(c.block, "iB"), fmt.Sprintf("--numjobs=%d", jobs), fmt.Sprintf("--direct=%d", toInt(direct)), "--ioengine=psync"})
				})
			}
		}
	}
}

// besideFio measures in turn and reports.
func besideFio(b *testing.B, job Job, args []string) {
	var ours, fios []measured
	for range *fioRounds {
		fios = append(fios, fio(b, job, args))
		ours = append(ours, ourselves(b, job))
		fios = append(fios, fio(b, job, args))
	}
	rates := rateOf(fios)
	b.ReportMetric(median(rateOf(ours))/median(rates), "ratio")
	b.ReportMetric(slices.Max(rates)/slices.Min(rates), "fio-spread")
	b.ReportMetric(median(rates), "fio-ops/s")
	b.ReportMetric(median(rateOf(ours)), "ops/s")
	b.ReportMetric(median(p50Of(ours))/median(p50Of(fios)), "p50-ratio")
	b.ReportMetric(median(p99Of(ours))/median(p99Of(fios)), "p99-ratio")
	b.ReportMetric(0, "ns/op")
}

func fio(b *testing.B, job Job, args []string) measured {
	b.Helper()
	syscall.Sync()
	var names []string
	for i := range 4 {
		names = append(names, filepath.Join(job.Root, "load", job.RunID, "data", "f"+strconv.Itoa(i)))
	}
	args = append([]string{"--name=pawl", "--output-format=json", "--group_reporting", "--thread=0", "--time_based",
		fmt.Sprintf("--runtime=%d", *fioSeconds), fmt.Sprintf("--size=%dm", 4**fioSize), "--norandommap", "--invalidate=0", "--scramble_buffers=0",
		"--filename=" + strings.Join(names, ":")}, args...)
	out, err := exec.Command("fio", args...).Output()
	if err != nil {
		b.Fatalf("fio %v: %v", args, err)
	}
	var report struct {
		Jobs []map[string]json.RawMessage `json:"jobs"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		b.Fatal(err)
	}
	for _, side := range []string{"read", "write"} {
		var r struct {
			IOPS float64 `json:"iops"`
			Clat struct {
				Percentile map[string]float64 `json:"percentile"`
			} `json:"clat_ns"`
		}
		if err := json.Unmarshal(report.Jobs[0][side], &r); err != nil {
			b.Fatal(err)
		}
		if r.IOPS > 0 {
			return measured{r.IOPS, r.Clat.Percentile["50.000000"] / 1e3, r.Clat.Percentile["99.000000"] / 1e3}
		}
	}
	b.Fatalf("fio has done nothing: %s", out)
	return measured{}
}

func ourselves(b *testing.B, job Job) measured {
	b.Helper()
	syscall.Sync()
	job.Manifest = filepath.Join(b.TempDir(), "manifest")
	p := start(b, job)
	if s := p.prepare(); s.GetKeptFiles() != 4 {
		b.Fatalf("the files of the run are not those of fio: %v", s)
	}
	p.run(soon())
	_, _, f := p.finished()
	if f.GetError() != nil {
		b.Fatal(f.GetError())
	}
	return measuredOf(b, f.GetTotals(), f.GetSeconds())
}

func measuredOf(b *testing.B, totals []*loadpb.OperationStats, seconds float64) measured {
	b.Helper()
	t := stats.Table{}
	if err := t.Add(totals); err != nil {
		b.Fatal(err)
	}
	for _, c := range t {
		return measured{float64(c.Operations) / seconds, float64(c.Service.Quantile(.5)) / 1e3, float64(c.Service.Quantile(.99)) / 1e3}
	}
	b.Fatal("nothing was done")
	return measured{}
}

func rateOf(all []measured) (v []float64) {
	return values(all, func(m measured) float64 { return m.rate })
}
func p50Of(all []measured) (v []float64) {
	return values(all, func(m measured) float64 { return m.p50 })
}
func p99Of(all []measured) (v []float64) {
	return values(all, func(m measured) float64 { return m.p99 })
}

func values(all []measured, f func(measured) float64) (v []float64) {
	for _, m := range all {
		v = append(v, f(m))
	}
	return v
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if len(v) == 0 {
		return math.NaN()
	}
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
