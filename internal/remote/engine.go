package remote

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
)

// API is the version of the API that this package speaks.
const API = 1

// An Engine is the engine of a server. It is safe for concurrent use.
type Engine struct {
	base    string // without a slash at its end
	program string // the version of the server
	token   string // the secret of a token, or empty; it is in no error
	http    *http.Client
	beats   *http.Client // of its own, so that no beat waits behind an exchange
	slow    *http.Client // for answers that take minutes
	talks   talks
	named   atomic.Bool   // by a token, or a certificate that the server has asked for
	pause   time.Duration // before the first repetition
}

var _ link.Engine = (*Engine)(nil)

// Timeouts of a request. The server answers one that waits after 25 s.
const (
	dialTimeout   = 10 * time.Second
	headerTimeout = 60 * time.Second
	slowTimeout   = time.Hour // as a reload of services may take
	firstPause    = 100 * time.Millisecond
)

// Config says how a server is used.
type Config struct {
	Token string // the secret of a token; empty: none is sent
	CA    []byte // certificates in PEM that that of the server is signed by; empty: those of the system

	Cert, Key []byte // the certificate of the client, and its key, in PEM; empty: it shows none
}

// Open returns the engine of the server at a URL, and asks it for its version. The URL has the
// scheme https, or http and an address of the loopback interface, and no path, user or query.
func Open(ctx context.Context, base string, c Config) (*Engine, error) {
	u, err := Parse(base)
	if err != nil {
		return nil, err
	}
	if strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, pawl.Errorf(pawl.Invalid, "the token: want visible ASCII characters, as \"pawl token create\" prints them")
	}
	e := &Engine{base: u, token: c.Token, pause: firstPause}
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(c.CA) > 0 {
		if secure.RootCAs = x509.NewCertPool(); !secure.RootCAs.AppendCertsFromPEM(c.CA) {
			return nil, pawl.Errorf(pawl.Invalid, "the certificates of the CA: want one or more, in PEM")
		}
	}
	if len(c.Cert)+len(c.Key) > 0 {
		pair, err := tls.X509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, &pawl.Error{Kind: pawl.Invalid, Message: "the certificate of the client: want one and its key, in PEM", Err: err}
		}
		secure.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if asked.SupportsCertificate(&pair) != nil {
				return &tls.Certificate{}, nil // none
			}
			e.named.Store(true)
			return &pair, nil
		}
	}
	e.named.Store(c.Token != "")
	e.http, e.beats, e.slow = newClient(16, secure), newClient(1, secure), newClient(1, secure)
	e.slow.Transport.(*http.Transport).ResponseHeaderTimeout = slowTimeout
	if e.program, err = e.greet(ctx); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// bufferSize is that of a connection, so that most exchanges are one write and one or two reads.
const bufferSize = 32 << 10

// newClient returns a client that keeps so many connections open.
func newClient(idle int, secure *tls.Config) *http.Client {
	dialer := &net.Dialer{Timeout: dialTimeout}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: headerTimeout,
			TLSClientConfig: secure, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: idle, IdleConnTimeout: 90 * time.Second,
			ReadBufferSize: bufferSize, WriteBufferSize: bufferSize,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Close closes the connections that are not in use.
func (e *Engine) Close() {
	e.http.CloseIdleConnections()
	e.beats.CloseIdleConnections()
	e.slow.CloseIdleConnections()
}

// greet requires that the server speaks this version of the API, and returns that of its program.
func (e *Engine) greet(ctx context.Context) (program string, err error) {
	var v struct {
		Version string `json:"version"`
		API     int    `json:"api"`
	}
	if _, err := e.get(ctx, &v, "get-version", "/api/version"); err != nil {
		return "", err
	}
	if v.API != API {
		return "", e.foreignAPI(v.Version, v.API)
	}
	return v.Version, nil
}

// Parse returns the URL of a server without a slash at its end. The error is of kind Invalid.
func Parse(base string) (string, error) {
	bad := func(what string) error {
		return &pawl.Error{Kind: pawl.Invalid, Message: "the URL of the server: " + what, Hint: "write it as https://pawl.example.com, or http://127.0.0.1:7295 for one on this machine"}
	}
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "":
		return "", bad("want https://HOST, or http://ADDRESS of the loopback interface")
	case u.User != nil:
		return "", bad("want it without a user and a password")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery || strings.Trim(u.Path, "/") != "":
		return "", bad("want it without a path and a query")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return "", bad("http is for the loopback interface only: want https://" + u.Host)
	case u.Scheme != "http" && u.Scheme != "https":
		return "", bad("want the scheme https, or http for the loopback interface")
	}
	return u.Scheme + "://" + u.Host, nil
}

func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback() || strings.EqualFold(host, "localhost")
}

// IsLocal reports whether the server at a valid URL is on the loopback interface.
func IsLocal(base string) bool {
	u, err := url.Parse(base)
	return err == nil && loopback(u.Hostname())
}

// unsupported returns the error for what a server cannot do.
func unsupported(what, instead string) error {
	return &pawl.Error{Kind: pawl.Invalid, Message: what + " cannot be done through a server", Hint: instead}
}

// orDefault returns the workspace that a request names, or the default one.
func orDefault(workspace string) string { return cmp.Or(workspace, pawl.DefaultWorkspace) }
