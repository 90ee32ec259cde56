package main

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/store/postgres"
)

// TestFronts: each front takes jobs, or has them, and serves each request of a small contest; it
// does not know a job that nobody made, and its process is gone in the end.
func TestFronts(t *testing.T) {
	t.Parallel()
	progs, err := build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var schemas []*bench.Postgres
	for range 3 {
		s, err := bench.NewPostgres(t.Context(), postgres.Config{URL: pgtest.URL(t)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(t.Context())
		schemas = append(schemas, s)
	}
	var pids []int
	served := map[string]int{}
	for _, c := range frontContests(progs, t.TempDir(), schemas, 0) {
		c.Workloads, c.Rounds = frontWorkloads(c.database, c.requests, 0.01), 1
		c.Progress = func(workload string, _ int, who, what string) { t.Log(workload, who, what) }
		for i, e := range c.Entrants {
			c.Entrants[i].Open = func(ctx context.Context) (bench.System, error) {
				s, err := e.Open(ctx)
				if err != nil {
					return nil, err
				}
				f := s.(*front)
				if f.pid != 0 {
					pids = append(pids, f.pid)
				}
				for _, id := range []string{"j_019ac1f0a3c47d5e8f00112233445566", "4611686018427387904"} {
					if err := f.read(ctx, id); err == nil {
						t.Errorf("%s: %s: read a job that nobody made: %s", c.database, e.Name, id)
					}
				}
				return f, nil
			}
		}
		o, err := c.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, turn := range o.Turns {
			if turn.Failed > 0 && !strings.HasPrefix(turn.Entrant, "temporal") || turn.P50 <= 0 || turn.P99 < turn.P50 || turn.CPU.Server < 0 {
				t.Errorf("%s: %s: %+v", turn.Workload, turn.Entrant, turn)
			}
			served[turn.Entrant] += turn.Jobs - turn.Failed
		}
	}
	for _, who := range []string{pawl, direct, tunedTemporal, defaultTemporal, riverUI} {
		if served[who] == 0 {
			t.Errorf("%s served nothing", who)
		}
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
			t.Errorf("process %d: %v; want it gone", pid, err)
		}
	}
}

// TestFailedRequests: they are counted and not timed, and if all fail that is an error.
func TestFailedRequests(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	refused := errors.New("429")
	f := &front{submit: func(context.Context) (string, error) {
		if n.Add(1)%4 == 0 {
			return "", refused
		}
		return "", nil
	}}
	figures, err := f.measure(t.Context(), submits, 10_000, 100)
	if err != nil || figures.Jobs != 100 || figures.Failed != 25 || figures.P50 <= 0 {
		t.Errorf("%+v, %v; want 25 failures of 100", figures, err)
	}
	f.submit = func(context.Context) (string, error) { return "", refused }
	if _, err := f.measure(t.Context(), submits, 10_000, 5); !errors.Is(err, refused) {
		t.Errorf("%v; want the failure of all", err)
	}
}

// TestSlowStart: a front that takes no job at first is waited for, and not counted as failing.
func TestSlowStart(t *testing.T) {
	t.Parallel()
	var n, read atomic.Int64
	f := &front{
		submit: func(context.Context) (string, error) {
			if n.Add(1)%10 < 3 {
				return "", errors.New("404 Namespace default is not found")
			}
			return "id", nil
		},
		read: func(context.Context, string) error { read.Add(1); return nil },
	}
	if err := f.prepare(t.Context(), reads); err != nil || n.Load() < frontJobs+3 || read.Load() != frontJobs {
		t.Errorf("%v after %d submissions and %d reads", err, n.Load(), read.Load())
	}
}

// TestNoProgram: a program that ends before it serves is an error with what it said.
func TestNoProgram(t *testing.T) {
	t.Parallel()
	_, err := programs("/bin").start(t.Context(), t.TempDir(), "1", "/", nil, "sh", "-c", "echo out of order; exit 1")
	if err == nil || !strings.Contains(err.Error(), "has ended by itself\nout of order") {
		t.Errorf("%v; want what it said", err)
	}
}
