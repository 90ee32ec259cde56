package postgres

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/storetest"
)

func TestMain(m *testing.M) {
	os.Exit(storetest.Main(withServer{m}, func(url string) (store.Store, error) {
		return Open(context.Background(), Config{URL: url})
	}))
}

// withServer ends the throw-away cluster after the tests.
type withServer struct{ m *testing.M }

func (w withServer) Run() int { return pgtest.Main(w.m) }

// TestStore is the suite that every store passes.
func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Database {
		url := pgtest.Copy(t, migrated)
		return storetest.Database{
			Name: url,
			Open: func(t testing.TB) store.Store { return open(t, url) },
			SQL: func(ctx context.Context, statement string) ([]string, [][]string, error) {
				return query(ctx, url, listColumn.ReplaceAllString(statement, more))
			},
			Begin: []storetest.Begin{
				func(ctx context.Context) (storetest.Outer, error) { return beginPgx(ctx, t, url) },
				storetest.BeginSQL(t, "pgx", url),
			},
			CommitWakes: true,
		}
	})
}

// beginPgx begins a transaction of a user of pgx.
func beginPgx(ctx context.Context, t *testing.T, url string) (storetest.Outer, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return storetest.Outer{}, err
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	tx, err := conn.Begin(ctx)
	return storetest.Outer{Tx: tx, End: func(commit bool) error {
		if commit {
			return tx.Commit(ctx)
		}
		return tx.Rollback(ctx)
	}}, err
}

// listColumn is the column of lists in the words of the tests of all stores.
var listColumn = regexp.MustCompile(`\bmore\b`)

// query returns the names of the columns and the rows as text.
func query(ctx context.Context, url, statement string) (columns []string, list [][]string, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, statement)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for _, f := range rows.FieldDescriptions() {
		columns = append(columns, f.Name)
	}
	for rows.Next() {
		vals, err := rows.Values()
		if err != nil {
			return nil, nil, err
		}
		row := make([]string, len(vals))
		for i, v := range vals {
			if row[i] = "NULL"; v != nil {
				row[i] = fmt.Sprint(v)
			}
		}
		list = append(list, row)
	}
	return columns, list, rows.Err()
}
