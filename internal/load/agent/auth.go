package agent

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/pawl-dev/pawl"
)

// CheckListener returns an error of kind Invalid if other machines reach an address without TLS,
// or without a certificate or token (L10).
func CheckListener(addr net.Addr, config *tls.Config, token string) error {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() {
		return nil
	}
	switch {
	case config == nil:
		return &pawl.Error{Kind: pawl.Invalid, Message: "other machines reach " + addr.String() + ", and the agent has no TLS",
			Hint: "add --tls-cert FILE --tls-key FILE, and --tls-client-ca FILE or --token-file FILE"}
	case token == "" && config.ClientCAs == nil && config.GetConfigForClient == nil:
		return &pawl.Error{Kind: pawl.Invalid, Message: "other machines reach " + addr.String() + ", and the agent does not know who may use it",
			Hint: "add --tls-client-ca FILE, or --token-file FILE"}
	}
	return nil
}

// actor returns who has made a call, or an error if he may not: a certificate that TLS has
// verified counts, and so does the token. Without TLS and token, everybody may.
func (a *Agent) actor(ctx context.Context) (string, error) {
	p, _ := peer.FromContext(ctx)
	var secured *credentials.TLSInfo
	if p != nil {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			secured = &info
		}
	}
	switch {
	case secured != nil && len(secured.State.VerifiedChains) > 0:
		return "cert:" + secured.State.VerifiedChains[0][0].Subject.CommonName, nil
	case a.config.Token != "" && a.showsToken(ctx):
		return "token", nil
	case a.config.Token == "" && secured == nil:
		return "local", nil
	}
	return "", status.Error(codes.Unauthenticated, "want a certificate that this agent's CA has signed, or its token as authorization: Bearer TOKEN")
}

// showsToken reports whether a call has the token. It takes as long for a wrong one.
func (a *Agent) showsToken(ctx context.Context) bool {
	md, _ := metadata.FromIncomingContext(ctx)
	want := sha256.Sum256([]byte(a.config.Token))
	for _, v := range md.Get("authorization") {
		if token, ok := strings.CutPrefix(v, "Bearer "); ok {
			got := sha256.Sum256([]byte(token))
			return subtle.ConstantTimeCompare(got[:], want[:]) == 1
		}
	}
	return false
}

// isHealth reports whether a method is for everybody: whether the agent lives is no secret.
func isHealth(method string) bool {
	return strings.HasPrefix(method, "/"+grpc_health_v1.Health_ServiceDesc.ServiceName+"/")
}

func (a *Agent) allowUnary(ctx context.Context, r any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if _, err := a.actor(ctx); err != nil && !isHealth(info.FullMethod) {
		return nil, err
	}
	return handler(ctx, r)
}

func (a *Agent) allowStream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if _, err := a.actor(s.Context()); err != nil && !isHealth(info.FullMethod) {
		return err
	}
	return handler(srv, s)
}
