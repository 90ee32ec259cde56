package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/address"
)

func newMigrate(a *app) *cobra.Command {
	c := group(&cobra.Command{
		Use: "migrate", Short: "Migrate the schema of the database",
		Long:    "Migrate the schema of the database to another version. A new database gets the newest\nversion by itself. Other commands refuse a database of an older version until it is\nmigrated here.",
		Example: "  pawl migrate status\n  pawl migrate up --dry-run",
	})
	c.AddCommand(newMigrateStatus(a), newMigrateUp(a), newMigrateDown(a))
	return c
}

func newMigrateStatus(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the version of the schema",
		Long:    "Show the version of the schema of the database, and the newest one that this program\nknows. Version 0 is a database without tables.",
		Example: "  pawl migrate status",
		Args:    want(0, 0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withSchema(c.Context(), func(m address.Schema, db database) error {
				current, newest, err := m.Version(c.Context())
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(a.stdout, "database %s\nversion  %d\nnewest   %d\n", db, current, newest)
				return err
			})
		},
	}
}

func newMigrateUp(a *app) *cobra.Command {
	return a.newMigration("up", "Migrate the schema up", "Migrate the schema of the database up to the newest version, or to that of --to.",
		func(_, newest int) int { return newest })
}

func newMigrateDown(a *app) *cobra.Command {
	return a.newMigration("down", "Migrate the schema down", "Migrate the schema of the database down by one version, or to that of --to. Data that only\nthe newer version can hold is lost. Version 0 has no tables and no jobs, and has to be\nnamed.",
		func(current, _ int) int { return max(0, current-1) })
}

// newMigration makes the command of one direction. goal returns the target version if none is
// named.
func (a *app) newMigration(word, short, long string, goal func(current, newest int) int) *cobra.Command {
	to, dry, force := -1, false, false
	c := &cobra.Command{
		Use: word, Short: short, Long: long + "\n\n--dry-run prints the SQL and changes nothing. The migration is refused while the database\nis used by processes that do not work with that version; with --force it is made, and\nthey stop by themselves within seconds.",
		Example: fmt.Sprintf("  pawl migrate %[1]s\n  pawl migrate %[1]s --to 1 --dry-run", word),
		Args:    want(0, 0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			if to < -1 {
				return usage("", "--to %d: want 0 or more", to)
			}
			return a.withSchema(c.Context(), func(m address.Schema, _ database) error {
				from, goal, err := way(c.Context(), m, word, to, goal)
				switch {
				case err != nil:
					return err
				case dry:
					return a.showPlan(c.Context(), m, goal)
				case goal == 0 && from > 0 && to != 0:
					return usage("to remove them all, write: pawl migrate down --to 0"+a.given, "version 0 has no tables: every job would be lost")
				case !force:
					if err := a.unused(c.Context(), m, word, goal); err != nil {
						return err
					}
				}
				return a.migrate(c.Context(), m, from, goal)
			})
		},
	}
	c.Flags().IntVar(&to, "to", -1, "the version to go to; -1: "+map[string]string{"up": "the newest", "down": "the one before"}[word])
	c.Flags().BoolVar(&force, "force", false, "migrate although processes that use the database will stop")
	c.Flags().BoolVar(&dry, "dry-run", false, "print the SQL and change nothing")
	return c
}

// way returns the present version of the database and the target version.
func way(ctx context.Context, m store.Migrator, word string, to int, goal func(current, newest int) int) (current, _ int, err error) {
	current, newest, err := m.Version(ctx)
	if err != nil {
		return 0, 0, err
	}
	if to < 0 {
		to = goal(current, newest)
	}
	switch {
	case to > max(newest, current):
		return 0, 0, usage("", "schema version %d: want 0 to %d", to, newest)
	case word == "up" && to < current || word == "down" && to > current:
		return 0, 0, usage("see pawl migrate status", "migrate %s --to %d: the database is at version %d", word, to, current)
	}
	return current, to, nil
}

func (a *app) migrate(ctx context.Context, m store.Migrator, from, to int) error {
	if err := m.Migrate(ctx, to); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "version %d -> %d\n", from, to)
	return err
}

func (a *app) showPlan(ctx context.Context, m store.Migrator, to int) error {
	plan, err := m.Plan(ctx, to)
	if err != nil {
		return err
	}
	for _, sql := range plan {
		if _, err := fmt.Fprintln(a.stdout, strings.TrimRight(sql, "\n")); err != nil {
			return err
		}
	}
	return nil
}

// withSchema opens the database for migrations, at any version.
func (a *app) withSchema(ctx context.Context, f func(address.Schema, database) error) (err error) {
	db, err := a.named()
	if err != nil {
		return err
	}
	if err := db.prepare(); err != nil {
		return err
	}
	s, done, err := db.OpenSchema(ctx, a.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	return f(s, db)
}

// unused refuses to migrate a database if that would stop processes that use it.
func (a *app) unused(ctx context.Context, m address.Schema, word string, to int) error {
	names, err := m.Unfit(ctx, to)
	if err != nil || len(names) == 0 {
		return err
	}
	const most = 3
	shown := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		shown += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return &pawl.Error{Kind: pawl.Conflict, Message: "the database is used by processes that do not work with that version: " + shown,
		Hint: fmt.Sprintf("stop them first, or let them stop by themselves: pawl migrate %s --to %d --force%s", word, to, a.given)}
}
