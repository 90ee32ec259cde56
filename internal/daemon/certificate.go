package daemon

import (
	"crypto/tls"
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
	log       *slog.Logger
	now       func() time.Time

	mu     sync.Mutex
	pair   *tls.Certificate
	looked time.Time
	seen   [2]stamp // of the files that were read last, in use or not
}

// A stamp tells whether a file has changed.
type stamp struct {
	size     int64
	modified time.Time
}

// OpenCertificate reads a certificate, with those that it is signed by, and its key, both in
// PEM. The error is of kind Invalid.
func OpenCertificate(cert, key string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, log: log, now: time.Now}
	c.looked, c.seen = c.now(), c.stamps()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: "the certificate cannot be used", Err: err, Hint: "want a certificate and its key in PEM, as a CA or \"openssl req -x509 -nodes\" writes them"}
	}
	c.pair = &pair
	return c, nil
}

// config returns the settings of a server that shows the certificate.
func (c *Certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.current}
}

// current returns the certificate for a handshake.
func (c *Certificate) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now.Sub(c.looked) >= certificateEvery {
		c.looked = now
		if found := c.stamps(); found != c.seen {
			c.seen = found
			c.read()
		}
	}
	return c.pair, nil
}

// read reads the files again.
func (c *Certificate) read() {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		c.log.Warn("the new certificate cannot be used; the old one stays in use", "certificate", c.cert, "key", c.key, "error", err)
		return
	}
	c.log.Info("a new certificate is in use", "certificate", c.cert, "until", pair.Leaf.NotAfter)
	c.pair = &pair
}

func (c *Certificate) stamps() (s [2]stamp) {
	for i, name := range []string{c.cert, c.key} {
		if f, err := os.Stat(name); err == nil { // otherwise it is being replaced
			s[i] = stamp{f.Size(), f.ModTime()}
		}
	}
	return s
}
