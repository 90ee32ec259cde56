package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/doctor"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/store"
)

const doctorLong = `Examine the database, its server and the processes that use it, and report what is
wrong: what was measured, the thresholds of a warning and of a problem, and what to do.
docs/doctor.md explains every check.

--integrity limits how long a SQLite file is checked, 10s by default; a large file takes
longer. 0 skips that check.

With --server the server examines its database, but for the integrity of a SQLite file. That
needs the role admin.

The command creates no tables and no files. The exit code is 1 if there is a problem,
and 0 if there are only warnings.`

func newDoctor(a *app) *cobra.Command {
	form, integrity := formText, 10*time.Second
	c := &cobra.Command{
		Use: "doctor", Short: "Report what is wrong with the database", Long: doctorLong,
		Example: "  pawl doctor\n  pawl doctor -o json\n  pawl doctor --integrity 10m",
		Args:    want(0, 0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			if a.server != "" && c.Flags().Changed("integrity") {
				return usage("leave out --integrity, or examine the database on a machine that reaches it", "--integrity: a server does not check the integrity of a SQLite file")
			}
			if integrity < 0 {
				return usage("", "--integrity %s: want a duration of 0 or more", integrity)
			}
			return a.doctor(c.Context(), integrity, form)
		},
	}
	bindForm(a, c, &form, "a list of findings")
	c.Flags().DurationVar(&integrity, "integrity", integrity, "how long to check a SQLite file at most; 0 skips it")
	return c
}

// An examiner is an engine of a server, which examines its database.
type examiner interface {
	Findings(ctx context.Context) ([]health.Finding, error)
}

func (a *app) doctor(ctx context.Context, integrity time.Duration, form string) error {
	if a.server != "" {
		return a.onServer(ctx, func(cl *client.Client) error {
			found, err := cl.Link().(examiner).Findings(ctx) // that of a server is one
			if err != nil {
				return err
			}
			return a.report(found, form)
		})
	}
	db, err := a.named()
	if err != nil {
		return err
	}
	if db.Postgres == "" {
		fmt.Fprintf(a.stderr, "examining %s, for at most %s\n", db, integrity)
	}
	d := doctor.Doctor{
		Diagnose: func(ctx context.Context) []health.Finding { return db.Diagnose(ctx, integrity, a.log) },
		Open: func(ctx context.Context) (store.Store, *client.Client, func() error, error) {
			l, err := a.openLedger(ctx, true)
			if err != nil {
				return nil, nil, nil, err
			}
			return l.store, l.client, l.close, nil
		},
	}
	found := d.Findings(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return a.report(found, form)
}

// report shows what was found. A problem is a failure of the command.
func (a *app) report(found []health.Finding, form string) error {
	if err := a.show(form, found, func() error { return console.Findings(a.stdout, found) }); err != nil {
		return err
	}
	if health.Worst(found) == health.Problem {
		return exit{codeFailed}
	}
	return nil
}
