package console

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/internal/load/controller"
	"github.com/pawl-dev/pawl/internal/load/histogram"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/stats"
)

// TestDrawLoad: a run is drawn with what its operations took in the last interval and what a
// person should know of each agent. Nothing that an agent has sent moves the cursor (L7).
func TestDrawLoad(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 10, 14, 0, 12, 0, time.UTC)
	us := func(all ...int64) (h histogram.Histogram) {
		for _, v := range all {
			h.Record(v * 1000)
		}
		return h
	}
	due := us(80, 95_000)
	i := &controller.Interval{Start: 11 * time.Second, End: 12 * time.Second, Agents: 2, Backlog: 3, Operations: stats.Table{
		{Operation: "read", SizeClass: "<=4KiB"}:  {Operations: 12345, Bytes: 12345 * 4096, Service: us(70, 80, 1200)},
		{Operation: "read", SizeClass: "<=64KiB"}: {Operations: 10, Bytes: 1 << 20, Service: us(900)},
		{Operation: "stat"}:                       {Operations: 2, Errors: map[string]uint64{"not_found": 1, "io": 1}, Service: us(2, 3), Response: &due},
	}}
	l := Load{Name: "mix\x1b[2J", Length: 30 * time.Second, Last: i, View: controller.View{
		Phase: controller.Running, Start: now.Add(-12 * time.Second),
		Agents: []controller.AgentView{
			{Name: "agent a:7296", Status: loadpb.Status_STATUS_RUNNING, Measured: true, Clock: report.Clock{Offset: -5 * time.Second, Bound: 24 * time.Microsecond},
				Begun: true, Skew: [2]time.Duration{-3 * time.Microsecond, 1250 * time.Microsecond}, Dropped: 2},
			{Name: "agent b:7296", Status: loadpb.Status_STATUS_PREPARING, Progress: &loadpb.Progress{Phase: "files\x07", Done: 5, Total: 20, BytesPerSecond: 1 << 21}},
			{Name: "agent c:7296", Status: loadpb.Status_STATUS_READY, Failure: &loadpb.Error{Message: "no sign of life"}},
			{Name: "agent d:7296"},
		},
	}}
	want := strings.Split(strings.TrimSpace(`
mix�[2J  12.0s of 30.0s
OPERATION  OPS/S  MIB/S  P50     P99    P99.9  MAX    ERRORS
read       12355  49.2   80.9µs  1.2ms  1.2ms  1.2ms  0
stat       2.0    0.0    80.9µs  95ms   95ms   95ms   2
all        12357  49.2   80.9µs  95ms   95ms   95ms   2
AGENT   STATUS      CLOCK      SKEW                 NOTE
a:7296  running     -5s ±24µs  -3µs..+1.25ms ±24µs  2 statistics dropped
b:7296  preparing                                   files�: 5 of 20 (25%), 2.0 MiB/s
c:7296  lost                                        no sign of life
d:7296  connecting`), "\n")
	if diff := cmp.Diff(want, DrawLoad(l, Frame{Now: now})); diff != "" {
		t.Error(diff)
	}
	for _, line := range DrawLoad(l, Frame{Now: now, width: 30}) {
		if n := len([]rune(line)); n > 30 {
			t.Errorf("%d wide: %s", n, line)
		}
	}
	if got, want := LoadLine(i), "12.0s  read 12355/s 49.2 MiB/s p50 80.9µs p99 1.2ms; stat 2.0/s p50 80.9µs p99 95ms errors 2; 3 due"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for want, v := range map[string]controller.View{
		"ending: cancelled by user": {Phase: controller.Ending, Reason: "cancelled by user"},
		"preparing":                 {Phase: controller.Preparing},
		"begins in 800ms":           {Phase: controller.Running, Start: now.Add(800 * time.Millisecond)},
		"30.0s of 30.0s":            {Phase: controller.Running, Start: now.Add(-time.Minute)},
	} {
		if got := DrawLoad(Load{Length: 30 * time.Second, View: v}, Frame{Now: now})[0]; got != "  "+want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestLatency(t *testing.T) {
	t.Parallel()
	for ns, want := range map[int64]string{0: "0s", 999: "999ns", 1234: "1.23µs", 99_951: "100µs", 1_234_567: "1.23ms", 61_234_567_890: "1m1.2s"} {
		if got := Latency(ns); got != want {
			t.Errorf("%d: %s, want %s", ns, got, want)
		}
	}
}
