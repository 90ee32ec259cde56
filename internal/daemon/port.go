package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/server"
)

const (
	readyLimit = 2 * time.Second // for the checks of /readyz
	portGrace  = 2 * time.Second // for requests under way when the port is closed
)

// A Port serves HTTP about this process, as one of its components.
type Port struct {
	log     *slog.Logger
	handler http.Handler
	Address string                       // the actual address, once it is open
	opened  atomic.Pointer[net.Listener] // open, and not served yet
	asked   atomic.Uint64
	last    atomic.Int64 // nanoseconds
}

// CheckAddress returns an error of kind Invalid unless the address is a host of the loopback
// interface and a port. It makes no DNS query.
func CheckAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	n, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil {
		return pawl.Errorf(pawl.Invalid, "want a host and a port from 0 to 65535, such as 127.0.0.1:9464")
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return &pawl.Error{Kind: pawl.Invalid, Message: fmt.Sprintf("want an address of the loopback interface, such as 127.0.0.1:%d", n),
			Hint: "pawl has no TLS and no tokens yet; put a proxy that has them in front of it"}
	}
	return nil
}

// OpenPort opens a port at an address of the loopback interface. The first run serves it;
// later runs open it again.
func OpenPort(address string, log *slog.Logger) (*Port, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, &pawl.Error{Kind: pawl.Unavailable, Message: "cannot listen on " + address, Err: err}
	}
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		_ = l.Close() // its address was never published
		return nil, pawl.Errorf(pawl.Invalid, "it resolves to %s: want an address of the loopback interface", l.Addr())
	}
	p := &Port{log: log, Address: l.Addr().String()}
	p.opened.Store(&l)
	return p, nil
}

// Answer sets what the port serves: metrics, and the reasons why the process cannot do its
// work.
func (p *Port) Answer(m http.Handler, unready func(context.Context) []string) {
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

// ServeHTTP counts the requests.
func (p *Port) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.asked.Add(1)
	p.last.Store(time.Now().UnixNano())
	p.handler.ServeHTTP(w, r)
}

// component returns the port as a component of the process.
func (p *Port) component() server.Component {
	return server.Component{Name: "http", Doc: "serves http://" + p.Address, Run: p.run, Progress: func() server.Progress {
		seen := server.Progress{Rounds: p.asked.Load()}
		if last := p.last.Load(); last != 0 {
			seen.At = time.Unix(0, last)
		}
		return seen
	}}
}

// run serves until ctx ends; requests under way may then take up to portGrace.
func (p *Port) run(ctx context.Context) error {
	l, err := p.listener()
	if err != nil {
		return err
	}
	s := &http.Server{Handler: p, ReadTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelWarn)}
	failed := make(chan error, 1) // 1: the receiver may be gone
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

func (p *Port) listener() (net.Listener, error) {
	if l := p.opened.Swap(nil); l != nil {
		return *l, nil
	}
	return net.Listen("tcp", p.Address)
}

// close closes a port that was never served.
func (p *Port) close() {
	if l := p.opened.Swap(nil); l != nil {
		_ = (*l).Close() // it never served a request
	}
}

// Served serves the port until end is called, in a process whose services are not its own
// parts.
func (p *Port) Served(ctx context.Context) (end func(), err error) {
	host, err := server.New(server.Config{Name: "http", Components: []server.Component{p.component()}, Log: p.log})
	if err != nil {
		p.close()
		return nil, err
	}
	return superviseHost(ctx, host, p.log), nil
}
