// Package local runs Pawl in this process: it opens a database, SQLite or PostgreSQL, and
// an engine on it, and returns the client to speak to it.
package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store/address"
)

// Config says how the engine works. The zero value is ready to use.
type Config struct {
	// Client says on whose behalf the client asks.
	Client client.Config

	// Passive leaves evaluating jobs, deadlines, schedules and the steps of dead workers
	// to other processes on the database: "pawl server", or an engine that is not passive.
	Passive bool

	// Retention is how long what has ended is kept; at least an hour. 0 is for ever.
	Retention time.Duration

	// Silence is how long a worker may be silent before it is taken for dead. All
	// processes on a database should have the same. Default 6 s.
	Silence time.Duration

	// Log is where the engine says what went wrong. Default: nowhere.
	Log *slog.Logger
}

// Open opens a database and runs an engine on it, until the client is closed. The name is
// a path, "sqlite:///path?synchronous=normal", "sqlite::memory:", or a PostgreSQL URL. A
// database that is not there, or is empty, is made; one of another schema version is an
// error that names the command for it.
//
// Several processes may open the same database. Each evaluates jobs and watches over
// deadlines, unless it is passive. What runs steps is a worker; see package worker.
func Open(ctx context.Context, name string, c Config) (*client.Client, error) {
	at, err := address.Parse(name)
	if err != nil {
		return nil, err
	}
	if err := at.Check(); err != nil {
		return nil, err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s, err := at.Open(ctx, c.Silence, c.Log)
	if err != nil {
		return nil, err
	}
	e, err := engine.Open(engine.Config{Store: s, Lanes: at.Lanes(), Passive: c.Passive, Node: node(c.Passive), Retention: c.Retention, Silence: c.Silence, Log: c.Log})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return client.Over(e, c.Client, func() error {
		e.Close()
		return s.Close()
	}), nil
}

// node returns what this process says of itself to others on the database, under a number
// made anew: an engine that is not passive is a server to them.
func node(passive bool) pawl.Node {
	host, _ := os.Hostname()
	n := pawl.Node{ID: 1 + rand.Int64N(math.MaxInt64), Role: engine.RoleServer, Host: host, PID: os.Getpid()}
	n.Name = fmt.Sprintf("%s/%d", host, n.PID)
	if passive {
		n.Role = engine.RoleWorker
	}
	n.Version = version()
	return n
}

// version returns that of Pawl in this program.
func version() string {
	const module = "github.com/pawl-dev/pawl"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == module && m.Version != "" {
				return m.Version
			}
		}
	}
	return "devel"
}
