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
	db, err := a.named()
	if err != nil {
		return err
	}
	if db.Postgres == "" {
		fmt.Fprintf(a.stderr, "looking at %s, for %s at most\n", db, integrity)
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
	if err := a.show(form, found, func() error { return console.Findings(a.stdout, found) }); err != nil {
		return err
	}
	if health.Worst(found) == health.Problem {
		return exit{codeFailed}
	}
	return nil
}
