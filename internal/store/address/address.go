// Package address parses the name of a database (a PostgreSQL URL, a SQLite URL or a path) and
// opens the database: for work, for migrations, or for a diagnosis.
package address

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
)

// An Address is the location of a database.
type Address struct {
	Postgres    string // URL; empty for SQLite
	Path        string // of the SQLite file, or :memory:
	Synchronous string // full, normal or empty: the default
}

const hint = "want sqlite:///path, sqlite::memory:, a path, or postgres://user@host/database"

func invalid(hint, format string, args ...any) error {
	return &pawl.Error{Kind: pawl.Invalid, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// Parse reads the name of a database. An error is of kind Invalid and never holds a
// password.
func Parse(name string) (Address, error) {
	if strings.HasPrefix(name, "postgres://") || strings.HasPrefix(name, "postgresql://") {
		_, rest, _ := strings.Cut(name, "://")
		rest, _, _ = strings.Cut(rest, "?")
		if authority, _, _ := strings.Cut(rest, "/"); strings.Count(rest, "@") > 1 || strings.Contains(rest, "@") && !strings.Contains(authority, "@") {
			return Address{}, invalid("write @ as %40, / as %2F and ? as %3F in a user or a password", "the URL has an unescaped character in its user or password")
		}
		return Address{Postgres: name}, nil
	}
	if rest, ok := strings.CutPrefix(name, "sqlite:"); ok {
		return parseSQLite(strings.TrimPrefix(rest, "//"))
	}
	if scheme, _, ok := strings.Cut(name, "://"); ok {
		return Address{}, invalid(hint, "%q is not a kind of database", scheme)
	}
	if name == "" {
		return Address{}, invalid(hint, "no file is named")
	}
	return Address{Path: name}, nil
}

func parseSQLite(rest string) (Address, error) {
	path, query, _ := strings.Cut(rest, "?")
	if path == "" {
		return Address{}, invalid(hint, "no file is named")
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return Address{}, invalid(hint, "%q is not a query", query)
	}
	a := Address{Path: path}
	for key := range values {
		if key != "synchronous" {
			return a, invalid("known is synchronous=full and synchronous=normal", "unknown parameter %q", key)
		}
		a.Synchronous = strings.ToLower(values.Get(key))
	}
	if s := a.Synchronous; s != "" && s != sqlite.Full && s != sqlite.Normal {
		return a, invalid("", "synchronous %q: want %s or %s", s, sqlite.Full, sqlite.Normal)
	}
	return a, nil
}

// String returns the name of the database for people, without the password.
func (a Address) String() string {
	if a.Postgres == "" {
		return a.Path
	}
	u, err := url.Parse(a.Postgres)
	if err != nil {
		return "postgres"
	}
	return u.Redacted()
}

// Memory reports whether the database exists only in the memory of this process.
func (a Address) Memory() bool { return a.Path == ":memory:" }

// Folder returns the folder of a SQLite file, or "" if there is no file.
func (a Address) Folder() string {
	if a.Postgres != "" || a.Memory() {
		return ""
	}
	return filepath.Dir(a.Path)
}

// Exists reports whether the database exists; for one on a server it cannot tell.
func (a Address) Exists() bool {
	if a.Postgres != "" || a.Memory() {
		return true
	}
	_, err := os.Stat(a.Path)
	return err == nil
}

// Check returns an error if the path cannot be a SQLite file: its folder does not exist, or it
// is a folder itself.
func (a Address) Check() error {
	if a.Postgres != "" || a.Memory() {
		return nil
	}
	dir := filepath.Dir(a.Path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return invalid("make it, or name another database", "the folder of the database does not exist: %s", dir)
	}
	if info, err := os.Stat(a.Path); err == nil && info.IsDir() {
		return invalid("name a file in it", "the database %s is a folder", a.Path)
	}
	return nil
}

// Open opens the database, and creates it if it does not exist. silence is how long a worker
// may be silent; 0 is the default. The caller closes the store.
func (a Address) Open(ctx context.Context, silence time.Duration, log *slog.Logger) (store.Store, error) {
	if a.Postgres != "" {
		s, err := postgres.Open(ctx, postgres.Config{URL: a.Postgres, Silence: silence, Log: log})
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	s, err := sqlite.Open(ctx, sqlite.Config{Path: a.Path, Synchronous: a.Synchronous, Log: log})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// A Schema migrates a database up and down, and reports which processes would no longer work.
type Schema interface {
	store.Migrator
	// Unfit names the processes whose programs would not work during a migration to a version,
	// or after it.
	Unfit(ctx context.Context, to int) ([]string, error)
}

// OpenSchema opens the database for migrations, whatever its version. The caller calls done.
func (a Address) OpenSchema(ctx context.Context, log *slog.Logger) (s Schema, done func() error, err error) {
	if a.Postgres != "" {
		s, err := postgres.OpenSchema(ctx, postgres.Config{URL: a.Postgres, Log: log})
		return s, func() error { return nil }, err
	}
	db, err := sqlite.Open(ctx, sqlite.Config{Path: a.Path, Synchronous: a.Synchronous, AnyVersion: true, Log: log})
	if err != nil {
		return nil, nil, fmt.Errorf("open the database for migration: %w", err)
	}
	return db, db.Close, nil
}

// Diagnose checks the database and its server. The integrity check of a SQLite file is limited
// to the time integrity.
func (a Address) Diagnose(ctx context.Context, integrity time.Duration, log *slog.Logger) []health.Finding {
	if a.Postgres != "" {
		return postgres.Diagnose(ctx, postgres.Config{URL: a.Postgres, Log: log})
	}
	return sqlite.Diagnose(ctx, sqlite.Config{Path: a.Path, Synchronous: a.Synchronous, Log: log}, integrity)
}

// Label returns a name of the database that is valid as a folder name and distinguishes it
// from others.
func (a Address) Label() (string, error) {
	kind, place, err := "sqlite", a.Path, error(nil)
	switch {
	case a.Postgres != "":
		kind = "postgres"
		place, err = postgres.Place(a.Postgres)
	case !a.Memory():
		place, err = filepath.EvalSymlinks(a.Path)
		if err == nil {
			place, err = filepath.Abs(place)
		}
	}
	sum := sha256.Sum256([]byte(place))
	return fmt.Sprintf("%s-%x", kind, sum[:8]), err
}

// Lanes returns how many concurrent commits of an engine are worthwhile on this database.
func (a Address) Lanes() int {
	if a.Postgres != "" {
		return PostgresLanes
	}
	return 1
}

// PostgresLanes is Lanes of a PostgreSQL database.
const PostgresLanes = 2
