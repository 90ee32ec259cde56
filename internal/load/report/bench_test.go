package report

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

// hour returns an hour of four agents with three operations: the intervals of a minute, repeated.
func hour(b *testing.B) Run {
	run, _ := model{seed: 1, agents: 4, seconds: 60, config: config}.run(b)
	for i := range run.Agents {
		var minute []*loadpb.Interval
		for interval := range run.Agents[i].intervals() {
			minute = append(minute, interval)
		}
		last, err := run.Agents[i].result()
		if err != nil {
			b.Fatal(err)
		}
		var out bytes.Buffer
		for n := range 60 {
			for _, interval := range minute {
				interval.Warmup = interval.Warmup && n == 0
				record(b, &out, &loadpb.ResultRecord{Record: &loadpb.ResultRecord_Interval{Interval: interval}})
				interval.StartNs += int64(time.Minute)
				interval.EndNs += int64(time.Minute)
			}
		}
		record(b, &out, &loadpb.ResultRecord{Record: &loadpb.ResultRecord_Result{Result: last}})
		run.Agents[i].Records = file(b, out.Bytes())
	}
	return run
}

// BenchmarkWrite writes the result of a run of an hour, and BenchmarkCompare compares two.
func BenchmarkWrite(b *testing.B) {
	run := hour(b)
	info, err := os.Stat(run.Agents[0].Records)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(info.Size()), "B/agent")
	for b.Loop() {
		if _, err := write(b, filepath.Join(b.TempDir(), "r"), run); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompare(b *testing.B) {
	run := hour(b)
	r, err := Evaluate(&run)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Compare(r, r, false); err != nil {
			b.Fatal(err)
		}
	}
}
