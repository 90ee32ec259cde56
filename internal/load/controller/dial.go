package controller

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawl-dev/pawl"
)

// DefaultPort is the port of agents whose address has none.
const DefaultPort = "7296"

// Credentials are what a controller shows to agents, and how it knows them. Agents on other
// machines need either a certificate or a token, and TLS 1.3.
type Credentials struct {
	CA        []byte // certificates in PEM that those of agents are signed by; empty: those of the system
	Cert, Key []byte // a certificate in PEM, and its key; empty: none
	Token     string // empty: none
	Hint      string // how to name a certificate or a token, for messages
}

// Address completes the address of an agent, which is HOST, HOST:PORT or unix:PATH.
func Address(a string) (string, error) {
	if path, ok := strings.CutPrefix(a, "unix:"); ok && path != "" {
		return a, nil
	}
	host, port, err := net.SplitHostPort(a)
	if err != nil {
		host, port = strings.Trim(a, "[]"), DefaultPort
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			host = ""
		}
	}
	if host == "" || port == "" || strings.Contains(host+port, "/") {
		return "", pawl.Errorf(pawl.Invalid, "agent %q: want HOST, HOST:PORT or unix:PATH", a)
	}
	return net.JoinHostPort(host, port), nil
}

// Targets returns the agents with some addresses, as Address takes them.
func Targets(addresses []string, c Credentials) (all []Target, err error) {
	for _, name := range addresses {
		address, err := Address(name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(t Target) bool { return t.Address == address }) {
			return nil, pawl.Errorf(pawl.Invalid, "agent %s is named twice", address)
		}
		options, err := c.Options(address)
		if err != nil {
			return nil, err
		}
		all = append(all, Target{Address: address, Options: options})
	}
	return all, nil
}

// Options returns how to connect to the agent with an address that Address has returned.
func (c Credentials) Options(address string) ([]grpc.DialOption, error) {
	var options []grpc.DialOption
	transport := insecure.NewCredentials()
	secure := len(c.CA) > 0 || len(c.Cert) > 0 || !onLoopback(address)
	if secure {
		if len(c.Cert) == 0 && c.Token == "" && !onLoopback(address) {
			return nil, &pawl.Error{Kind: pawl.Invalid, Message: "agent " + address + " is on another machine, and accepts runs only from clients that have a certificate or a token",
				Hint: c.Hint}
		}
		config, err := c.tls()
		if err != nil {
			return nil, err
		}
		transport = attentive{credentials.NewTLS(config)}
	}
	if c.Token != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer{c.Token, secure}))
	}
	return append(options, grpc.WithTransportCredentials(transport)), nil
}

func (c Credentials) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if len(c.CA) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(c.CA) {
			return nil, pawl.Errorf(pawl.Invalid, "the certificates of the CA: want at least one in PEM")
		}
	}
	if len(c.Cert) > 0 {
		pair, err := tls.X509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, &pawl.Error{Kind: pawl.Invalid, Message: "the certificate and its key: " + err.Error(), Err: err}
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// refusalTime is how long an agent may take to refuse a certificate or to say its first word: those
// that wait for the controller's do not cost more.
const refusalTime = 500 * time.Millisecond

// attentive is TLS that waits for the first word of the agent. With TLS 1.3 a refused certificate is
// reported only after the handshake, and who writes before would see a broken pipe instead of why.
type attentive struct {
	credentials.TransportCredentials
}

func (a attentive) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := a.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, err
	}
	first := make([]byte, 1)
	err = c.SetReadDeadline(time.Now().Add(refusalTime))
	n := 0
	if err == nil {
		n, err = c.Read(first)
	}
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		err = c.SetReadDeadline(time.Time{})
	}
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	return &begun{c, first[:n]}, info, nil
}

func (a attentive) Clone() credentials.TransportCredentials {
	return attentive{a.TransportCredentials.Clone()}
}

// begun is a connection of which something was read already.
type begun struct {
	net.Conn
	first []byte
}

func (b *begun) Read(p []byte) (int, error) {
	if len(b.first) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.first)
	b.first = b.first[n:]
	return n, nil
}

// A bearer shows a token with each call.
type bearer struct {
	token  string
	secure bool
}

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + b.token}, nil
}

func (b bearer) RequireTransportSecurity() bool { return b.secure }

// onLoopback reports whether nobody else can read what is sent to an address.
func onLoopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return strings.HasPrefix(address, "unix:") || host == "localhost" || ip != nil && ip.IsLoopback()
}

// endpoint returns an address as gRPC takes it. The system resolves names, as for any other
// connection.
func endpoint(address string) string {
	if strings.HasPrefix(address, "unix:") {
		return address
	}
	return "passthrough:///" + address
}
