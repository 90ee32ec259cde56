package controller

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/internal/load/histogram"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/stats"
)

var read = stats.Key{Operation: "read", SizeClass: "<=4KiB"}

// TestSeries: the sum of what three agents send of an interval is one histogram of all of their
// values, in whatever order they send it, and in spite of what one of them drops (L7).
func TestSeries(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	truth := map[time.Duration]*histogram.Histogram{}
	var got []Interval
	s := series{every: time.Second, emit: func(i Interval) { got = append(got, i) }}
	behind := [3]int{0, 1, 1} // how many intervals an agent is behind the first
	for step := range 12 {
		for agent := range 3 {
			n := step - behind[agent]
			if n < 0 || n >= 10 || agent == 2 && n == 4 {
				continue // agent 2 has dropped the fifth
			}
			end := time.Duration(n+1) * time.Second
			if truth[end] == nil {
				truth[end] = &histogram.Histogram{}
			}
			c := &stats.Counter{}
			for range 100 {
				v := random.Int64N(1e9 << agent)
				c.Service.Record(v)
				truth[end].Record(v)
				c.Operations++
			}
			jitter := time.Duration(random.Int64N(int64(30 * time.Millisecond)))
			i := &loadpb.Interval{StartNs: int64(end - time.Second + jitter), EndNs: int64(end + jitter), Operations: stats.Table{read: c}.Proto(), Warmup: n < 2, Backlog: 1}
			if err := s.add(i, 3); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.flush()
	if len(got) != 10 {
		t.Fatalf("%d intervals, want 10", len(got))
	}
	for n, i := range got {
		want := 3
		if n == 4 {
			want = 2
		}
		if i.Agents != want || i.Backlog != uint64(want) || i.Warmup != (n < 2) || i.Start.Truncate(time.Second) != time.Duration(n)*time.Second {
			t.Errorf("interval %d: %+v", n, i)
		}
		if diff := cmp.Diff(truth[time.Duration(n+1)*time.Second], &i.Operations[read].Service, cmp.AllowUnexported(histogram.Histogram{})); diff != "" {
			t.Errorf("interval %d is not the sum:\n%s", n, diff)
		}
	}
}

// TestSeriesWaits: an interval is emitted once all agents have sent it, and at the latest once two
// later ones are there; what comes after that is left out. A warm-up may end between two others.
func TestSeriesWaits(t *testing.T) {
	t.Parallel()
	var got []time.Duration
	s := series{every: time.Second, emit: func(i Interval) { got = append(got, i.Start) }}
	send := func(start time.Duration) {
		t.Helper()
		if err := s.add(&loadpb.Interval{StartNs: int64(start), EndNs: int64(start + 400*time.Millisecond)}, 2); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		start time.Duration
		want  []time.Duration
	}{
		{0, nil},
		{0, []time.Duration{0}},
		{400 * time.Millisecond, nil},
		{400 * time.Millisecond, []time.Duration{400 * time.Millisecond}},
		{time.Second, nil},
		{2 * time.Second, nil},
		{3 * time.Second, []time.Duration{time.Second}},
		{time.Second, nil},
		{3 * time.Second, nil},
		{2 * time.Second, []time.Duration{2 * time.Second, 3 * time.Second}},
	} {
		got = nil
		if send(tt.start); !cmp.Equal(got, tt.want) {
			t.Errorf("after %v: %v, want %v", tt.start, got, tt.want)
		}
	}
	if err := s.add(&loadpb.Interval{StartNs: 4e9, EndNs: 5e9, Operations: []*loadpb.OperationStats{{Operation: "read", Service: &loadpb.Histogram{Buckets: []byte{1}}}}}, 1); err == nil {
		t.Error("a torn histogram is no error")
	}
}

// TestSeriesAfterShortWarmup: the interval after a warm-up that is much shorter than one is not taken
// for that of the warm-up, nor left out (L7).
func TestSeriesAfterShortWarmup(t *testing.T) {
	t.Parallel()
	var got []time.Duration
	s := series{every: time.Second, emit: func(i Interval) { got = append(got, i.Start, i.End, time.Duration(i.Agents)) }}
	for _, i := range []*loadpb.Interval{{EndNs: 30e6, Warmup: true}, {StartNs: 30e6, EndNs: 1030e6}, {EndNs: 30e6, Warmup: true}, {StartNs: 30e6, EndNs: 1030e6}} {
		if err := s.add(i, 2); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]time.Duration{0, 30e6, 2, 30e6, 1030e6, 2}, got); diff != "" {
		t.Error(diff)
	}
}
