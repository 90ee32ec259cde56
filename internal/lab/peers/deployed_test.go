package main

import (
	"context"
	"errors"
	"flag"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/lab/contest"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
)

// TestTurnsBeforeAFailure: a turn that fails ends the measurement, and what was measured before it
// is there to be written.
func TestTurnsBeforeAFailure(t *testing.T) {
	t.Parallel()
	var p contest.Program
	p.Flags(flag.NewFlagSet("", flag.PanicOnError))
	broken := errors.New("a worker has ended")
	turns := 0
	var contests []contest.Contest
	for _, name := range []string{"first", "second", "third"} {
		open := func(context.Context) (bench.System, error) { return &front{close: func() error { return nil }}, nil }
		contests = append(contests, contest.Contest{
			Entrants: []contest.Entrant{{Name: pawl, Open: open}, {Name: tunedRiver, Open: open}},
			Workloads: []bench.Workload{{Name: name,
				Before: func(context.Context, bench.System, bench.Sizes) error { return nil },
				Measure: func(context.Context, bench.System, bench.Sizes) (bench.Figures, error) {
					if turns++; name == "second" && turns > 12 {
						return bench.Figures{}, broken
					}
					return bench.Figures{Jobs: 1, Steps: 1, JobRate: 1, StepRate: 1}, nil
				}}},
			CPU: func() contest.CPU { return contest.CPU{} },
		})
	}
	all, err := measureAll(t.Context(), &p, contests)
	if !errors.Is(err, broken) || len(all.Turns) != 12 || len(all.Ratios) == 0 {
		t.Errorf("%d turns and %d ratios with %v; want 12 of the six rounds before the failure", len(all.Turns), len(all.Ratios), err)
	}
}

// TestRecycleLogDenied: a user who may not switch the log measures all the same.
func TestRecycleLogDenied(t *testing.T) {
	t.Parallel()
	address, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), address.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "create role peers_denied"); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = conn.Exec(context.Background(), "drop role peers_denied") }()
	denied := address.Query()
	denied.Set("role", "peers_denied")
	address.RawQuery = denied.Encode()
	if err := switchLog(t.Context(), address.String()); err == nil {
		t.Error("the role may switch the log, so this tests nothing")
	}
	if err := recycleLog(t.Context(), address.String()); err != nil {
		t.Error(err)
	}
}

// TestRecycleLog: the next segments of the log are there before they are needed.
func TestRecycleLog(t *testing.T) {
	url := pgtest.URL(t)
	if err := recycleLog(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var kept int
	err = conn.QueryRow(t.Context(), "select count(*) from pg_ls_waldir() where name ~ '^[0-9A-F]{24}$' and name > pg_walfile_name(pg_current_wal_lsn())").Scan(&kept)
	if err != nil || kept < logSegments-1 {
		t.Errorf("the server keeps %d segments for further use, %v; want about %d", kept, err, logSegments)
	}
}
