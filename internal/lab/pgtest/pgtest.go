// Package pgtest gives tests a PostgreSQL database of their own: on the server that
// PAWL_TEST_POSTGRES names, else on a temporary one that ends with the test process.
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

// Without is the value of Variable that means no server: `make check` sets it, so that a test
// that needs a server fails and does not start one.
const Without = "none"

// Durable names the environment variable that, set to 1, makes the temporary cluster write
// every commit to disk.
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
	if err := model.drop(); err != nil {
		fmt.Fprintln(os.Stderr, "drop the model of databases:", err)
	}
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

// Server returns the URL of the server, which is started on the first call. The package of the
// test needs a TestMain; see Main.
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

// URL returns the URL of a new, empty database, which is removed when the test ends.
func URL(t testing.TB) string {
	t.Helper()
	return create(t, Server(t), "template0")
}

// Copy returns the URL of a new copy of the database that fill has filled. fill is called once
// in a test process, and leaves no connection open: copying a schema takes half as long as
// migrating to it.
func Copy(t testing.TB, fill func(url string) error) string {
	t.Helper()
	base := Server(t)
	return create(t, base, model.name(t, base, fill))
}

func create(t testing.TB, base, template string) string {
	t.Helper()
	name := newName()
	// Copying files costs the server half as much as writing them to the log.
	if err := admin(base, "create database "+name+" template "+template+" strategy file_copy"); err != nil {
		t.Fatalf("create a database: %v", err)
	}
	t.Cleanup(func() {
		if err := admin(base, "drop database if exists "+name+" with (force)"); err != nil {
			t.Errorf("drop the database: %v", err)
		}
	})
	return withDatabase(t, base, name)
}

func newName() string {
	return fmt.Sprintf("pawl_%d_%d_%d", os.Getpid(), time.Now().UnixNano(), databases.Add(1))
}

// model is the database that Copy copies.
var model filled

type filled struct {
	sync.Mutex
	base, made string
	err        error
}

func (m *filled) name(t testing.TB, base string, fill func(url string) error) string {
	t.Helper()
	m.Lock()
	defer m.Unlock()
	if m.made == "" && m.err == nil {
		m.base, m.made = base, newName()
		if m.err = admin(base, "create database "+m.made+" template template0"); m.err == nil {
			m.err = fill(withDatabase(t, base, m.made))
		}
	}
	if m.err != nil {
		t.Fatalf("make the model of databases: %v", m.err)
	}
	return m.made
}

func (m *filled) drop() error {
	m.Lock()
	defer m.Unlock()
	if m.made == "" {
		return nil
	}
	return admin(m.base, "drop database if exists "+m.made+" with (force)")
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
