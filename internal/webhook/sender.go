package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/keyring"
)

// Config configures how webhooks are delivered. The zero value of each field is valid.
type Config struct {
	// Timeout is how long a receiver may take, from the connection to the end of its response.
	// Default 10 s.
	Timeout time.Duration

	// First and Most bound the time between two attempts: it begins with First and doubles up
	// to Most. Default 1 s and 10 minutes.
	First, Most time.Duration

	// GiveUp is how long a receiver may fail before its webhook is disabled. Default 72 h.
	GiveUp time.Duration

	// Poll is the interval between tries to become the process that delivers. Default 5 s.
	Poll time.Duration

	// Ring has the keys that encrypt secrets in the database. Default: they are stored as they are.
	Ring *keyring.Ring

	// Roots are the certificates that receivers' may be signed by. Default: those of the system.
	Roots *x509.CertPool
}

func (c Config) withDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	c.First, c.Most = cmp.Or(c.First, time.Second), cmp.Or(c.Most, 10*time.Minute)
	c.GiveUp, c.Poll = cmp.Or(c.GiveUp, 72*time.Hour), cmp.Or(c.Poll, 5*time.Second)
	return c
}

// readAnswer is how much of a response is read, so that its connection can be used again.
const readAnswer = 16 << 10

// A Sender makes requests. It is safe for concurrent use.
type Sender struct {
	timeout time.Duration
	remote  *http.Client
	local   *http.Client // of the loopback interface
}

// NewSender returns a sender. It uses no proxy, since a proxy resolves names by itself.
func NewSender(c Config) *Sender {
	c = c.withDefaults()
	client := func(loopback bool) *http.Client {
		d := &net.Dialer{Timeout: c.Timeout, Control: guard(loopback)}
		return &http.Client{
			Transport: &http.Transport{DialContext: d.DialContext, TLSClientConfig: &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
				MaxResponseHeaderBytes: readAnswer, MaxIdleConnsPerHost: 2, IdleConnTimeout: 30 * time.Second, DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return &Sender{timeout: c.Timeout, remote: client(false), local: client(true)}
}

// Close closes the connections that are not in use.
func (s *Sender) Close() {
	s.remote.CloseIdleConnections()
	s.local.CloseIdleConnections()
}

// A Result is what came of an attempt.
type Result struct {
	At        time.Time
	Duration  time.Duration
	Status    int // 0: no response
	Delivered bool
	Error     string
}

// Send makes one request. Only a status of 2xx is a delivery.
func (s *Sender) Send(ctx context.Context, w *pawl.Webhook, secrets *Secrets, m Message) Result {
	r := Result{At: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	status, err := s.post(ctx, w.URL, secrets, m, r.At)
	r.Duration, r.Status = time.Since(r.At), status
	switch {
	case err != nil && ctx.Err() == context.DeadlineExceeded:
		r.Error = fmt.Sprintf("no response within %s", s.timeout)
	case err != nil:
		r.Error = plainly(err)
	case status < 200 || status > 299:
		r.Error = fmt.Sprintf("the receiver responded with %d %s", status, http.StatusText(status))
	default:
		r.Delivered = true
	}
	return r
}

func (s *Sender) post(ctx context.Context, to string, secrets *Secrets, m Message, at time.Time) (status int, err error) {
	loopback, err := CheckURL(to)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(m.Body))
	if err != nil {
		return 0, err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "pawl-webhook", "webhook-id": m.ID,
		"webhook-timestamp": strconv.FormatInt(at.Unix(), 10), "webhook-signature": secrets.signatures(m.ID, at, m.Body),
	} {
		req.Header.Set(name, value)
	}
	client := s.remote
	if loopback {
		client = s.local
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, readAnswer))
	if resp.StatusCode > 299 {
		err = nil // the status says it
	}
	return resp.StatusCode, err
}

// plainly returns the text of an error without the URL, which may have a secret in its query.
func plainly(err error) string {
	var refused *refusedError
	var of *url.Error
	switch {
	case errors.As(err, &refused):
		return refused.Error()
	case errors.As(err, &of):
		err = of.Err
	}
	return fmt.Sprintf("no response: %.300v", err)
}
