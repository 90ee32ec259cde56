package s3

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"strings"
	"time"
)

// A Config is what a store is reached by. All fields are required but for those that say so.
type Config struct {
	Location
	Region      string
	Credentials Credentials
	CA          []byte        // certificates in PEM that the store's is signed by; nil: those of the system
	Timeout     time.Duration // within which something has to be sent or received
	PartSize    int64         // larger objects are uploaded in parts of this size
	PartsAtOnce int           // so many parts of one upload are sent at the same time; 0: one
	Retries     int           // how often a request that has failed is tried again; complete, Abort and Uploads never are
	SignPayload bool          // contents are part of the signature
}

// A Store is a bucket as all its clients see it. It may be used by several goroutines.
type Store struct {
	Config
	host    string // of the header
	address string // to dial
	path    string // before a key: / or /BUCKET/
	tls     *tls.Config
}

// NewStore returns a store. It does not reach for it.
func NewStore(c Config) (*Store, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, err
	}
	s := &Store{Config: c, host: u.Host, path: "/"}
	if c.HostStyle {
		s.host = c.Bucket + "." + u.Host
	} else {
		s.path = "/" + c.Bucket + "/"
	}
	port := u.Port()
	if port == "" {
		port = defaultPort(u.Scheme)
	}
	name := strings.TrimSuffix(s.host, ":"+u.Port())
	s.address = net.JoinHostPort(strings.Trim(name, "[]"), port)
	if u.Scheme != "https" {
		return s, nil
	}
	s.tls = &tls.Config{ServerName: strings.Trim(name, "[]"), MinVersion: tls.VersionTLS12}
	if c.CA != nil {
		s.tls.RootCAs = x509.NewCertPool()
		if !s.tls.RootCAs.AppendCertsFromPEM(c.CA) {
			return nil, errors.New("the certificates for the object store are not in PEM")
		}
	}
	return s, nil
}

// Within returns the same store with a timeout that is no longer than limit, and without retries, which would exceed it.
func (s *Store) Within(limit time.Duration) *Store {
	within := *s
	within.Timeout, within.Retries = min(s.Timeout, limit), 0
	return &within
}

// Client returns a client, which is not connected yet.
func (s *Store) Client() *Client {
	return &Client{store: s, signer: newSigner(s.Credentials, s.Region), buffer: make([]byte, ownBuffer)}
}
