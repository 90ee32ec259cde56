package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/lab/contest"
)

// deployments are the topologies in which both systems are measured with processes of their own.
func deployments(scale float64) []bench.Deployment {
	jobs := func(n int) int { return max(1, int(float64(n)*scale)) }
	var all []bench.Deployment
	for _, workers := range []int{1, 2, 4} {
		for _, capacity := range []int{50, 500} {
			all = append(all,
				bench.Deployment{Name: fmt.Sprintf("backlog, %d x %d", workers, capacity), Workers: workers, Capacity: capacity, Submitters: 1, Jobs: jobs(20_000), Backlog: true},
				bench.Deployment{Name: fmt.Sprintf("live, %d x %d", workers, capacity), Workers: workers, Capacity: capacity, Submitters: 1, Jobs: jobs(20_000)})
		}
	}
	all = append(all,
		bench.Deployment{Name: "backlog of 200,000, 2 x 500", Workers: 2, Capacity: 500, Submitters: 1, Jobs: jobs(200_000), Backlog: true},
		bench.Deployment{Name: "live, 2 x 500, 4 submitters", Workers: 2, Capacity: 500, Submitters: 4, Jobs: jobs(20_000)},
		bench.Deployment{Name: "live, 2 x 500, 100 workflows", Workers: 2, Capacity: 500, Submitters: 1, Jobs: jobs(20_000), Kinds: 100},
		bench.Deployment{Name: "live, 2 x 500, 1 KiB", Workers: 2, Capacity: 500, Submitters: 1, Jobs: jobs(10_000), Payload: 1 << 10},
		bench.Deployment{Name: "live, 2 x 500, 64 KiB", Workers: 2, Capacity: 500, Submitters: 1, Jobs: jobs(2000), Payload: 64 << 10},
	)
	for _, rate := range []float64{500, 2000, 5000} {
		all = append(all, bench.Deployment{Name: fmt.Sprintf("offered, %g jobs/s", rate), Workers: 2, Capacity: 100, Submitters: 1, Jobs: jobs(int(rate) * 5), Rate: rate})
	}
	return all
}

// deployedAims are the design goals of Pawl as it is deployed.
func deployedAims(all []bench.Deployment) (aims []contest.Aim) {
	for _, d := range all {
		if d.Rate > 0 {
			aims = append(aims, contest.Aim{Workload: d.Name, Measure: contest.P50, Against: tunedRiver, AtMost: 0.7},
				contest.Aim{Workload: d.Name, Measure: contest.P99, Against: tunedRiver, AtMost: 0.5})
			continue
		}
		aims = append(aims, contest.Aim{Workload: d.Name, Measure: contest.JobRate, Against: tunedRiver, AtLeast: 1})
	}
	return aims
}

// runDeployed measures each deployment whose name has one of the words.
func runDeployed(ctx context.Context, p *contest.Program, schemas []*bench.Postgres, postmaster int, only []string) error {
	all := deployments(p.Scale())
	var outcomes contest.Outcome
	for _, d := range all {
		if !named(d.Name, only) {
			continue
		}
		var now *bench.Deployed
		open := func(system, url string, still func(context.Context) (func(context.Context) (bool, error), func() error, error)) func(context.Context) (bench.System, error) {
			return func(ctx context.Context) (bench.System, error) {
				asked, closed, err := still(ctx)
				if err != nil {
					return nil, err
				}
				d := d
				if system == pawl {
					d.Servers = 1
				}
				now = bench.Deploy(d, play(system, url), asked, closed)
				return now, nil
			}
		}
		c := contest.Contest{
			Entrants: []contest.Entrant{
				{Name: pawl, Open: open(pawl, schemas[0].URL(), func(ctx context.Context) (func(context.Context) (bool, error), func() error, error) {
					return bench.PawlStill(ctx, schemas[0].URL())
				})},
				{Name: tunedRiver, Open: open(tunedRiver, schemas[1].URL(), func(ctx context.Context) (func(context.Context) (bool, error), func() error, error) {
					return riverStill(ctx, schemas[1].URL())
				})},
			},
			Workloads: []bench.Workload{d.Workload()}, Aims: deployedAims(all),
			CPU: func() contest.CPU { return contest.Used(postmaster, now.PIDs()...) },
		}
		o, err := p.Measure(ctx, c)
		if err != nil {
			return err
		}
		outcomes.Ratios = append(outcomes.Ratios, o.Ratios...)
		outcomes.Turns = append(outcomes.Turns, o.Turns...)
	}
	return p.Write(&outcomes, pawl)
}

func named(name string, words []string) bool {
	for _, w := range words {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}

// play returns a function that makes the command for a process of a system: this program.
func play(system, url string) func(bench.Task) *exec.Cmd {
	return func(t bench.Task) *exec.Cmd {
		t.System, t.URL = system, url
		task, _ := json.Marshal(t) // of texts and numbers
		return exec.Command("/proc/self/exe", "-task", string(task))
	}
}

// playTask is this program as a process of a deployment.
func playTask(ctx context.Context, text string) error {
	var t bench.Task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return fmt.Errorf("-task: %w", err)
	}
	open := func(ctx context.Context, h *bench.Hand) (bench.Part, error) { return bench.OpenPawl(ctx, t, h) }
	if t.System != pawl {
		open = func(ctx context.Context, h *bench.Hand) (bench.Part, error) { return openRiverPart(ctx, t, h) }
	}
	return new(bench.Hand).Play(ctx, os.Stdin, os.Stdout, open)
}

// riverPart is a process of River, with the settings of riverTuned but for the number of workers.
type riverPart struct {
	bench.Task
	*riverSystem
}

func openRiverPart(ctx context.Context, t bench.Task, h *bench.Hand) (bench.Part, error) {
	set := riverTuned
	set.workers = max(t.Capacity, 1)
	r, err := openRiver(ctx, t.URL, set)
	if err != nil {
		return nil, err
	}
	r.hand, r.output = h, bench.Body(t.Payload)
	return &riverPart{t, r}, nil
}

// Go implements bench.Part.
func (p *riverPart) Go(ctx context.Context) error {
	if p.Role == bench.Worker {
		return p.Start(ctx)
	}
	body := bench.Body(p.Payload)
	return bench.Pace(ctx, p.Task, submitBatch, func(due []int64) error { return p.insert(ctx, due, body) })
}

// Close implements bench.Part. A client that has not been started cannot be stopped.
func (p *riverPart) Close() error {
	if p.Role == bench.Worker {
		return p.riverSystem.Close()
	}
	p.pool.Close()
	return nil
}

// riverStill is bench.PawlStill for River. Its schema is made before the processes ask for it at once.
func riverStill(ctx context.Context, url string) (func(context.Context) (bool, error), func() error, error) {
	r, err := openRiver(ctx, url, riverTuned)
	if err != nil {
		return nil, nil, err
	}
	return r.still, func() error { r.pool.Close(); return nil }, nil
}
