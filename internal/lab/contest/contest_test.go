package contest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/lab/contest"
)

// A fake is a system that has nothing to do.
type fake struct{ log *[]string }

func (f fake) Start(context.Context) error                    { return nil }
func (f fake) Submit(context.Context, bench.Shape, int) error { return nil }
func (f fake) Drain(context.Context) error                    { return nil }
func (f fake) Run(context.Context, bench.Shape) error         { return nil }
func (f fake) Begin(func(time.Time))                          {}
func (f fake) Close() error                                   { *f.log = append(*f.log, "close"); return nil }

// TestTurnsAndRatios: the rounds go in turns, each system is alone while it is
// measured, and a ratio is the median of the rounds' ratios, so that a machine
// which slows down for everybody changes nothing.
func TestTurnsAndRatios(t *testing.T) {
	t.Parallel()
	var log []string
	rates := map[string][]float64{"quick": {300, 30, 100}, "slow": {100, 10, 50}} // ratios 3, 3, 2
	current := ""
	entrant := func(name string) contest.Entrant {
		return contest.Entrant{Name: name, Sizes: bench.Sizes{Jobs: 10}, Open: func(context.Context) (bench.System, error) {
			log, current = append(log, "open "+name), name
			return fake{&log}, nil
		}}
	}
	work := bench.Workload{
		Name:   bench.EndToEnd,
		Before: func(context.Context, bench.System, bench.Sizes) error { return nil },
		Measure: func(_ context.Context, _ bench.System, n bench.Sizes) (bench.Figures, error) {
			rate := rates[current][0]
			rates[current] = rates[current][1:]
			return bench.Figures{Jobs: n.Jobs, Steps: n.Jobs, JobRate: rate, StepRate: rate}, nil
		},
	}
	c := contest.Contest{
		Entrants: []contest.Entrant{entrant("quick"), entrant("slow")}, Workloads: []bench.Workload{work}, Rounds: 3,
		Aims: []contest.Aim{
			{Workload: bench.EndToEnd, Measure: contest.JobRate, Against: "slow", AtLeast: 2.5},
			{Workload: bench.EndToEnd, Measure: contest.Transitions, Against: "bare database", AtLeast: 0.35},
		},
		CPU:  func() contest.CPU { return contest.CPU{} },
		Bare: func(_ context.Context, n int) (float64, error) { return 100 * float64(n), nil },
		Progress: func(_ string, round int, who, what string) {
			log = append(log, fmt.Sprint(round, " ", who, ": ", what))
		},
	}
	o, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	opened := slices.DeleteFunc(log, func(s string) bool { return !strings.HasPrefix(s, "open") && s != "close" })
	if got, want := strings.Join(opened[:8], ", "), "open quick, close, open slow, close, open slow, close, open quick, close"; got != want {
		t.Errorf("began with %s; want %s", got, want)
	}
	want := []contest.Ratio{
		{Workload: bench.EndToEnd, Measure: contest.JobRate, First: 100, Against: "slow", Other: 50, Ratio: 3, Least: 2, Most: 3, Aim: "at least 2.5", Met: true},
		{Workload: bench.EndToEnd, Measure: contest.Transitions, First: 800, Against: "bare database", Other: 8000, Ratio: 0.1, Least: 0.03, Most: 0.3, Aim: "at least 0.35"},
	}
	if diff := cmp.Diff(want, o.Ratios); diff != "" {
		t.Errorf("ratios (-want +got):\n%s", diff)
	}
	var table strings.Builder
	if err := o.WriteTable(&table, "quick"); err != nil || !strings.Contains(table.String(), "at least 0.35  missed") {
		t.Errorf("%v\n%s", err, table.String())
	}
}

// TestFailures: what failed in a turn is said, and who left work undone is compared with nobody.
func TestFailures(t *testing.T) {
	t.Parallel()
	var log []string
	failed := map[string]int{"busy": 2}
	current := ""
	var entrants []contest.Entrant
	for _, name := range []string{"first", "busy", "other"} {
		entrants = append(entrants, contest.Entrant{Name: name, Open: func(context.Context) (bench.System, error) {
			current = name
			return fake{&log}, nil
		}})
	}
	work := bench.Workload{
		Name:   "requests",
		Before: func(context.Context, bench.System, bench.Sizes) error { return nil },
		Measure: func(context.Context, bench.System, bench.Sizes) (bench.Figures, error) {
			return bench.Figures{Jobs: 10, Steps: 10, Failed: failed[current], P50: 1, P99: 2}, nil
		},
	}
	c := contest.Contest{
		Entrants: entrants, Workloads: []bench.Workload{work}, Rounds: 1,
		CPU: func() contest.CPU { return contest.CPU{} }, Progress: func(string, int, string, string) {},
	}
	var all contest.Outcome
	for range 2 {
		o, err := c.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all.Add(o)
		failed["first"] = 1
	}
	want := []contest.Ratio{
		{Workload: "requests", Measure: contest.P50, First: 1, Against: "other", Other: 1, Ratio: 1, Least: 1, Most: 1},
		{Workload: "requests", Measure: contest.P99, First: 2, Against: "other", Other: 2, Ratio: 1, Least: 1, Most: 1},
	}
	if diff := cmp.Diff(want, all.Ratios); diff != "" {
		t.Errorf("ratios (-want +got):\n%s", diff)
	}
	var table strings.Builder
	said := "requests, round 1: busy: 2 of 10 failed; of the others p50 1.00 ms, p99 2.00 ms\n"
	if err := all.WriteTable(&table, "first"); err != nil || strings.Count(table.String(), said) != 2 {
		t.Errorf("%v, want twice %q in:\n%s", err, said, table.String())
	}
}

// TestRoundsBeforeAnError: they are returned with it, and no turn of a round that was not ended.
func TestRoundsBeforeAnError(t *testing.T) {
	t.Parallel()
	var log []string
	turns, broken := 0, errors.New("all requests have failed")
	open := func(context.Context) (bench.System, error) { return fake{&log}, nil }
	work := bench.Workload{
		Name:   "requests",
		Before: func(context.Context, bench.System, bench.Sizes) error { return nil },
		Measure: func(context.Context, bench.System, bench.Sizes) (bench.Figures, error) {
			if turns++; turns == 4 {
				return bench.Figures{}, broken
			}
			return bench.Figures{Jobs: 10, Steps: 10, P50: 1, P99: 2}, nil
		},
	}
	o, err := contest.Contest{
		Entrants: []contest.Entrant{{Name: "first", Open: open}, {Name: "other", Open: open}}, Workloads: []bench.Workload{work}, Rounds: 3,
		CPU: func() contest.CPU { return contest.CPU{} }, Progress: func(string, int, string, string) {},
	}.Run(t.Context())
	if !errors.Is(err, broken) || len(o.Turns) != 2 || len(o.Ratios) != 2 {
		t.Errorf("%v, with %+v; want the first round", err, o)
	}
}
