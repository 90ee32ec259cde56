package daemon

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/metrics"
)

// writePair writes a certificate with a serial number, and its key, and returns the former.
func writePair(t *testing.T, cert, key string, serial int64) []byte {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	write(t, cert, text)
	write(t, key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
	return text
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if path == "" {
		return
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestCertificatesAreReadAgain when their files change, at most each second; a pair that does
// not fit leaves the old one in use.
func TestCertificatesAreReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "a.crt"), filepath.Join(dir, "a.key")
	if _, err := OpenCertificate(cert, key, "", slog.Default()); pawl.KindOf(err) != pawl.Invalid {
		t.Errorf("without files: %v", err)
	}
	writePair(t, cert, key, 1)
	log := &bytes.Buffer{}
	c, err := OpenCertificate(cert, key, "", slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	c.now = func() time.Time { return now }
	shows := func(want int64, what string) {
		t.Helper()
		pair, err := c.current(nil)
		if err != nil || pair.Certificates[0].Leaf.SerialNumber.Int64() != want {
			t.Errorf("%s: certificate %v, %v, want %d", what, pair.Certificates[0].Leaf.SerialNumber, err, want)
		}
	}
	shows(1, "at first")
	writePair(t, cert, key, 2)
	touch := func(at time.Time) { // coarse clocks of file systems
		for _, f := range []string{cert, key} {
			if err := os.Chtimes(f, at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	touch(now.Add(time.Hour))
	shows(1, "within the second")
	now = now.Add(certificateEvery)
	shows(2, "after it")

	writePair(t, cert, "", 3) // its key is not written yet
	touch(now.Add(2 * time.Hour))
	now = now.Add(certificateEvery)
	shows(2, "half of a pair")
	if n := strings.Count(log.String(), "the old one stays in use"); n != 1 {
		t.Errorf("it is logged %d times:\n%s", n, log)
	}
	now = now.Add(certificateEvery)
	shows(2, "the same half")
	if n := strings.Count(log.String(), "the old one stays in use"); n != 1 {
		t.Errorf("it is logged %d times:\n%s", n, log)
	}
	writePair(t, cert, key, 4)
	touch(now.Add(3 * time.Hour))
	now = now.Add(certificateEvery)
	shows(4, "the whole pair")
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	now = now.Add(certificateEvery)
	shows(4, "without a file")
}

// TestAPortWithTLS serves HTTP/2 by TLS 1.2 or later, at any address.
func TestAPortWithTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "a.crt"), filepath.Join(dir, "a.key")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(writePair(t, cert, key, 1))
	log := slog.New(slog.DiscardHandler)
	c, err := OpenCertificate(cert, key, "", log)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := OpenPort("0.0.0.0:0", nil, log); pawl.KindOf(err) != pawl.Invalid {
		t.Errorf("without a certificate, everywhere: %v, %v", p, err)
	}
	p, err := OpenPort("0.0.0.0:0", c, log)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Beyond || !strings.HasPrefix(p.URL(), "https://") {
		t.Errorf("beyond %v, %s", p.Beyond, p.URL())
	}
	p.Answer(metrics.New("test"), func(context.Context) []string { return nil }, nil)
	end, err := p.Served(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	_, port, err := net.SplitHostPort(p.Address)
	if err != nil {
		t.Fatal(err)
	}
	settings := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: settings, ForceAttemptHTTP2: true, DisableKeepAlives: true}}
	r, err := client.Get("https://127.0.0.1:" + port + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if text, err := io.ReadAll(r.Body); r.ProtoMajor != 2 || string(text) != "ok\n" || err != nil {
		t.Errorf("%s %q %v, want ok by HTTP/2", r.Proto, text, err)
	}
	old := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	if conn, err := tls.Dial("tcp", "127.0.0.1:"+port, old); err == nil {
		_ = conn.Close()
		t.Error("TLS 1.1 is spoken")
	}
}
