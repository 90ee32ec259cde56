package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/lab/contest"
)

// deployments are the topologies in which both systems are measured with processes of their own.
// large ones, which take minutes, are among them if asked for. What disturbs uses the database at
// the URL.
func deployments(scale float64, large bool, url string) []bench.Deployment {
	jobs := func(n int) int { return max(1, int(float64(n)*scale)) }
	var all []bench.Deployment
	for _, workers := range []int{1, 2, 4} {
		for _, capacity := range []int{50, 500} {
			all = append(all,
				bench.Deployment{Name: fmt.Sprintf("backlog, %d x %d", workers, capacity), Workers: workers, Capacity: capacity, Submitters: 1, Jobs: jobs(20_000), Backlog: true},
				bench.Deployment{Name: fmt.Sprintf("live, %d x %d", workers, capacity), Workers: workers, Capacity: capacity, Submitters: 1, Jobs: jobs(20_000)})
			if large {
				all = append(all, bench.Deployment{Name: fmt.Sprintf("large backlog, %d x %d", workers, capacity), Workers: workers, Capacity: capacity, Submitters: 1, Jobs: jobs(200_000), Backlog: true})
			}
		}
	}
	all = append(all,
		bench.Deployment{Name: "live, 2 x 500, 4 submitters", Workers: 2, Capacity: 500, Submitters: 4, Jobs: jobs(20_000)},
		bench.Deployment{Name: "live, 2 x 500, 100 workflows", Workers: 2, Capacity: 500, Submitters: 1, Jobs: jobs(20_000), Kinds: 100},
		bench.Deployment{Name: "live, 2 x 500, 1 KiB", Workers: 2, Capacity: 500, Submitters: 1, Jobs: jobs(10_000), Payload: 1 << 10},
		bench.Deployment{Name: "live, 2 x 500, 64 KiB", Workers: 2, Capacity: 500, Submitters: 1, Jobs: jobs(2000), Payload: 64 << 10},
	)
	for _, rate := range []float64{500, 2000, 5000} {
		d := bench.Deployment{Name: fmt.Sprintf("offered, %g jobs/s", rate), Workers: 2, Capacity: 100, Submitters: 1, Jobs: jobs(int(rate) * 5), Rate: rate}
		snapshot, checkpoints := d, d
		snapshot.Name, snapshot.Beside = d.Name+", open snapshot", openSnapshot(url)
		checkpoints.Name, checkpoints.Beside = d.Name+", checkpoints", checkpointing(url)
		all = append(all, d, snapshot, checkpoints)
	}
	for _, b := range []struct{ size, jobs int }{{1, 2000}, {10, 10_000}, {100, 20_000}, {1000, 20_000}} {
		d := bench.Deployment{Name: fmt.Sprintf("submission, batches of %d", b.size), Workers: 1, Capacity: 500, Submitters: 1, Jobs: jobs(b.jobs), Batch: b.size, Submission: true}
		over := d
		over.Name, over.HTTP = fmt.Sprintf("submission over HTTP, batches of %d", b.size), true
		all = append(all, d, over)
	}
	return all
}

// deployedAims are the design goals of Pawl as it is deployed. A submission and what is disturbed
// have none.
func deployedAims(d bench.Deployment) []contest.Aim {
	switch {
	case d.Submission || d.Beside != nil:
		return nil
	case d.Rate > 0:
		return []contest.Aim{{Workload: d.Name, Measure: contest.P50, Against: tunedRiver, AtMost: 0.7},
			{Workload: d.Name, Measure: contest.P99, Against: tunedRiver, AtMost: 0.5}}
	}
	return []contest.Aim{{Workload: d.Name, Measure: contest.JobRate, Against: tunedRiver, AtLeast: 1}}
}

// runDeployed measures each deployment whose name has one of the words.
func runDeployed(ctx context.Context, p *contest.Program, schemas []*bench.Postgres, postmaster int, large bool) error {
	contests := deployedContests(p, schemas, postmaster, large)
	if named(twoProcesses, p.Words()) {
		c, done, err := processesOnOneFile(p.Scale())
		if err != nil {
			return err
		}
		defer done()
		contests = append(contests, c)
	}
	if len(contests) == 0 {
		return fmt.Errorf("-only: no deployment has one of %q in its name", p.Words())
	}
	all, err := measureAll(ctx, p, contests)
	return errors.Join(p.Write(all, pawl), err)
}

// measureAll measures contests until one fails, and returns what is measured then.
func measureAll(ctx context.Context, p *contest.Program, contests []contest.Contest) (*contest.Outcome, error) {
	all := new(contest.Outcome)
	for _, c := range contests {
		o, err := p.Measure(ctx, c)
		if all.Add(o); err != nil {
			return all, err
		}
	}
	return all, nil
}

// deployedContests are the contests of Pawl and River as they are deployed.
func deployedContests(p *contest.Program, schemas []*bench.Postgres, postmaster int, large bool) (contests []contest.Contest) {
	for _, d := range deployments(p.Scale(), large, schemas[0].URL()) {
		if !named(d.Name, p.Words()) {
			continue
		}
		var now *bench.Deployed
		own := d
		own.Servers = 1
		contests = append(contests, contest.Contest{
			Entrants:  []contest.Entrant{entrant(pawl, pawl, own, schemas[0].URL(), &now), entrant(tunedRiver, tunedRiver, d, schemas[1].URL(), &now)},
			Workloads: []bench.Workload{d.Workload()}, Aims: deployedAims(d),
			CPU: func() contest.CPU { return contest.Used(postmaster, now.PIDs()...) },
		})
	}
	return contests
}

// entrant is a system in a deployment on a database. now is set to it when its turn begins.
func entrant(name, system string, d bench.Deployment, url string, now **bench.Deployed) contest.Entrant {
	return contest.Entrant{Name: name, Open: func(ctx context.Context) (bench.System, error) {
		if d.Rate > 0 {
			if err := recycleLog(ctx, url); err != nil {
				return nil, err
			}
		}
		still := bench.PawlStill
		if system != pawl {
			still = riverStill
		}
		asked, closed, err := still(ctx, url)
		if err != nil {
			return nil, err
		}
		*now = bench.Deploy(d, play(system, url), asked, closed)
		return *now, nil
	}}
}

// twoProcesses is the workload of processesOnOneFile.
const twoProcesses = "sqlite, backlog, 2 processes"

// processesOnOneFile compares two processes that evaluate and work on one SQLite file with a
// single one that has all their slots.
func processesOnOneFile(scale float64) (contest.Contest, func(), error) {
	dir, err := os.MkdirTemp("", "pawl-peers-")
	if err != nil {
		return contest.Contest{}, nil, err
	}
	const single = "1 process"
	one := bench.Deployment{Name: twoProcesses, Workers: 1, Capacity: 500, Submitters: 1, Jobs: max(1, int(20_000*scale)), Backlog: true, Active: true}
	two := one
	two.Workers, two.Capacity = 2, one.Capacity/2
	var now *bench.Deployed
	return contest.Contest{
		Entrants: []contest.Entrant{
			entrant("2 processes", pawl, two, "sqlite://"+filepath.Join(dir, "two.db")+"?synchronous=full", &now),
			entrant(single, pawl, one, "sqlite://"+filepath.Join(dir, "one.db")+"?synchronous=full", &now),
		},
		Workloads: []bench.Workload{one.Workload()},
		Aims:      []contest.Aim{{Workload: twoProcesses, Measure: contest.JobRate, Against: single, AtLeast: 0.7}},
		CPU:       func() contest.CPU { return contest.Used(0, now.PIDs()...) },
	}, func() { os.RemoveAll(dir) }, nil
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
	return bench.Pace(ctx, p.Task, func(due []int64) error { return p.insert(ctx, due, body) })
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
