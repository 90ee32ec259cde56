//go:build linux

package workload

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
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
// with --invalidate=0, or it would empty the cache on every pass, without --scramble_buffers, and with buffers
// that begin at a page, as the engine's do: copying 1 MiB to others takes up to four times as long.
// Of a sequence, each of 4 threads has a file of its own, and one thread takes the files one after the other.
//
// Spreads are fio's greatest over its least: a ratio that is no farther from 1 than the spread says nothing. On a busy
// machine the kernel shares out processors by session (sched_autogroup). The engine has one of its own, as under an
// agent, and each job of fio has one: the ratio of 4 jobs is for a machine with nothing else to do.
func BenchmarkFio(b *testing.B) {
	sharedFiles(b, func(job Job) { everyCase(b, job) })
}

// sharedFiles prepares the files that both use.
func sharedFiles(b *testing.B, f func(Job)) {
	b.Helper()
	if _, err := exec.LookPath("fio"); err != nil {
		b.Fatal("this needs fio: apt-get install fio")
	}
	job := newJob(b, fioConfig("read", "random", "4KiB", 1, false, "threads"))
	keeper := start(b, job)
	keeper.prepare()
	f(job)
	left(b, job, keeper.clean())
}

// fioConfig returns a config; engine may have a depth with it.
func fioConfig(kind, access, block string, jobs int, direct bool, engine string) string {
	return fmt.Sprintf("{name: fio, shared: true, files: [{name: data, count: 4, size: %dMiB}], mix: [{operation: %s, block: %s, access: %s}], jobs: %d, direct: %t, engine: %s, duration: %ds}",
		*fioSize, kind, block, access, jobs, direct, engine, *fioSeconds)
}

func everyCase(b *testing.B, job Job) {
	for _, c := range []struct{ name, kind, access, block, rw string }{
		{"read4KiB", "read", "random", "4KiB", "randread"},
		{"write4KiB", "write", "random", "4KiB", "randwrite"},
		{"read1MiB", "read", "sequential", "1MiB", "read"},
		{"write1MiB", "write", "sequential", "1MiB", "write"},
	} {
		for _, direct := range []bool{false, true} {
			for _, jobs := range []int{1, 4} {
				b.Run(fmt.Sprintf("%s/direct=%t/%djobs", c.name, direct, jobs), func(b *testing.B) {
					job := job
					job.Config = fioConfig(c.kind, c.access, c.block, jobs, direct, "threads")
					besideFio(b, job, []string{"--rw=" + c.rw, "--bs=" + strings.TrimSuffix(c.block, "iB"), fmt.Sprintf("--numjobs=%d", jobs), fmt.Sprintf("--direct=%d", toInt(direct)), "--ioengine=psync"})
				})
			}
		}
	}
}

// BenchmarkFioRing is BenchmarkFio for io_uring, with 32 operations in flight of one thread.
func BenchmarkFioRing(b *testing.B) {
	sharedFiles(b, func(job Job) {
		for kind, rw := range map[string]string{"read": "randread", "write": "randwrite"} {
			b.Run(kind+"4KiB/direct", func(b *testing.B) {
				job := job
				job.Config = fioConfig(kind, "random", "4KiB", 1, true, "uring, depth: 32")
				besideFio(b, job, []string{"--rw=" + rw, "--bs=4k", "--numjobs=1", "--direct=1", "--ioengine=io_uring", "--iodepth=32"})
			})
		}
	})
}

// fioFiles is how many files each thread of BenchmarkFioMetadata has.
const fioFiles = 2000

// BenchmarkFioMetadata is about operations on files, in fresh folders, by their latencies: the time that fio takes to
// choose a file grows with their number. Its creation is the opening alone; the engine closes the file as well.
func BenchmarkFioMetadata(b *testing.B) {
	if _, err := exec.LookPath("fio"); err != nil {
		b.Fatal("this needs fio: apt-get install fio")
	}
	for _, c := range []struct{ kind, engine, more string }{
		{"create", "filecreate", "--create_on_open=1 --openfiles=1"},
		{"stat", "filestat", "--openfiles=1"},
		{"delete", "filedelete", "--unlink=0"},
	} {
		for _, jobs := range []int{1, 4} {
			b.Run(fmt.Sprintf("%s/%djobs", c.kind, jobs), func(b *testing.B) { metadata(b, c.kind, c.engine, strings.Fields(c.more), jobs) })
		}
	}
}

func metadata(b *testing.B, kind, engine string, more []string, jobs int) {
	var ours, fios []measured
	for range *fioRounds {
		dir := b.TempDir()
		syscall.Sync()
		args := append([]string{"--name=pawl", "--output-format=json", "--group_reporting", "--thread=0", "--directory=" + dir, "--ioengine=" + engine, "--fallocate=none",
			"--filesize=4k", fmt.Sprintf("--nrfiles=%d", fioFiles), fmt.Sprintf("--numjobs=%d", jobs)}, more...)
		fios = append(fios, fioRun(b, args))
		files := jobs * fioFiles
		if kind == "create" {
			files = 0
		}
		job := newJob(b, fmt.Sprintf("{name: fio, files: [{name: data, count: %d, size: 4KiB}], mix: [{operation: %s}], jobs: %d, count: %d}", files, kind, jobs, jobs*fioFiles))
		if kind == "create" {
			job.Config = strings.Replace(job.Config, "operation: create", "operation: create, block: 0B", 1)
		}
		p := start(b, job)
		p.prepare()
		syscall.Sync()
		p.run(soon())
		_, _, f := p.finished()
		if f.GetError() != nil {
			b.Fatal(f.GetError())
		}
		ours = append(ours, measuredOf(b, f.GetTotals(), f.GetSeconds()))
		p.clean()
		p.wait()
	}
	latencies(b, "p50", p50Of(ours), p50Of(fios))
	latencies(b, "p99", p99Of(ours), p99Of(fios))
	b.ReportMetric(0, "ns/op")
}

// besideFio measures in turn and reports.
func besideFio(b *testing.B, job Job, args []string) {
	var ours, fios []measured
	if slices.Contains(args, "--direct=0") {
		warm(b, job)
	}
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
	latencies(b, "p50", p50Of(ours), p50Of(fios))
	latencies(b, "p99", p99Of(ours), p99Of(fios))
	b.ReportMetric(0, "ns/op")
}

// latencies reports a percentile beside that of fio, and how far apart runs of fio are.
func latencies(b *testing.B, name string, ours, fios []float64) {
	b.ReportMetric(median(fios), "fio-"+name+"-us")
	b.ReportMetric(median(ours), name+"-us")
	b.ReportMetric(median(ours)/median(fios), name+"-ratio")
	b.ReportMetric(slices.Max(fios)/slices.Min(fios), "fio-"+name+"-spread")
}

// warm reads the files into the cache, from which direct I/O has removed them.
func warm(b *testing.B, job Job) {
	b.Helper()
	for i := range 4 {
		f, err := os.Open(filepath.Join(job.Root, "load", job.RunID, "data", "f"+strconv.Itoa(i)))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, f); err != nil {
			b.Fatal(err)
		}
		_ = f.Close() // it was only read
	}
}

func fio(b *testing.B, job Job, args []string) measured {
	b.Helper()
	syscall.Sync()
	args = append([]string{"--name=pawl", "--output-format=json", "--group_reporting", "--thread=0", "--time_based",
		fmt.Sprintf("--runtime=%d", *fioSeconds), "--norandommap", "--invalidate=0", "--scramble_buffers=0", "--mem_align=4k"}, args...)
	return fioRun(b, append(args, fioFilesOf(job, args)...))
}

// fioFilesOf returns the arguments that give fio the files of a job, in the engine's order.
func fioFilesOf(job Job, args []string) []string {
	dir := filepath.Join(job.Root, "load", job.RunID, "data")
	sequential := slices.Contains(args, "--rw=read") || slices.Contains(args, "--rw=write")
	if sequential && slices.Contains(args, "--numjobs=4") {
		return []string{"--directory=" + dir, "--filename_format=f$jobnum", fmt.Sprintf("--size=%dm", *fioSize)}
	}
	var names []string
	for i := range 4 {
		names = append(names, filepath.Join(dir, "f"+strconv.Itoa(i)))
	}
	order := "--file_service_type=random"
	if sequential {
		order = "--file_service_type=sequential"
	}
	return []string{"--filename=" + strings.Join(names, ":"), fmt.Sprintf("--size=%dm", 4**fioSize), order}
}

func fioRun(b *testing.B, args []string) measured {
	b.Helper()
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
		if r.Clat.Percentile["50.000000"] > 0 {
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
