package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
)

// certificateEvery is how often a Certificate looks whether its files have changed.
const certificateEvery = time.Second

// A Certificate is what a port shows to its clients: a certificate and its key, read again
// when their files change. A pair that cannot be used, such as one of which only one file is
// written so far, leaves the old one in use. It is safe for concurrent use.
type Certificate struct {
	cert, key string
	ca        string // that clients' certificates are signed by; empty: they show none
	log       *slog.Logger
	now       func() time.Time

	mu     sync.Mutex
	inUse  *tls.Config // with what the files have
	looked time.Time
	seen   [3]stamp // of the files that were read last, in use or not
}

// A stamp tells whether a file has changed.
type stamp struct {
	size     int64
	modified time.Time
}

// OpenCertificate reads a certificate, with those that it is signed by, and its key, both in
// PEM. ca is the file of the certificates that those of clients are signed by, or empty: then
// clients show none. The error is of kind Invalid.
func OpenCertificate(cert, key, ca string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, ca: ca, log: log, now: time.Now}
	c.looked, c.seen = c.now(), c.stamps()
	if err := c.load(); err != nil {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: "the certificate, or that of the CA of clients, cannot be used", Err: err, Hint: "want a certificate and its key in PEM, as a CA or \"openssl req -x509 -nodes\" writes them"}
	}
	return c, nil
}

// load reads the files.
func (c *Certificate) load() error {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if c.ca != "" {
		text, err := os.ReadFile(c.ca)
		if err != nil {
			return err
		}
		// A client without a certificate may have a token.
		if config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, x509.NewCertPool(); !config.ClientCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("%s has no certificate in PEM", c.ca)
		}
	}
	c.inUse = config
	return nil
}

// config returns the settings of a server that shows the certificate.
func (c *Certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: c.current}
}

// Strict returns the settings of a server that speaks TLS 1.3 only. Its clients show a certificate
// if required, and otherwise may.
func (c *Certificate) Strict(required bool) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		config, err := c.current(h)
		if err != nil {
			return nil, err
		}
		config = config.Clone()
		config.MinVersion = tls.VersionTLS13
		if required {
			config.ClientAuth = tls.RequireAndVerifyClientCert
		}
		return config, nil
	}}
}

// current returns the settings for a handshake.
func (c *Certificate) current(*tls.ClientHelloInfo) (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now.Sub(c.looked) >= certificateEvery {
		c.looked = now
		if found := c.stamps(); found != c.seen {
			c.seen = found
			c.read()
		}
	}
	return c.inUse, nil
}

// read reads the files again.
func (c *Certificate) read() {
	if err := c.load(); err != nil {
		c.log.Warn("the new certificate cannot be used; the old one stays in use", "certificate", c.cert, "key", c.key, "error", err)
		return
	}
	c.log.Info("a new certificate is in use", "certificate", c.cert, "until", c.inUse.Certificates[0].Leaf.NotAfter)
}

func (c *Certificate) stamps() (s [3]stamp) {
	for i, name := range []string{c.cert, c.key, c.ca} {
		if f, err := os.Stat(name); err == nil { // otherwise it is being replaced
			s[i] = stamp{f.Size(), f.ModTime()}
		}
	}
	return s
}
