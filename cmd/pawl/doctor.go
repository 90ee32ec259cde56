package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/privatejob"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
)

const doctorLong = `Look at the database, its server and the processes on it, and say what is wrong:
what was measured, from when on it is a warning or a problem, and what to do.
docs/doctor.md has every check with its meaning.

--integrity is how long the file of SQLite is checked at most, 10s by default; a
large one takes longer. 0 does not check it.

The exit code is 1 if there is a problem, and 0 with warnings. It makes no tables
and no file.`

func newDoctor(a *app) *cobra.Command {
	form, integrity := formText, 10*time.Second
	c := &cobra.Command{
		Use: "doctor", Short: "Say what is wrong with the database", Long: doctorLong,
		Example: "  pawl doctor\n  pawl doctor -o json\n  pawl doctor --integrity 10m",
		Args:    want(0, 0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			if integrity < 0 {
				return usage("", "--integrity %s: want a duration of 0 or more", integrity)
			}
			return a.doctor(c.Context(), integrity, form)
		},
	}
	bindForm(c, &form, "a list of findings")
	c.Flags().DurationVar(&integrity, "integrity", integrity, "how long a SQLite file is checked at most; 0: not at all")
	return c
}

func (a *app) doctor(ctx context.Context, integrity time.Duration, form string) error {
	found, err := a.diagnose(ctx, integrity)
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case form == formJSON:
		err = console.JSON(a.stdout, found)
	default:
		err = console.Findings(a.stdout, found)
	}
	if err == nil && health.Worst(found) == health.Problem {
		return exit{codeFailed}
	}
	return err
}

// diagnose asks the database first, and then, if it can be used, about the work
// in it.
func (a *app) diagnose(ctx context.Context, integrity time.Duration) ([]health.Finding, error) {
	db, err := a.named()
	if err != nil {
		return nil, err
	}
	var found []health.Finding
	if db.Postgres != "" {
		found = postgres.Diagnose(ctx, postgres.Config{URL: db.Postgres, Log: a.log})
	} else {
		fmt.Fprintf(a.stderr, "looking at %s, for %s at most\n", db, integrity)
		found = sqlite.Diagnose(ctx, sqlite.Config{Path: db.Path, Synchronous: db.Synchronous, Log: a.log}, integrity)
	}
	unusable := func(f health.Finding) bool {
		return f.Severity != health.OK && (f.Check == "database" || f.Check == "schema_version")
	}
	if slices.ContainsFunc(found, unusable) {
		return found, nil
	}
	work, err := a.examine(ctx)
	if err != nil {
		r := &health.Diagnosis{Findings: found}
		r.Unusable(err)
		return r.Findings, nil
	}
	return append(found, work...), nil
}

// A snapshotter is a store that can tell the doctor of the work in it.
type snapshotter interface {
	WorkSnapshot(ctx context.Context) (*health.Snapshot, error)
}

var (
	_ snapshotter = (*postgres.DB)(nil)
	_ snapshotter = (*sqlite.DB)(nil)
)

// Of the jobs of which nothing moves, so many are looked at.
const (
	stuckFor   = 10 * time.Minute
	stuckLimit = 200
)

func (a *app) examine(ctx context.Context) (found []health.Finding, err error) {
	l, err := a.openLedger(ctx, true)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := l.close(); err == nil {
			err = e
		}
	}()
	w, err := l.store.(snapshotter).WorkSnapshot(ctx)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	w.Nodes = slices.DeleteFunc(w.Nodes, func(n *pawl.Node) bool { return n.Host == host && privatejob.ProcessGone(n.PID) })
	stuck, err := l.client.Inspect.Stuck(ctx, pawl.JobQuery{Limit: stuckLimit}, stuckFor)
	if err != nil {
		return nil, err
	}
	return health.Examine(w, stuck), nil
}
