package daemon

import (
	"context"
	"crypto/tls"
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

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/oidc"
	"github.com/pawl-dev/pawl/internal/server"
)

// DefaultAddress is where a process serves HTTP unless it is given an address.
const DefaultAddress = "127.0.0.1:7295"

const (
	readyLimit = 2 * time.Second // for the checks of /readyz
	maxHeader  = 16 << 10        // bytes of a request's header; net/http adds 4096
	sendBuffer = 64 << 10        // bytes that the kernel keeps for a client that does not read
)

// portLimits are what one client may take from the others.
type portLimits struct {
	header      time.Duration // for the header of a request
	body        time.Duration // for its body; see api.AllowRead
	response    time.Duration // from the end of the header to that of the response; see api.AllowWrite
	idle        time.Duration // between two requests
	grace       time.Duration // for requests under way when the port is closed
	connections int64
}

var defaultLimits = portLimits{
	header: 5 * time.Second, body: 30 * time.Second, response: time.Minute, idle: time.Minute,
	grace: 2 * time.Second, connections: 10_000,
}

// raw are the paths that take bodies of any media type.
var raw = []string{"/api/steps/*/log"}

// A Port serves HTTP, as one of the components of this process.
type Port struct {
	log      *slog.Logger
	limits   portLimits
	handler  http.Handler
	Address  string                       // the actual address, once it is open
	Taken    string                       // the address it was to have, if something else has that
	Beyond   bool                         // other machines can reach it
	Gate     *access.Gate                 // nil: whoever reaches the port has all roles. Set it before Answer
	Login    *oidc.Login                  // nil: nobody signs in with an identity provider. Set it before Answer
	cert     *Certificate                 // nil: it serves HTTP without TLS
	opened   atomic.Pointer[net.Listener] // open, and not served yet
	draining atomic.Bool                  // from the end of a run to the next one
	asked    atomic.Uint64
	last     atomic.Int64 // nanoseconds
}

// CheckAddress returns an error of kind Invalid unless the address is a host and a port and, of
// a port without TLS, the host is one of the loopback interface. It makes no DNS query.
func CheckAddress(address string, secure bool) error {
	host, port, err := net.SplitHostPort(address)
	n, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil {
		return pawl.Errorf(pawl.Invalid, "want a host and a port from 0 to 65535, such as "+DefaultAddress)
	}
	if ip := net.ParseIP(host); !secure && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return pawl.Errorf(pawl.Invalid, "without TLS want an address of the loopback interface, such as 127.0.0.1:%d", n)
	}
	return nil
}

// OpenPort opens a port: with a certificate at any address, and serves TLS; without one (nil)
// at an address of the loopback interface. The first run serves it; later runs open it again.
func OpenPort(address string, c *Certificate, log *slog.Logger) (*Port, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, &pawl.Error{Kind: pawl.Unavailable, Message: "cannot listen on " + address, Err: err}
	}
	a, ok := l.Addr().(*net.TCPAddr)
	local := ok && a.IP.IsLoopback()
	if !local && c == nil {
		_ = l.Close() // its address was never published
		return nil, pawl.Errorf(pawl.Invalid, "it resolves to %s: without TLS want an address of the loopback interface", l.Addr())
	}
	p := &Port{log: log, limits: defaultLimits, Address: l.Addr().String(), Beyond: !local, cert: c}
	p.opened.Store(&l)
	return p, nil
}

// URL returns the URL of the port.
func (p *Port) URL() string {
	if p.cert != nil {
		return "https://" + p.Address
	}
	return "http://" + p.Address
}

// asksForCertificates reports whether clients may show a certificate.
func (p *Port) asksForCertificates() bool { return p.cert != nil && p.cert.ca != "" }

// cookie returns the name of the cookie of a session.
func (p *Port) cookie() string {
	_, port, _ := net.SplitHostPort(p.Address) // it is one of a listener
	return api.CookiePrefix + "_" + port
}

// OpenDefaultPort is OpenPort with an address that may be taken, such as DefaultAddress: the
// processes of one machine have the same. It then opens a free port of 127.0.0.1.
func OpenDefaultPort(address string, c *Certificate, log *slog.Logger) (*Port, error) {
	p, err := OpenPort(address, c, log)
	if pawl.KindOf(err) != pawl.Unavailable {
		return p, err
	}
	if p, err = OpenPort("127.0.0.1:0", c, log); err != nil {
		return nil, err
	}
	p.Taken = address
	return p, nil
}

// Answer sets what the port serves, behind an api.Guard: metrics, the reasons why the process
// cannot do its work, and the operations of the API with their documents, unless they are nil.
// Operations have the paths /api/, /openapi*, /docs and /problems/, and answer for what they do
// not know there, with api.NotFound.
func (p *Port) Answer(m http.Handler, unready func(context.Context) []string, operations http.Handler) {
	mux := http.NewServeMux()
	if p.Login != nil {
		p.Login.Add(mux)
	}
	mux.Handle("GET /metrics", api.Allow(api.Viewer, m))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyLimit)
		defer cancel()
		reasons := unready(ctx)
		if p.draining.Load() {
			reasons = append(reasons, "http is closing")
		}
		if len(reasons) > 0 {
			http.Error(w, strings.Join(reasons, "\n"), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /problems/{slug}", api.Explain)
	own := api.NotFound(mux)
	p.handler = api.Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if operations != nil && isOperation(r.URL.Path) {
			operations.ServeHTTP(w, r)
			return
		}
		own.ServeHTTP(w, r)
	}), api.GuardConfig{Open: []string{"/healthz", "/readyz"}, Gate: p.Gate, Cookie: p.cookie(), Raw: raw, Log: p.log})
}

// isOperation reports whether a path belongs to the API.
func isOperation(path string) bool {
	for _, prefix := range []string{"/api/", "/openapi", "/problems/"} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return path == "/docs" || strings.HasPrefix(path, "/docs/")
}

// ServeHTTP counts the requests, and limits the time for their bodies.
func (p *Port) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.asked.Add(1)
	p.last.Store(time.Now().UnixNano())
	if r.Body != nil && r.Body != http.NoBody {
		if c := http.NewResponseController(w); c.SetReadDeadline(time.Now().Add(p.limits.body)) == nil {
			r.Body = &timedBody{ReadCloser: r.Body, conn: c}
		}
	}
	p.handler.ServeHTTP(w, r)
}

// A timedBody is a body with a deadline, which ends with the body: net/http goes on to read from
// the connection, and would take a late deadline for the end of the client.
type timedBody struct {
	io.ReadCloser
	conn *http.ResponseController
}

func (b *timedBody) Read(data []byte) (int, error) {
	n, err := b.ReadCloser.Read(data)
	if err == io.EOF {
		_ = b.conn.SetReadDeadline(time.Time{}) // the connection is gone
	}
	return n, err
}

// component returns the port as a component of the process.
func (p *Port) component() server.Component {
	doc := "serves " + p.URL()
	if p.Taken != "" {
		doc += ", since " + p.Taken + " is taken"
	}
	return server.Component{Name: "http", Doc: doc, Run: p.run, Progress: func() server.Progress {
		seen := server.Progress{Rounds: p.asked.Load()}
		if last := p.last.Load(); last != 0 {
			seen.At = time.Unix(0, last)
		}
		return seen
	}}
}

// run serves until ctx ends. The contexts of the requests under way then end, too; their
// responses may take as long as the grace.
func (p *Port) run(ctx context.Context) error {
	l, err := p.listener()
	if err != nil {
		return err
	}
	p.draining.Store(false)
	requests, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	s := p.server(requests)
	s.RegisterOnShutdown(end)
	failed := make(chan error, 1) // 1: the receiver may be gone
	go func() { failed <- p.serve(s, l) }()
	select {
	case err := <-failed:
		return errors.Join(err, s.Close())
	case <-ctx.Done():
	}
	p.draining.Store(true)
	over, cancel := context.WithTimeout(context.Background(), p.limits.grace)
	defer cancel()
	if s.Shutdown(over) != nil {
		err = s.Close()
	}
	<-failed
	return err
}

// serve serves a listener, over TLS if the port has a certificate.
func (p *Port) serve(s *http.Server, l net.Listener) error {
	if p.cert == nil {
		return s.Serve(l)
	}
	s.TLSConfig = p.cert.config()
	return s.ServeTLS(l, "", "")
}

// server returns a server of one run, whose requests have contexts below ctx.
func (p *Port) server(ctx context.Context) *http.Server {
	c := &connections{limit: p.limits.connections, log: p.log}
	return &http.Server{
		Handler: p, DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout: p.limits.header, WriteTimeout: p.limits.response, IdleTimeout: p.limits.idle,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelWarn),
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if t, ok := c.(*tls.Conn); ok {
				c = t.NetConn()
			}
			if t, ok := c.(*net.TCPConn); ok {
				_ = t.SetWriteBuffer(sendBuffer) // the kernel's own size is only larger
			}
			return ctx
		},
		ConnState: c.count,
	}
}

// connections counts the open connections of a server, and closes those beyond the limit.
type connections struct {
	limit int64
	log   *slog.Logger
	open  atomic.Int64
	full  atomic.Bool // some were closed, and it is logged
}

func (c *connections) count(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if n := c.open.Add(1); n > c.limit {
			_ = conn.Close() // its client sees the end
			if !c.full.Swap(true) {
				c.log.Warn("more clients connect than the port serves; the rest is closed", "limit", c.limit)
			}
		}
	case http.StateClosed, http.StateHijacked:
		if c.open.Add(-1) < c.limit/2 {
			c.full.Store(false)
		}
	}
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
