package remote_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/remote"
)

// TestActorWithACertificate: the actor is sent unless the server has asked for the certificate,
// so that it is kept by one that takes none.
func TestActorWithACertificate(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	for what, tt := range map[string]struct {
		asks tls.ClientAuthType
		want []string
	}{"a server that asks": {tls.RequestClientCert, nil}, "one that does not": {tls.NoClientCert, []string{"ada"}}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var actors []string
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/api/version" {
					fmt.Fprint(w, `{"version":"1","api":1}`)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				actors = append(actors, r.Header["Pawl-Actor"]...)
				if shown := len(r.TLS.PeerCertificates) > 0; shown != (tt.want == nil) {
					t.Errorf("a certificate is shown: %v", shown)
				}
				w.WriteHeader(http.StatusConflict)
			}))
			server.TLS = &tls.Config{ClientAuth: tt.asks}
			server.StartTLS()
			defer server.Close()
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			e, err := remote.Open(t.Context(), server.URL, remote.Config{CA: ca, Cert: cert, Key: key})
			must(t, err)
			defer e.Close()
			if _, err := e.PauseJob(t.Context(), pawl.ID{}, pawl.Change{Actor: "ada"}); err == nil {
				t.Error("a conflict is no error")
			}
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(actors, tt.want) {
				t.Errorf("actors %q, want %q", actors, tt.want)
			}
		})
	}
}

// certificate returns a certificate signed by itself, and its key, in PEM.
func certificate(t *testing.T) (cert, key []byte) {
	t.Helper()
	pair, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &pair.PublicKey, pair)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(pair)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}
