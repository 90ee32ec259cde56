package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

// Off loopback an agent has TLS, and knows who may use it (L10).
func TestListeners(t *testing.T) {
	t.Parallel()
	beyond, own := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 7296}, &net.TCPAddr{IP: net.IPv6loopback, Port: 7296}
	secure, mutual := &tls.Config{}, &tls.Config{ClientCAs: x509.NewCertPool()}
	for _, test := range []struct {
		name   string
		addr   net.Addr
		config *tls.Config
		token  string
		ok     bool
	}{
		{"loopback", own, nil, "", true},
		{"a socket", &net.UnixAddr{Name: "/x"}, nil, "", true},
		{"beyond", beyond, nil, "", false},
		{"beyond, a token without TLS", beyond, nil, "t", false},
		{"beyond, TLS alone", beyond, secure, "", false},
		{"beyond, TLS and a token", beyond, secure, "t", true},
		{"beyond, TLS and certificates", beyond, mutual, "", true},
		{"every address", &net.TCPAddr{IP: net.IPv4zero}, nil, "", false},
	} {
		if err := CheckListener(test.addr, test.config, test.token); (err == nil) != test.ok {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// authority makes certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	t    *testing.T
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	pair := a.issue("ca")
	a.cert, a.key = pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

// issue issues a certificate; the first one signs itself.
func (a *authority) issue(name string) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: a.cert == nil, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// Whoever calls shows a certificate of the CA, or the token; TLS is 1.3 (L10). The health service
// is for everybody.
func TestWhoMayCall(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	c := processConfig(t.TempDir(), t.TempDir())
	c.Token = "secret"
	a, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- a.Serve(ctx, l, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{ca.issue("agent")}, ClientCAs: ca.pool(), ClientAuth: tls.VerifyClientCertIfGiven})
	}()
	t.Cleanup(func() { cancel(); <-done; a.Close() })
	for _, test := range []struct {
		name  string
		certs []tls.Certificate
		token string
		most  uint16
		code  codes.Code
	}{
		{"a certificate", []tls.Certificate{ca.issue("controller")}, "", 0, codes.OK},
		{"the token", nil, "Bearer secret", 0, codes.OK},
		{"nothing", nil, "", 0, codes.Unauthenticated},
		{"another token", nil, "Bearer secreT", 0, codes.Unauthenticated},
		{"the token without Bearer", nil, "secret", 0, codes.Unauthenticated},
		{"a certificate of another CA", []tls.Certificate{other.issue("controller")}, "", 0, codes.Unavailable},
		{"TLS 1.2", []tls.Certificate{ca.issue("controller")}, "", tls.VersionTLS12, codes.Unavailable},
	} {
		config := &tls.Config{RootCAs: ca.pool(), MaxVersion: test.most}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(test.certs) == 0 {
				return &tls.Certificate{}, nil
			}
			return &test.certs[0], nil
		}
		conn, err := grpc.NewClient("passthrough:///"+l.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(config)))
		if err != nil {
			t.Fatal(err)
		}
		call := context.Background()
		if test.token != "" {
			call = metadata.AppendToOutgoingContext(call, "authorization", test.token)
		}
		client := loadpb.NewAgentServiceClient(conn)
		if _, err := client.GetAgent(call, &loadpb.GetAgentRequest{}); status.Code(err) != test.code {
			t.Errorf("%s: %v", test.name, err)
		}
		stream, err := client.ExecuteWorkload(call)
		if err == nil {
			_ = stream.Send(&loadpb.ControlMessage{}) // Recv returns why
			_, err = stream.Recv()
		}
		if status.Code(err) != test.code {
			t.Errorf("%s: a stream: %v", test.name, err)
		}
		if _, err := grpc_health_v1.NewHealthClient(conn).Check(call, &grpc_health_v1.HealthCheckRequest{Service: loadpb.AgentService_ServiceDesc.ServiceName}); test.code != codes.Unavailable && err != nil {
			t.Errorf("%s: health: %v", test.name, err)
		}
		conn.Close()
	}
}

// Programs find out what an agent serves (L1).
func TestReflection(t *testing.T) {
	t.Parallel()
	c := dial(t, serve(t, nil).address)
	s, err := grpc_reflection_v1.NewServerReflectionClient(c.conn).ServerReflectionInfo(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	err = s.Send(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, one := range r.GetListServicesResponse().GetService() {
		found = found || one.GetName() == "pawl.load.v1.AgentService"
	}
	if !found {
		t.Errorf("got %v", r)
	}
	if err := s.CloseSend(); err != nil {
		t.Error(err)
	}
}
