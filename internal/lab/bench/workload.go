package bench

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// Sizes are the sizes of the workloads.
type Sizes struct {
	Jobs    int           // no-op jobs
	Graphs  int           // diamonds, and chains at once
	FanOuts int           // one after the other
	Samples int           // of each latency
	Idle    time.Duration // before each submission to an idle system
	Rate    float64       // jobs submitted per second
	Sustain time.Duration // for how long
}

func (n Sizes) withDefaults() Sizes {
	set := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	set(&n.Jobs, 20_000)
	set(&n.Graphs, 500)
	set(&n.FanOuts, 5)
	set(&n.Samples, 200)
	if n.Idle <= 0 {
		n.Idle = 20 * time.Millisecond
	}
	if n.Rate <= 0 {
		n.Rate = 1000
	}
	if n.Sustain <= 0 {
		n.Sustain = 10 * time.Second
	}
	return n
}

// A Workload is one way to use a system. Before and After are not measured.
type Workload struct {
	Name    string
	Before  func(ctx context.Context, s System, n Sizes) error
	Measure func(ctx context.Context, s System, n Sizes) (Figures, error)
	After   func(ctx context.Context, s System) error // nil: nothing is left to do
}

// Figures are the results of a workload.
type Figures struct {
	Jobs     int     `json:"jobs"`
	Steps    int     `json:"steps"`
	Failed   int     `json:"failed,omitempty"` // of the jobs; latencies are those of the others
	Seconds  float64 `json:"seconds"`
	JobRate  float64 `json:"jobs_per_second,omitempty"`  // of throughput
	StepRate float64 `json:"steps_per_second,omitempty"` // of throughput
	P50      Millis  `json:"p50_ms,omitempty"`           // of latency
	P99      Millis  `json:"p99_ms,omitempty"`           // of latency
	P999     Millis  `json:"p999_ms,omitempty"`          // of latency, with 1000 samples or more
}

// Millis is a duration in milliseconds.
type Millis float64

// Workloads returns all there are.
func Workloads() []Workload {
	return []Workload{
		{"no-op jobs, insert", idle, insert, work},
		backlog(Noop),
		{EndToEnd, warm(Noop), many(Noop), nil},
		{Diamonds, warm(Diamond), many(Diamond), nil},
		{"chains of 3, many at once", warm(Chain3), many(Chain3), nil},
		{Chains, warm(Chain10), many(Chain10), nil},
		{"chain of 3, one at a time", warm(Chain3), single(Chain3), nil},
		{OneChain, warm(Chain10), single(Chain10), nil},
		{FanOuts, warm(FanOut), fanOut(FanOut, 1), nil},
		{WideFanOuts, warm(Noop), fanOut(WideFanOut, 5), nil},
		{Starts, warm(Noop), starts, nil},
		{"sustained load", warm(Noop), sustained, nil},
	}
}

// Workloads that other packages name.
const (
	Drained  = "no-op jobs, drain"
	EndToEnd = "no-op jobs, end to end"
	Diamonds = "diamonds of 4, many at once"
	Chains   = "chains of 10, many at once"
	OneChain = "chain of 10, one at a time"
	Starts   = "submit to start, idle"

	FanOuts     = "fan-out 1 -> 1000 -> 1, one at a time"
	WideFanOuts = "fan-out 1 -> 10000 -> 1, one at a time"
)

// Select returns the workloads whose names contain one of the words; without a
// word, all.
func Select(words ...string) []Workload {
	if len(words) == 0 {
		return Workloads()
	}
	return slices.DeleteFunc(Workloads(), func(w Workload) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return strings.Contains(w.Name, word) })
	})
}

func idle(context.Context, System, Sizes) error { return nil }

// backlog measures workers on jobs submitted before they started.
func backlog(shape Shape) Workload {
	submit := func(ctx context.Context, s System, n Sizes) error { return s.Submit(ctx, shape, n.Jobs) }
	drain := func(ctx context.Context, s System, n Sizes) (Figures, error) {
		begun := time.Now()
		err := work(ctx, s)
		return rate(n.Jobs, shape, begun), err
	}
	return Workload{Drained, submit, drain, nil}
}

// warm runs one job, so that everything is open and compiled.
func warm(shape Shape) func(context.Context, System, Sizes) error {
	return func(ctx context.Context, s System, _ Sizes) error {
		if err := s.Start(ctx); err != nil {
			return err
		}
		return s.Run(ctx, shape)
	}
}

// work runs the jobs that were submitted before.
func work(ctx context.Context, s System) error {
	if err := s.Start(ctx); err != nil {
		return err
	}
	return s.Drain(ctx)
}

func rate(jobs int, s Shape, begun time.Time) Figures {
	d, steps := time.Since(begun).Seconds(), jobs*s.Steps
	return Figures{Jobs: jobs, Steps: steps, Seconds: d, JobRate: float64(jobs) / d, StepRate: float64(steps) / d}
}

// insert submits jobs while no worker runs.
func insert(ctx context.Context, s System, n Sizes) (Figures, error) {
	begun := time.Now()
	err := s.Submit(ctx, Noop, n.Jobs)
	return rate(n.Jobs, Noop, begun), err
}

// many submits jobs to a running system, and waits until all have ended.
func many(shape Shape) func(context.Context, System, Sizes) (Figures, error) {
	return func(ctx context.Context, s System, n Sizes) (Figures, error) {
		jobs := n.Graphs
		if shape.Steps == 1 {
			jobs = n.Jobs
		}
		begun := time.Now()
		if err := s.Submit(ctx, shape, jobs); err != nil {
			return Figures{}, err
		}
		err := s.Drain(ctx)
		return rate(jobs, shape, begun), err
	}
}

// single runs jobs one at a time and measures each, from its submission until its end is
// known.
func single(shape Shape) func(context.Context, System, Sizes) (Figures, error) {
	return func(ctx context.Context, s System, n Sizes) (Figures, error) {
		return sample(n.Samples, shape, func() (time.Duration, error) {
			begun := time.Now()
			err := s.Run(ctx, shape)
			return time.Since(begun), err
		})
	}
}

// fanOut runs fan-outs one at a time, a part of those of the sizes: their rate of steps, and the
// time of each.
func fanOut(shape Shape, part int) func(context.Context, System, Sizes) (Figures, error) {
	return func(ctx context.Context, s System, n Sizes) (Figures, error) {
		f, err := single(shape)(ctx, s, Sizes{Samples: max(1, n.FanOuts/part)})
		f.StepRate = float64(f.Steps) / f.Seconds
		return f, err
	}
}

// starts measures the time from a submission to an idle system until the job's step begins.
func starts(ctx context.Context, s System, n Sizes) (Figures, error) {
	began := make(chan time.Time, 1) // 1: read after the job has ended
	s.Begin(func(t time.Time) { began <- t })
	defer s.Begin(nil)
	return sample(n.Samples, Noop, func() (time.Duration, error) {
		time.Sleep(n.Idle)
		begun := time.Now()
		if err := s.Run(ctx, Noop); err != nil {
			return 0, err
		}
		return (<-began).Sub(begun), nil
	})
}

func sample(n int, shape Shape, f func() (time.Duration, error)) (Figures, error) {
	times := make([]time.Duration, n)
	begun := time.Now()
	for i := range times {
		var err error
		if times[i], err = f(); err != nil {
			return Figures{}, err
		}
	}
	return latencies(times, shape, begun), nil
}

func latencies(times []time.Duration, shape Shape, begun time.Time) Figures {
	f := Figures{Jobs: len(times), Steps: len(times) * shape.Steps, Seconds: time.Since(begun).Seconds()}
	slices.Sort(times)
	at := func(q float64) Millis {
		return Millis(float64(times[int(q*float64(len(times)-1))].Microseconds()) / 1000)
	}
	f.P50, f.P99 = at(0.50), at(0.99)
	if len(times) >= 1000 {
		f.P999 = at(0.999)
	}
	return f
}

// sustained submits no-op jobs at a fixed rate, whether or not the system keeps up. The time
// of a job counts from its intended submission, so that a stalled system does not hide the
// jobs it delayed.
func sustained(ctx context.Context, s System, n Sizes) (Figures, error) {
	times := make([]time.Duration, max(1, int(n.Rate*n.Sustain.Seconds())))
	errs := make([]error, len(times))
	begun := time.Now()
	var jobs sync.WaitGroup
	for i := range times {
		meant := begun.Add(time.Duration(float64(i) / n.Rate * float64(time.Second)))
		time.Sleep(time.Until(meant))
		jobs.Go(func() {
			errs[i] = s.Run(ctx, Noop)
			times[i] = time.Since(meant)
		})
	}
	jobs.Wait()
	for _, err := range errs {
		if err != nil {
			return Figures{}, err
		}
	}
	f := latencies(times, Noop, begun)
	f.JobRate = float64(f.Jobs) / f.Seconds
	return f, nil
}
