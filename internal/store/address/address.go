// Package address is how a database is named: a PostgreSQL URL, a SQLite URL or a path.
package address

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
)

// An Address says where the jobs are.
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

// String names the database for people, without the password.
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

// Memory reports whether the database is in the memory of this process alone.
func (a Address) Memory() bool { return a.Path == ":memory:" }

// Folder returns the folder of a SQLite file, or "" if there is no file.
func (a Address) Folder() string {
	if a.Postgres != "" || a.Memory() {
		return ""
	}
	return filepath.Dir(a.Path)
}

// Check returns an error if a SQLite file cannot be there: its folder does not exist, or
// it is a folder itself.
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

// Open opens the database, and makes it if it is not there. Silence is how long a worker
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

// Lanes returns how many commits of an engine pay on this database at once.
func (a Address) Lanes() int {
	if a.Postgres != "" {
		return PostgresLanes
	}
	return 1
}

// PostgresLanes is Lanes of a PostgreSQL database.
const PostgresLanes = 2
