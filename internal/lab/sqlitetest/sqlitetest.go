// Package sqlitetest gives tests a SQLite file of their own that has the newest schema.
package sqlitetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/store/sqlite"
)

// Copy returns the path of a new file in a folder of its own, which is removed with the test. It
// is a copy of one that is migrated once in a test process: for most tests migrating is the
// larger part of the work.
func Copy(t testing.TB) string {
	t.Helper()
	content, err := model()
	path := filepath.Join(t.TempDir(), "pawl.db")
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		t.Fatalf("copy the model of databases: %v", err)
	}
	return path
}

// model returns the content of a new file.
var model = sync.OnceValues(func() (content []byte, err error) {
	dir, err := os.MkdirTemp("", "pawl-sqlite-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "pawl.db")
	db, err := sqlite.Open(context.Background(), sqlite.Config{Path: path})
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})
