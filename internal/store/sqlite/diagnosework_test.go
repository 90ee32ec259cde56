package sqlite_test

import (
	"path/filepath"
	"slices"
	"testing"

	zsqlite "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
)

// TestDiagnoseDoubles: an entry of a trail that stands twice, in a row of its own and in
// the list of another, is named (K8).
func TestDiagnoseDoubles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	db := open(t, sqlite.Config{Path: path})
	jobs := add(t, db, 1002) // the doubled one is on the second page
	doubles := func() []health.Finding {
		return slices.DeleteFunc(sqlite.Diagnose(t.Context(), sqlite.Config{Path: path}, 0), func(f health.Finding) bool { return f.Check != "audit_doubles" })
	}
	if found := doubles(); len(found) != 1 || found[0].Severity != health.OK {
		t.Fatalf("before anything was changed: %+v", found)
	}
	c, err := zsqlite.OpenConn(path, zsqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	oldest := slices.MinFunc(jobs, func(a, b *pawl.Job) int { return int(a.Key() - b.Key()) })
	const double = `UPDATE audit SET more = json_array(json_array(ord, seq, state, event, reason, actor, request_id, NULL, at, lower(hex(hash)))) WHERE job = ?1 AND ord = 0 AND seq = 1`
	if err := sqlitex.ExecuteTransient(c, double, &sqlitex.ExecOptions{Args: []any{oldest.Key()}}); err != nil || c.Changes() != 1 {
		t.Fatal(err, c.Changes())
	}
	found, want := doubles(), "job "+oldest.ID.Public(pawl.JobPrefix)
	if len(found) != 1 || found[0].Severity != health.Problem || found[0].Subject != want || found[0].Measured != "entry 1 of its trail is stored 2 times" {
		t.Errorf("found %+v, want entry 1 of %s", found, want)
	}
}
