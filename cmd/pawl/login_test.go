package main

import (
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/oidc/oidctest"
)

// TestSigningInWithAProvider: a person signs in at the provider, and then uses the API as
// themselves.
func TestSigningInWithAProvider(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	i.Claims = map[string]any{"email": "ada@example.com", "email_verified": true, "groups": []string{"pawl-operators"}}
	dir := shortDir(t)
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	here := "http://127.0.0.1:" + port
	env := append(os.Environ(), "PAWL_DATABASE="+filepath.Join(dir, "pawl.db"), "PAWL_RUNTIME_DIR="+filepath.Join(dir, "run"), "XDG_STATE_HOME="+dir)
	s := startServing(t, dir, env, regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`), "server", "--listen", "127.0.0.1:"+port, "--auth", "required",
		"--public-url", here, "--oidc-issuer", i.URL, "--oidc-client-id", "pawl", "--oidc-client-secret-file", secret, "--oidc-role", "pawl-operators=operator")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	ask := func(method, path, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, here+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		answer, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(b)
	}
	if status, text := ask("GET", "/api/jobs", ""); status != http.StatusUnauthorized {
		t.Errorf("before: %d %s", status, text)
	}
	if status, text := ask("GET", "/login", ""); status != http.StatusOK || !strings.Contains(text, "Signed in") {
		t.Fatalf("signing in: %d %s\n%s", status, text, s.said())
	}
	status, text := ask("POST", "/api/jobs", `{"source":"name: w\nsteps: [{id: a, sleep: 1h}]\n"}`)
	if status != http.StatusCreated || !strings.Contains(text, `"actor":"oidc:ada@example.com"`) {
		t.Errorf("a job: %d %s", status, text)
	}
	if status, text = ask("GET", "/api/tokens", ""); status != http.StatusForbidden || !strings.Contains(text, "oidc:ada@example.com has operator") {
		t.Errorf("what it may not: %d %s", status, text)
	}
	if status, text = ask("GET", "/api/session", ""); status != http.StatusOK || !strings.Contains(text, `"login":"/login"`) {
		t.Errorf("the session: %d %s", status, text)
	}
	if status, _ = ask("DELETE", "/api/session", ""); status != http.StatusNoContent {
		t.Errorf("signing out: %d", status)
	}
	if status, text = ask("GET", "/api/jobs", ""); status != http.StatusUnauthorized {
		t.Errorf("after: %d %s", status, text)
	}
	s.stop()
}

// TestClientCertificates: who shows the certificate of a token is that token, and others are
// nobody.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	cert, key := certify(t, dir)
	ci, other := filepath.Join(dir, "ci"), filepath.Join(dir, "other")
	for _, d := range []string{ci, other} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ciCert, ciKey := certify(t, ci)
	otherCert, otherKey := certify(t, other)
	both := filepath.Join(dir, "clients.crt")
	if err := os.WriteFile(both, append(read(t, ciCert), read(t, otherCert)...), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "PAWL_DATABASE="+filepath.Join(dir, "pawl.db"), "PAWL_RUNTIME_DIR="+filepath.Join(dir, "run"), "XDG_STATE_HOME="+dir)
	a := &accessed{env: env, serverProcess: &serverProcess{t: t}}
	if out, _ := a.run(codeOK, nil, "token", "create", "ci", "--role", "operator", "--certificate", ciCert); !strings.Contains(out, "for who shows the certificate with the SHA-256 ") {
		t.Errorf("%s", out)
	}
	a.run(codeInvalid, nil, "token", "create", "no", "--role", "operator", "--certificate", ciKey)
	a.serverProcess = startServing(t, dir, env, regexp.MustCompile(`https://127\.0\.0\.1:[0-9]+`), "server", "--auth", "required", "--listen", "127.0.0.1:0",
		"--tls-cert", cert, "--tls-key", key, "--tls-client-ca", both)
	server := []string{"PAWL_SERVER=" + a.url}
	yaml := filepath.Join(dir, "w.yaml")
	if err := os.WriteFile(yaml, []byte("name: w\nsteps: [{id: a, sleep: 1h}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	mine := []string{"--ca", cert, "--client-cert", ciCert, "--client-key", ciKey}
	a.run(codeOK, server, append([]string{"submit", yaml}, mine...)...)
	if out, _ := a.run(codeOK, server, append([]string{"job", "history", "last"}, mine...)...); !strings.Contains(out, "token:ci") {
		t.Errorf("%s", out)
	}
	a.run(codeNotAllowed, server, "jobs", "--ca", cert, "--client-cert", otherCert, "--client-key", otherKey)
	a.run(codeNotAllowed, server, "jobs", "--ca", cert)
	a.run(codeInvalid, server, "jobs", "--ca", cert, "--client-cert", ciCert, "--client-key", otherKey)
	a.run(codeInvalid, nil, "server", "--tls-client-ca", both)
	a.stop()
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// freePort returns a port that nothing listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
