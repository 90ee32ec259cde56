package pgtest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestURLIsADatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	a, b := URL(t), URL(t)
	if a == b {
		t.Fatalf("two tests share %s", a)
	}
	conn, err := pgx.Connect(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var tables int
	if err := conn.QueryRow(t.Context(), "select count(*) from pg_tables where schemaname = 'public'").Scan(&tables); err != nil {
		t.Fatal(err)
	}
	if tables != 0 {
		t.Errorf("a new database has %d tables", tables)
	}
}

func TestStopRemovesTheCluster(t *testing.T) {
	t.Parallel()
	c, err := Start(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(c.dir.Path); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", c.dir.Path, err)
	}
	if err := c.Stop(); err != nil {
		t.Errorf("stopping twice: %v", err)
	}
}

func TestACommitOutlivesTheServer(t *testing.T) {
	t.Parallel()
	c, err := Start(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	if want := filepath.Clean(os.TempDir()); filepath.Dir(c.dir.Path) != want {
		t.Errorf("a durable cluster is in %s, want %s", c.dir.Path, want)
	}
	for _, statement := range []string{"create table kept (n int)", "insert into kept values (7)"} {
		if err := admin(c.URL, statement); err != nil {
			t.Fatal(err)
		}
	}
	c.Kill()
	if err := admin(c.URL, "select 1"); err == nil {
		t.Fatal("a killed server answers")
	}
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := admin(c.URL, "insert into kept select n from kept where n = 7"); err != nil {
		t.Error(err)
	}
}

// TestARestartThatIsGivenUpLeavesNoServer: the next one starts a server on the same data.
func TestARestartThatIsGivenUpLeavesNoServer(t *testing.T) {
	t.Parallel()
	c, err := Start(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	c.Kill()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Restart(ended); err == nil {
		t.Fatal("a restart in a context that has ended succeeded")
	}
	if err := c.Restart(t.Context()); err != nil {
		t.Error(err)
	}
}
