package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	zsqlite "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/pawl-dev/pawl/internal/store/sqlite"
)

var _ Target = SQLite{}

// SQLite is a file, which the first handle creates.
type SQLite sqlite.Config

// Name implements Target.
func (s SQLite) Name() string { return "sqlite " + s.Synchronous }

// Open implements Target.
func (s SQLite) Open(ctx context.Context, c Crew) (*Pawl, error) {
	db, err := sqlite.Open(ctx, sqlite.Config(s))
	if err != nil {
		return nil, err
	}
	return NewPawl(PawlConfig{Store: db, Crew: c.or(1), URL: "sqlite://" + s.Path + "?synchronous=" + s.Synchronous}), nil
}

// Spent implements Target. Linux counts the bytes that a process writes: for one that only
// uses SQLite these are the log and what checkpoints copy from it.
func (s SQLite) Spent(context.Context) (Spent, error) {
	b, _ := os.ReadFile("/proc/self/io") // if the file is missing, nothing is reported
	_, after, _ := bytes.Cut(b, []byte("wchar: "))
	line, _, _ := bytes.Cut(after, []byte("\n"))
	n, _ := strconv.ParseInt(string(line), 10, 64)
	return Spent{Written: n}, nil
}

// Left implements Target: SQLite keeps no versions of rows.
func (s SQLite) Left(context.Context) (Left, error) { return Left{}, nil }

// Bare implements Target, on copies of the tables, without their secondary
// indexes.
func (s SQLite) Bare(ctx context.Context, n int) (float64, error) {
	c, err := s.open(ctx, "pragma synchronous = "+s.Synchronous)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	keys, err := s.copyTables(c)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	for i := 0; i < n; i += BareBatch {
		if err := bareBatch(c, keys, i, min(BareBatch, n-i)); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(begun).Seconds(), nil
}

// copyTables returns the keys of the steps it copied.
func (s SQLite) copyTables(c *zsqlite.Conn) (keys [][2]int64, err error) {
	for _, table := range []string{"step", "audit"} {
		made, err := sqlitex.ResultText(c.Prep("select sql from sqlite_master where type = 'table' and name = '" + table + "'"))
		if err != nil {
			return nil, err
		}
		made = strings.Replace(made, table, "bare_"+table, 1)
		if err := sqlitex.ExecuteScript(c, "drop table if exists bare_"+table+";"+made, nil); err != nil {
			return nil, err
		}
	}
	if err := sqlitex.ExecuteTransient(c, "insert into bare_step select * from step limit "+strconv.Itoa(bareRecords), nil); err != nil {
		return nil, err
	}
	err = sqlitex.ExecuteTransient(c, "select job, ord from bare_step", &sqlitex.ExecOptions{ResultFunc: func(row *zsqlite.Stmt) error {
		keys = append(keys, [2]int64{row.ColumnInt64(0), row.ColumnInt64(1)})
		return nil
	}})
	if err == nil && len(keys) == 0 {
		err = fmt.Errorf("there are no steps in %s", s.Path)
	}
	return keys, err
}

// bareRecords is how many records are changed in turn.
const bareRecords = 20_000

func bareBatch(c *zsqlite.Conn, keys [][2]int64, from, n int) (err error) {
	end, err := sqlitex.ImmediateTransaction(c)
	if err != nil {
		return err
	}
	defer end(&err)
	update := c.Prep("update bare_step set state = 'complete', seq = ?3, head = ?4, updated_at = ?5 where job = ?1 and ord = ?2")
	insert := c.Prep("insert into bare_audit (job, ord, seq, state, event, reason, actor, request_id, at, hash) values (?1, ?2, ?3, 'complete', 'success', '', 'bench', '', ?5, ?4)")
	at := time.Now().UnixMicro()
	for i := from; i < from+n; i++ {
		key, seq := keys[i%len(keys)], int64(1+i/len(keys))
		for _, stmt := range []*zsqlite.Stmt{update, insert} {
			stmt.BindInt64(1, key[0])
			stmt.BindInt64(2, key[1])
			stmt.BindInt64(3, seq)
			stmt.BindBytes(4, bareHash[:])
			stmt.BindInt64(5, at)
			if _, err := stmt.Step(); err != nil {
				return err
			}
			if err := stmt.Reset(); err != nil {
				return err
			}
		}
	}
	return nil
}

// bareHash has the length of the hashes of the trail.
var bareHash [32]byte
