package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/lab/contest"
	"github.com/pawl-dev/pawl/internal/load/histogram"
)

// A front takes the requests of programs, over HTTP or in this process.
type front struct {
	bench.System // of a front nothing else is called: it is nil

	submit func(ctx context.Context) (id string, err error) // makes a job of one step, which no worker runs
	read   func(ctx context.Context, id string) error
	pid    int // of its process; 0: it is in this one
	close  func() error

	jobs []string // those that are read
}

// Close implements bench.System.
func (f *front) Close() error { return f.close() }

// The entrants beside pawl, which is its server over HTTP.
const (
	direct          = "engine"
	tunedTemporal   = "temporal, WAL"
	defaultTemporal = "temporal default"
	riverUI         = "river ui"
)

// The requests.
const (
	submits = "submit"
	reads   = "read"
)

// frontRates are the requests per second that are sent, whatever becomes of them.
var frontRates = []int{50, 300, 1000}

const (
	frontTime    = 5 * time.Second // of a turn
	frontJobs    = 200             // that are read in turn
	requestLimit = 5 * time.Second // after the time at which a request was due, it has failed
)

// runFronts measures the fronts of all systems at fixed rates.
func runFronts(ctx context.Context, p *contest.Program, schemas []*bench.Postgres, postmaster int, bin string) error {
	dir, err := os.MkdirTemp("", "pawl-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	progs, err := build(ctx, bin)
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(runtime.NumCPU() + 1) // sleep keeps one
	var contests []contest.Contest
	found := false
	for _, c := range frontContests(progs, dir, schemas, postmaster) {
		for _, w := range frontWorkloads(c.database, c.requests, p.Scale()) {
			if named(w.Name, p.Words()) {
				c.Workloads, found = append(c.Workloads, w), true
			}
		}
		contests = append(contests, c.Contest)
	}
	if !found {
		return fmt.Errorf("-only: no requests have one of %q in their name", p.Words())
	}
	all, err := measureAll(ctx, p, contests)
	return errors.Join(p.Write(all, pawl), err)
}

// A frontContest compares fronts on one kind of database.
type frontContest struct {
	contest.Contest
	database string
	requests []string
}

// frontContests returns the contests. Temporal's server is compared on SQLite, which it has for
// development. River's takes no jobs.
func frontContests(progs programs, dir string, schemas []*bench.Postgres, postmaster int) []frontContest {
	file := func(name string) string { return filepath.Join(dir, name) }
	sqlite := func(name string) string { return "sqlite://" + file(name) + "?synchronous=full" }
	var now *front
	entrant := func(name string, open func(context.Context) (*front, error)) contest.Entrant {
		return contest.Entrant{Name: name, Open: func(ctx context.Context) (_ bench.System, err error) {
			if now, err = open(ctx); err != nil {
				return nil, err
			}
			return now, nil
		}}
	}
	server := func(url string) contest.Entrant {
		return entrant(pawl, func(ctx context.Context) (*front, error) { return openServer(ctx, progs, dir, url) })
	}
	engine := func(url string) contest.Entrant {
		return entrant(direct, func(ctx context.Context) (*front, error) { return openEngine(ctx, url) })
	}
	temporal := func(name string, args ...string) contest.Entrant {
		return entrant(name, func(ctx context.Context) (*front, error) { return openTemporal(ctx, progs, dir, args...) })
	}
	river := entrant(riverUI, func(ctx context.Context) (*front, error) { return openRiverUI(ctx, progs, dir, schemas[2].URL()) })
	used := func(postmaster int) func() contest.CPU { return func() contest.CPU { return now.used(postmaster) } }
	onPostgres := []contest.Entrant{server(schemas[0].URL()), engine(schemas[1].URL())}
	return []frontContest{
		{database: "sqlite", requests: []string{submits, reads}, Contest: contest.Contest{CPU: used(0), Entrants: []contest.Entrant{
			server(sqlite("server.db")), engine(sqlite("engine.db")),
			temporal(tunedTemporal, "--sqlite-pragma", "journal_mode=WAL"), temporal(defaultTemporal)}}},
		{database: "postgres", requests: []string{submits}, Contest: contest.Contest{CPU: used(postmaster), Entrants: onPostgres}},
		{database: "postgres", requests: []string{reads}, Contest: contest.Contest{CPU: used(postmaster), Entrants: append(onPostgres[:2:2], river)}},
	}
}

// used returns the CPU time until now. The server's is that of the front and of PostgreSQL: of
// the engine, that of this process, which sends the requests, too.
func (f *front) used(postmaster int) contest.CPU {
	c := contest.Used(postmaster)
	if f.pid == 0 {
		c.Server += c.Client
	} else {
		c.Server += contest.Used(f.pid).Server
	}
	return c
}

// frontWorkloads returns the requests at each rate. Scale is how long they are sent, against
// frontTime.
func frontWorkloads(database string, requests []string, scale float64) (all []bench.Workload) {
	for _, request := range requests {
		for _, rate := range frontRates {
			n := max(1, int(float64(rate)*frontTime.Seconds()*scale))
			all = append(all, bench.Workload{
				Name: fmt.Sprintf("%s, %s, %d/s", database, request, rate),
				Before: func(ctx context.Context, s bench.System, _ bench.Sizes) error {
					return s.(*front).prepare(ctx, request)
				},
				Measure: func(ctx context.Context, s bench.System, _ bench.Sizes) (bench.Figures, error) {
					return s.(*front).measure(ctx, request, rate, n)
				},
			})
		}
	}
	return all
}

// prepare makes the jobs that are read, or a few, so that everything is open.
func (f *front) prepare(ctx context.Context, request string) error {
	want := frontJobs
	if request == submits {
		want = 20
	}
	for len(f.jobs) < want {
		id, err := f.insist(ctx)
		if err != nil {
			return err
		}
		f.jobs = append(f.jobs, id)
	}
	for _, id := range f.jobs {
		if err := f.read(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// insist submits a job, again and again: Temporal's server may know its namespace only some time after
// it listens.
func (f *front) insist(ctx context.Context) (id string, err error) {
	for limit := time.Now().Add(startLimit); ; sleep(startPause) {
		id, err = f.submit(ctx)
		if err == nil || ctx.Err() != nil || time.Now().After(limit) {
			return id, err
		}
	}
}

// measure sends n requests at a rate, whether or not those before have been served. The time of
// each counts from the moment at which it was due.
func (f *front) measure(ctx context.Context, request string, rate, n int) (bench.Figures, error) {
	var all sync.WaitGroup
	var mu sync.Mutex // of what follows
	var times histogram.Histogram
	var failure error
	begun := time.Now()
	for i := range n {
		due := begun.Add(time.Duration(i) * time.Second / time.Duration(rate))
		sleep(time.Until(due))
		all.Go(func() {
			err := f.send(ctx, request, i, due.Add(requestLimit))
			took := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failure = err
				return
			}
			times.Record(took.Nanoseconds())
		})
	}
	all.Wait()
	millis := func(q float64) bench.Millis { return bench.Millis(float64(times.Quantile(q)) / 1e6) }
	served := int(times.Count())
	figures := bench.Figures{Jobs: n, Steps: n, Failed: n - served, Seconds: time.Since(begun).Seconds(), P50: millis(0.5), P99: millis(0.99)}
	if n >= 1000 {
		figures.P999 = millis(0.999)
	}
	if served == 0 {
		return figures, fmt.Errorf("all %d requests have failed, one of them so: %w", n, failure)
	}
	if failure != nil {
		fmt.Fprintf(os.Stderr, "a request has failed: %v\n", failure)
	}
	return figures, nil
}

func (f *front) send(ctx context.Context, request string, i int, limit time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	if request == reads {
		return f.read(ctx, f.jobs[i%len(f.jobs)])
	}
	_, err := f.submit(ctx)
	return err
}
