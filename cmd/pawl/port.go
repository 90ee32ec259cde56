package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/metrics"
	"github.com/pawl-dev/pawl/internal/server"
)

const (
	readyLimit = 2 * time.Second // for what /readyz asks
	portGrace  = 2 * time.Second // for answers under way when the port is closed
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

// A port answers HTTP about this process: one part of it.
type port struct {
	log     *slog.Logger
	handler http.Handler
	address string                       // that it has, once it was opened
	opened  atomic.Pointer[net.Listener] // and not served yet
	asked   atomic.Uint64
	last    atomic.Int64 // nanoseconds
}

// openPort opens a port at an address that checkListen has found good. Its first run
// serves it, later ones open it anew.
func openPort(address string, log *slog.Logger) (*port, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, &pawl.Error{Kind: pawl.Unavailable, Message: "cannot listen on " + address, Err: err,
			Hint: "another process may have that port: name another one with --listen, or port 0 for any that is free"}
	}
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		_ = l.Close() // nobody was told of it
		return nil, usage("", "--listen %q: it leads to %s: want an address of the loopback interface", address, l.Addr())
	}
	p := &port{log: log, address: l.Addr().String()}
	p.opened.Store(&l)
	return p, nil
}

// answer says what is answered: metrics, and what keeps the process from doing its
// work.
func (p *port) answer(m *metrics.Metrics, unready func(context.Context) []string) {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyLimit)
		defer cancel()
		if reasons := unready(ctx); len(reasons) > 0 {
			http.Error(w, strings.Join(reasons, "\n"), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	p.handler = mux
}

// announce says where it answers.
func (p *port) announce(w io.Writer) {
	fmt.Fprintf(w, "http://%s answers /metrics, /healthz and /readyz\n", p.address)
}

// ServeHTTP counts what is asked.
func (p *port) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.asked.Add(1)
	p.last.Store(time.Now().UnixNano())
	p.handler.ServeHTTP(w, r)
}

// component is the port as a component of the process.
func (p *port) component() server.Component {
	return server.Component{Name: "http", Doc: "answers at http://" + p.address, Run: p.run, Progress: func() server.Progress {
		seen := server.Progress{Rounds: p.asked.Load()}
		if last := p.last.Load(); last != 0 {
			seen.At = time.Unix(0, last)
		}
		return seen
	}}
}

// run serves until ctx ends; answers under way may then take some time.
func (p *port) run(ctx context.Context) error {
	l, err := p.listener()
	if err != nil {
		return err
	}
	s := &http.Server{Handler: p, ReadTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelWarn)}
	failed := make(chan error, 1) // 1: nobody may wait any more
	go func() { failed <- s.Serve(l) }()
	select {
	case err := <-failed:
		return errors.Join(err, s.Close())
	case <-ctx.Done():
	}
	over, cancel := context.WithTimeout(context.Background(), portGrace)
	defer cancel()
	if s.Shutdown(over) != nil {
		err = s.Close()
	}
	<-failed
	return err
}

func (p *port) listener() (net.Listener, error) {
	if l := p.opened.Swap(nil); l != nil {
		return *l, nil
	}
	return net.Listen("tcp", p.address)
}

// close closes a port that was never served.
func (p *port) close() {
	if l := p.opened.Swap(nil); l != nil {
		_ = (*l).Close() // nobody was answered
	}
}

// answered has a port answer about this process until end is called, beside services
// that are not its parts.
func (a *app) answered(ctx context.Context, address string, m *metrics.Metrics, unready func(context.Context) []string) (end func(), err error) {
	p, err := openPort(address, a.log)
	if err != nil {
		return nil, err
	}
	p.answer(m, unready)
	p.announce(a.logs)
	host, err := server.New(server.Config{Name: "http", Components: []server.Component{p.component()}, Log: a.log})
	if err != nil {
		p.close()
		return nil, err
	}
	return a.attended(ctx, host), nil
}
