package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/control"
)

// bindListen adds the flag --listen of a process that answers HTTP.
func bindListen(c *cobra.Command, address *string) {
	c.Flags().StringVar(address, "listen", "", "answer /metrics, /healthz and /readyz over HTTP on this loopback address, 127.0.0.1:9464 say; without it nothing is answered")
}

// checkListen tells what is wrong with the flag --listen.
func checkListen(address string) error {
	if address == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		return usage("", "--listen %q: want a host and a port of 0 to 65535, 127.0.0.1:9464 say", address)
	} else if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return usage("elsewhere it takes TLS or a token, which there is not yet; put a proxy that has them before it", "--listen %q: want an address of the loopback interface, 127.0.0.1:%d say", address, n)
	}
	return nil
}

// openPort opens the port at an address that checkListen has found good, and says where it
// answers. Nil: no address is given.
func (a *app) openPort(address string, w io.Writer) (*port, error) {
	if address == "" {
		return nil, nil
	}
	p, err := openPort(address, a.log)
	switch pawl.KindOf(err) {
	case pawl.Unavailable:
		return nil, hinted(err, "another process may have that port: name another one with --listen, or port 0 for any that is free")
	case pawl.Invalid:
		return nil, usage("", "--listen %q: %s", address, err)
	}
	if err == nil {
		fmt.Fprintf(w, "http://%s answers /metrics, /healthz and /readyz\n", p.address)
	}
	return p, err
}

// staffed runs f beside the parts of the engine of a process that stays.
func (a *app) staffed(ctx context.Context, l *ledger, s *service, f func(context.Context) error) error {
	p, err := a.openPort(s.listen, a.stderr)
	if err != nil {
		return err
	}
	return (&staff{role: s.role, version: version(), engine: l.engine, store: l.store, sockets: control.Dir(a.getenv), port: p, log: a.log,
		deaf: func(err error) {
			a.log.Warn("pawl service does not reach this process", "error", err, "hint", hintOf(err))
		}}).run(ctx, f)
}

// How often a process looks whether the schema is still its own. On PostgreSQL a hint tells
// it at once.
const (
	guardSQLite   = 2 * time.Second
	guardPostgres = 2 * time.Minute
)

// guarded runs f until the schema is of a version that this program does not work on.
func (a *app) guarded(ctx context.Context, l *ledger, f func(context.Context) error) error {
	g := &guard{store: l.store, migrated: l.engine.Migrated(), every: guardPostgres, log: a.log,
		leave: func(err error) { a.exit(complain(a.stderr, outdated(err))) }}
	if l.database.Postgres == "" {
		g.every = guardSQLite
	}
	return outdated(g.run(ctx, f))
}

// outdated says what to do about a schema that is not of this program.
func outdated(err error) error {
	var moved *migratedError
	switch {
	case !errors.As(err, &moved):
		return err
	case moved.current < moved.newest:
		return hinted(err, "run pawl migrate up, and start it again")
	}
	return hinted(err, "start the newer pawl")
}
