package controller

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/spec"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"host": "host:7296", "host:1": "host:1", "10.0.0.1": "10.0.0.1:7296", "::1": "[::1]:7296", "[::1]": "[::1]:7296", "[::1]:80": "[::1]:80",
		"unix:/tmp/s": "unix:/tmp/s", "": "", "unix:": "", ":80": "", "host:": "", "http://host": "", "a:b:c": "",
	} {
		got, err := Address(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
}

// TestCredentialsAreWanted: no run goes to another machine without TLS and without saying who
// starts it (L10).
func TestCredentialsAreWanted(t *testing.T) {
	t.Parallel()
	_, cert, key := certificates(t)
	for _, tt := range []struct {
		name, address string
		with          Credentials
		want          string // in the error; "": none
	}{
		{"a socket", "unix:/tmp/s", Credentials{}, ""},
		{"loopback", "127.0.0.1:1", Credentials{}, ""},
		{"loopback by name", "localhost:1", Credentials{}, ""},
		{"another machine", "10.0.0.1:1", Credentials{}, "have a certificate or a token"},
		{"another machine by name", "host:1", Credentials{CA: cert}, "have a certificate or a token"},
		{"a token", "host:1", Credentials{Token: "x"}, ""},
		{"a certificate", "host:1", Credentials{Cert: cert, Key: key}, ""},
		{"a CA that is none", "127.0.0.1:1", Credentials{CA: []byte("x")}, "at least one in PEM"},
		{"a key that is none", "127.0.0.1:1", Credentials{Cert: cert, Key: []byte("x")}, "the certificate and its key"},
	} {
		_, err := tt.with.Options(tt.address)
		if (err == nil) != (tt.want == "") || err != nil && (!strings.Contains(err.Error(), tt.want) || pawl.KindOf(err) != pawl.Invalid) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestTLS: a run with a certificate and a token reaches an agent that wants both, and one without
// them fails at once and names the agent (L10, L7).
func TestTLS(t *testing.T) {
	t.Parallel()
	ca, cert, key := certificates(t)
	address := serveTLS(t, ca, cert, key)
	for _, tt := range []struct {
		name string
		with Credentials
		want string // of the reason; "": it completes
	}{
		{"both", Credentials{CA: ca, Cert: cert, Key: key, Token: "secret"}, ""},
		{"another token", Credentials{CA: ca, Cert: cert, Key: key, Token: "other"}, "agent " + address + ": wrong token"},
		{"no certificate", Credentials{CA: ca, Token: "secret"}, "agent " + address + ": "},
		{"plaintext", Credentials{}, "agent " + address + ": "},
	} {
		options, err := tt.with.Options(address)
		if err != nil {
			t.Fatal(err)
		}
		test := fakeTest()
		test.Start = spec.Start{Delay: time.Millisecond, Policy: spec.All}
		got, err := Run(t.Context(), Config{ID: runID, File: []byte("name: t"), Test: test, Agents: []Target{{Address: address, Options: options}}, Records: t.TempDir()})
		if (err == nil) != (tt.want == "") || !strings.HasPrefix(got.Reason, tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// serveTLS serves an agent, whose load takes no time, that wants a certificate and a token.
func serveTLS(t *testing.T, ca, cert, key []byte) string {
	t.Helper()
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, MinVersion: tls.VersionTLS13}
	check := func(ctx context.Context) error {
		if m, _ := metadata.FromIncomingContext(ctx); len(m.Get("authorization")) != 1 || m.Get("authorization")[0] != "Bearer secret" {
			return status.Error(codes.Unauthenticated, "wrong token")
		}
		return nil
	}
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)), grpc.StreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
		if err := check(ss.Context()); err != nil {
			return err
		}
		return h(srv, ss)
	}))
	loadpb.RegisterAgentServiceServer(s, &fake{base: time.Now(), short: true})
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return l.Addr().String()
}

// certificates returns a CA, and a certificate of it for this machine with its key, in PEM.
func certificates(t *testing.T) (ca, cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "t"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return cert, cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}
