package sqlite_test

import (
	"path/filepath"
	"testing"

	zombie "zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/internal/store/sqlite"
)

// The views can be read by any sqlite3 that knows STRICT tables, 3.37 on: -> came with
// 3.38, and unhex with 3.41 (J10).
func TestViewsAskForNoNewerSQLite(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "x.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Raw(t.Context(), func(c *zombie.Conn) error {
		_, rows, err := query(c, "SELECT name FROM sqlite_schema WHERE type = 'view' AND (sql LIKE '%unhex%' OR sql LIKE '%->%')")
		if len(rows) > 0 {
			t.Errorf("views %v ask for a newer SQLite", rows)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
