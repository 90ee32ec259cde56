// Package pgtest gives tests a PostgreSQL database of their own: on the server
// that PAWL_TEST_POSTGRES names, else on a throw-away one that ends with the
// test process.
package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Variable names the environment variable with the URL of a server on which
// tests may create databases.
const Variable = "PAWL_TEST_POSTGRES"

// Without is the value of Variable with which nobody finds PostgreSQL: `make check`
// sets it, so that a test that needs a server fails and does not start one.
const Without = "none"

// Durable names the environment variable that, set to 1, makes the throw-away
// cluster write every commit to the disk.
const Durable = "PAWL_TEST_POSTGRES_DURABLE"

var server struct {
	sync.Mutex
	url     string
	cluster *Cluster
	err     error
}

// Main runs the tests of a package and ends the cluster that they used:
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
func Main(m *testing.M) int {
	code := m.Run()
	server.Lock()
	defer server.Unlock()
	if server.cluster != nil {
		if err := server.cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop postgres:", err)
		}
		server.cluster = nil
	}
	return code
}

// Server returns the URL of the server, which is started when it is asked for
// the first time. The package of the test needs a TestMain; see Main.
func Server(t testing.TB) string {
	t.Helper()
	server.Lock()
	defer server.Unlock()
	if server.url == "" && server.err == nil {
		server.url = os.Getenv(Variable)
		if server.url == "" || server.url == Without {
			server.cluster, server.err = Start(context.Background(), os.Getenv(Durable) == "1")
			if server.err == nil {
				server.url = server.cluster.URL
			}
		}
	}
	if server.err != nil {
		t.Fatalf("no PostgreSQL for tests: %v", server.err)
	}
	return server.url
}

var databases atomic.Int64

// URL returns the URL of a new, empty database, which goes when the test ends.
func URL(t testing.TB) string {
	t.Helper()
	base := Server(t)
	name := fmt.Sprintf("pawl_%d_%d_%d", os.Getpid(), time.Now().UnixNano(), databases.Add(1))
	if err := admin(base, "create database "+name+" template template0"); err != nil {
		t.Fatalf("create a database: %v", err)
	}
	t.Cleanup(func() {
		if err := admin(base, "drop database if exists "+name+" with (force)"); err != nil {
			t.Errorf("drop the database: %v", err)
		}
	})
	return withDatabase(t, base, name)
}

func admin(base, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, base)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

func withDatabase(t testing.TB, base, name string) string {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		t.Fatalf("%s=%q: want postgres://...", Variable, base)
	}
	u.Path = "/" + name
	return u.String()
}
