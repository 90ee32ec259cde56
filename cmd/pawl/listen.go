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
	"github.com/pawl-dev/pawl/internal/daemon"
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
func (a *app) openPort(address string, w io.Writer) (*daemon.Port, error) {
	if address == "" {
		return nil, nil
	}
	p, err := daemon.OpenPort(address, a.log)
	switch pawl.KindOf(err) {
	case pawl.Unavailable:
		return nil, hinted(err, "another process may have that port: name another one with --listen, or port 0 for any that is free")
	case pawl.Invalid:
		return nil, usage("", "--listen %q: %s", address, err)
	}
	if err == nil {
		fmt.Fprintf(w, "http://%s answers /metrics, /healthz and /readyz\n", p.Address)
	}
	return p, err
}

// staffed runs f beside the parts of the engine of a process that stays.
func (a *app) staffed(ctx context.Context, l *ledger, s *service, f func(context.Context) error) error {
	p, err := a.openPort(s.listen, a.stderr)
	if err != nil {
		return err
	}
	return (&daemon.Daemon{Role: s.role, Version: version(), Engine: l.engine, Store: l.store, Sockets: control.Dir(a.getenv), Port: p, Log: a.log,
		Unreachable: func(err error) {
			a.log.Warn("pawl service does not reach this process", "error", err, "hint", hintOf(err))
		}}).Run(ctx, f)
}

// How often a process looks whether the schema is still its own. On PostgreSQL a hint tells
// it at once.
const (
	guardSQLite   = 2 * time.Second
	guardPostgres = 2 * time.Minute
)

// guarded runs f until the schema is of a version that this program does not work on.
func (a *app) guarded(ctx context.Context, l *ledger, f func(context.Context) error) error {
	g := &daemon.Guard{Store: l.store, Migrated: l.engine.Migrated(), Every: guardPostgres, Log: a.log,
		Leave: func(err error) { a.exit(complain(a.stderr, outdated(err))) }}
	if l.database.Postgres == "" {
		g.Every = guardSQLite
	}
	return outdated(g.Run(ctx, f))
}

// outdated says what to do about a schema that is not of this program.
func outdated(err error) error {
	var moved *daemon.MigratedError
	switch {
	case !errors.As(err, &moved):
		return err
	case moved.Current < moved.Newest:
		return hinted(err, "run pawl migrate up, and start it again")
	}
	return hinted(err, "start the newer pawl")
}
