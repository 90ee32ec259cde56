package sqlite_test

import (
	"context"
	"errors"
	"os"
	"testing"

	_ "modernc.org/sqlite"
	zombie "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/pawl-dev/pawl/internal/lab/sqlitetest"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/internal/store/storetest"
)

func TestMain(m *testing.M) {
	os.Exit(storetest.Main(m, func(name string) (store.Store, error) {
		return sqlite.Open(context.Background(), sqlite.Config{Path: name})
	}))
}

func open(t testing.TB, cfg sqlite.Config) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func TestSuiteFull(t *testing.T)   { storetest.Run(t, onFile(sqlite.Full)) }
func TestSuiteNormal(t *testing.T) { storetest.Run(t, onFile(sqlite.Normal)) }

func onFile(synchronous string) func(*testing.T) storetest.Database {
	return func(t *testing.T) storetest.Database {
		cfg := sqlite.Config{Path: sqlitetest.Copy(t), Synchronous: synchronous}
		return storetest.Database{
			Open: func(t testing.TB) store.Store { return open(t, cfg) },
			Name: cfg.Path,
			SQL: func(_ context.Context, statement string) ([]string, [][]string, error) {
				c, err := zombie.OpenConn(cfg.Path, zombie.OpenReadWrite)
				if err != nil {
					return nil, nil, err
				}
				columns, rows, err := query(c, statement)
				return columns, rows, errors.Join(err, c.Close())
			},
			Begin: []storetest.Begin{storetest.BeginSQL(t, "sqlite", "file:"+cfg.Path+"?_txlock=immediate&_pragma=busy_timeout(30000)")},
		}
	}
}

// query returns the names of the columns and the rows as text.
func query(c *zombie.Conn, statement string) (columns []string, rows [][]string, err error) {
	s, _, err := c.PrepareTransient(statement)
	if err != nil {
		return nil, nil, err
	}
	for i := range s.ColumnCount() {
		columns = append(columns, s.ColumnName(i))
	}
	s.Finalize()
	err = sqlitex.ExecuteTransient(c, statement, &sqlitex.ExecOptions{ResultFunc: func(s *zombie.Stmt) error {
		var row []string
		for i := range s.ColumnCount() {
			if s.ColumnIsNull(i) {
				row = append(row, "NULL")
			} else {
				row = append(row, s.ColumnText(i))
			}
		}
		rows = append(rows, row)
		return nil
	}})
	return columns, rows, err
}

func TestSuiteMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Database {
		var db *sqlite.DB
		return storetest.Database{
			Open: func(t testing.TB) store.Store {
				db = open(t, sqlite.Config{Path: ":memory:"})
				return db
			},
			SQL: func(ctx context.Context, statement string) (columns []string, rows [][]string, err error) {
				err = db.Raw(ctx, func(c *zombie.Conn) error {
					columns, rows, err = query(c, statement)
					return err
				})
				return columns, rows, err
			},
		}
	})
}
