package bench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// play is this program as a process of a deployment.
func play(text string) int {
	var t bench.Task
	err := json.Unmarshal([]byte(text), &t)
	if err == nil {
		err = new(bench.Hand).Play(context.Background(), os.Stdin, os.Stdout, func(ctx context.Context, h *bench.Hand) (bench.Part, error) { return bench.OpenPawl(ctx, t, h) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestDeployments: a server, two workers and two submitters, each a process, do all jobs of each
// kind of deployment, and an offered rate has latencies.
func TestDeployments(t *testing.T) {
	t.Parallel()
	for _, d := range []bench.Deployment{
		{Name: "backlog", Jobs: 51, Backlog: true},
		{Name: "live", Jobs: 51, Payload: 2000, Kinds: 3},
		{Name: "offered", Jobs: 20, Rate: 1000},
		{Name: "submission", Jobs: 51, Batch: 7, Submission: true, HTTP: true},
		{Name: "without a server", Jobs: 51, Backlog: true, Active: true},
	} {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			d.Workers, d.Submitters, d.Capacity = 2, 2, 5
			if !d.Active {
				d.Servers = 1
			}
			disturbed := 0
			d.Beside = func(context.Context) (func() error, error) {
				disturbed++
				return func() error { disturbed++; return nil }, nil
			}
			url := filepath.Join(t.TempDir(), "pawl.db")
			s := deploy(t, d, func(task bench.Task) *exec.Cmd {
				task.URL = url
				text, err := json.Marshal(task)
				if err != nil {
					t.Error(err)
				}
				cmd := exec.Command("/usr/bin/env", "PAWL_BENCH_TASK="+string(text), os.Args[0])
				return cmd
			}, url)
			w := d.Workload()
			if err := w.Before(t.Context(), s, bench.Sizes{}); err != nil {
				t.Fatal(err)
			}
			f, err := w.Measure(t.Context(), s, bench.Sizes{})
			if err != nil {
				t.Fatal(err)
			}
			if f.Jobs != d.Jobs || (f.JobRate > 0) != (d.Rate == 0) || (f.P999 > 0) != (d.Rate > 0) {
				t.Errorf("%+v", f)
			}
			if err := w.After(t.Context(), s); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if disturbed != 2 {
				t.Errorf("what disturbs began or ended %d times, want once each", disturbed)
			}
			noneLeft(t, url, d.Jobs)
		})
	}
}

// noneLeft checks that a database has that many jobs, all of them completed.
func noneLeft(t *testing.T, url string, jobs int) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: url})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	list, err := db.Jobs(t.Context(), store.JobFilter{States: []machine.State{lifecycle.JobCompleted}})
	if err != nil || len(list) != jobs {
		t.Errorf("%d jobs are completed, %v; want %d", len(list), err, jobs)
	}
}

// TestAProcessThatEndsEarly: it is named, with what it has said, and nothing waits for it.
func TestAProcessThatEndsEarly(t *testing.T) {
	t.Parallel()
	d := bench.Deployment{Name: "backlog", Jobs: 5, Backlog: true, Workers: 1, Submitters: 1}
	s := deploy(t, d, func(bench.Task) *exec.Cmd { return exec.Command("sh", "-c", "echo no database >&2") }, filepath.Join(t.TempDir(), "pawl.db"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := d.Workload().Before(ctx, s, bench.Sizes{})
	if err == nil || !strings.Contains(err.Error(), "has ended") || !strings.Contains(err.Error(), "no database") {
		t.Errorf("%v, want what the process has said", err)
	}
	if err := s.Close(); err == nil {
		t.Error("closing says nothing of it")
	}
}

func deploy(t *testing.T, d bench.Deployment, command func(bench.Task) *exec.Cmd, url string) *bench.Deployed {
	t.Helper()
	still, closed, err := bench.PawlStill(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return bench.Deploy(d, command, still, closed)
}

// TestWarmUp: of jobs at a rate, those of the first half second are not measured, and a fifth of all
// at most. Without a rate no job has a time.
func TestWarmUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		jobs       int
		rate       float64
		cold, warm int
	}{
		{"long", 10_000, 500, 250, 9750},
		{"short", 100, 500, 20, 80},
		{"without a rate", 100, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cold, warm, all := 0, 0, 0
				err := bench.Pace(t.Context(), bench.Task{Jobs: c.jobs, Rate: c.rate, Batch: 10}, func(due []int64) error {
					for _, at := range due {
						all++
						switch {
						case at < 0:
							cold++
						case at > 0:
							warm++
						}
						if warm > 0 && at < 0 {
							t.Errorf("job %d is not measured, and one before it is", all)
						}
					}
					return nil
				})
				if err != nil || all != c.jobs || cold != c.cold || warm != c.warm {
					t.Errorf("%d jobs, %d not measured, %d measured, %v; want %d, %d and %d", all, cold, warm, err, c.jobs, c.cold, c.warm)
				}
			})
		})
	}
}
