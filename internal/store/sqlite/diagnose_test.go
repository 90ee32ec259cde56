package sqlite

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/pawl-dev/pawl/internal/health"
)

// faultsOf returns the checks that find something, with how bad the first is.
func faultsOf(all []health.Finding) map[string]health.Severity {
	got := map[string]health.Severity{}
	for _, f := range all {
		if f.Severity != health.OK && got[f.Check] == "" {
			got[f.Check] = f.Severity
		}
	}
	return got
}

// newFile returns the path of a database that was brought up and closed.
func newFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pawl.db")
	db, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDiagnoseFinds: each of these is found in a real file, and nothing else.
func TestDiagnoseFinds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		sql  string
		want map[string]health.Severity
	}{
		"healthy":         {"SELECT 1", map[string]health.Severity{}},
		"another index":   {"DROP INDEX job_due; CREATE INDEX job_due ON job (id) WHERE due_at > 0", map[string]health.Severity{"schema": health.Problem}},
		"index":           {"DROP INDEX step_flight", map[string]health.Severity{"schema": health.Problem}},
		"table":           {"DROP TABLE quota", map[string]health.Severity{"schema": health.Problem}},
		"column":          {"ALTER TABLE quota DROP COLUMN reason", map[string]health.Severity{"schema": health.Problem}},
		"a stranger":      {"CREATE TABLE stranger (x)", map[string]health.Severity{"schema": health.Warning}},
		"an own index":    {"CREATE INDEX mine ON job (workflow)", map[string]health.Severity{}},
		"journal mode":    {"PRAGMA journal_mode = delete", map[string]health.Severity{"journal_mode": health.Problem}},
		"a newer schema":  {"PRAGMA user_version = 1000", map[string]health.Severity{"schema_version": health.Problem}},
		"an older schema": {"PRAGMA user_version = 1", map[string]health.Severity{"schema_version": health.Problem}},
		"another program": {"PRAGMA application_id = 7", map[string]health.Severity{"database": health.Problem}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newFile(t)
			c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
			if err != nil {
				t.Fatal(err)
			}
			each(t, c, tt.sql)
			c.Close()
			all := Diagnose(t.Context(), Config{Path: path}, time.Minute)
			if diff := cmp.Diff(tt.want, faultsOf(all)); diff != "" {
				t.Errorf("findings (-want +got):\n%s\n%v", diff, all)
			}
			if strings.Contains(name, "index") && tt.want["schema"] != "" {
				mend(t, path, all)
			}
		})
	}
}

// mend does what is advised, and finds nothing more.
func mend(t *testing.T, path string, all []health.Finding) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, f := range all {
		if f.Severity == health.OK {
			continue
		}
		each(t, c, f.Cure)
	}
	if left := faultsOf(Diagnose(t.Context(), Config{Path: path}, 0)); len(left) > 0 {
		t.Errorf("after what was advised: %v", left)
	}
}

// each runs statements one by one.
func each(t *testing.T, c *sqlite.Conn, statements string) {
	t.Helper()
	for sql := range strings.SplitSeq(statements, "; ") {
		if err := sqlitex.ExecuteTransient(c, sql, nil); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// TestDiagnoseUnusable: what is no database is a finding, and no file is made.
func TestDiagnoseUnusable(t *testing.T) {
	t.Parallel()
	missing, text := filepath.Join(t.TempDir(), "none.db"), filepath.Join(t.TempDir(), "text.db")
	if err := os.WriteFile(text, bytes.Repeat([]byte("no database "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{missing, text} {
		if got := faultsOf(Diagnose(t.Context(), Config{Path: path}, 0)); got["database"] != health.Problem {
			t.Errorf("%s: %v", path, got)
		}
	}
	if _, err := os.Stat(missing); !os.IsNotExist(err) {
		t.Errorf("the file was made: %v", err)
	}
	if got := faultsOf(Diagnose(t.Context(), Config{Path: newFile(t), Synchronous: Normal}, 0)); got["synchronous"] != health.Warning {
		t.Errorf("synchronous normal: %v", got)
	}
}

// TestDiagnoseDamage: a page that was overwritten is found, unless there is no
// time to get there.
func TestDiagnoseDamage(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = f.WriteAt(bytes.Repeat([]byte{0xa5}, 4096), 4096); err != nil { // the second one is in use
		t.Fatal(err)
	}
	f.Close()
	if got := faultsOf(Diagnose(t.Context(), Config{Path: path}, time.Minute)); got["integrity"] != health.Problem {
		t.Errorf("findings %v", got)
	}
	if got := Diagnose(t.Context(), Config{Path: path}, 0); slices.ContainsFunc(got, func(f health.Finding) bool { return f.Check == "integrity" }) {
		t.Errorf("it was looked at: %v", got)
	}
}

// TestDiagnoseReader: a reader that stays open keeps the -wal file from being
// taken over, and one that nobody keeps open does not.
func TestDiagnoseReader(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	writer, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	reader, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for c, sql := range map[*sqlite.Conn]string{reader: "BEGIN; SELECT count(*) FROM job;", writer: "PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = off;"} {
		if err := statementsOf(c, sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := statementsOf(writer, "CREATE TABLE big (x); INSERT INTO big VALUES (zeroblob(80000000)); DROP TABLE big"); err != nil {
		t.Fatal(err)
	}
	if got := faultsOf(Diagnose(context.Background(), Config{Path: path}, 0)); got["readers"] != health.Warning {
		t.Errorf("beside a reader: %v", got)
	}
	if err := statementsOf(reader, "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if got := faultsOf(Diagnose(context.Background(), Config{Path: path}, 0)); got["readers"] != "" {
		t.Errorf("without a reader: %v", got)
	}
}

func statementsOf(c *sqlite.Conn, sql string) error {
	for _, s := range bytes.Split([]byte(sql), []byte(";")) {
		if text := string(bytes.TrimSpace(s)); text != "" {
			if err := sqlitex.ExecuteTransient(c, text, nil); err != nil {
				return err
			}
		}
	}
	return nil
}
