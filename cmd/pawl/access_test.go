package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// An accessed is a server that requires tokens, and what programs have said.
type accessed struct {
	*serverProcess
	env  []string
	said []byte // by every command, but for the secrets that some print
}

// run runs the program, and requires an exit code.
func (a *accessed) run(code int, env []string, args ...string) (stdout, stderr string) {
	a.t.Helper()
	c := exec.Command(binary(a.t), args...)
	var out, errs bytes.Buffer
	c.Env, c.Stdout, c.Stderr = append(a.env[:len(a.env):len(a.env)], env...), &out, &errs
	_ = c.Run() // its exit code is looked at
	if got := c.ProcessState.ExitCode(); got != code {
		a.t.Errorf("pawl %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, out.String(), errs.String())
	}
	a.said = append(append(a.said, errs.Bytes()...), '\n')
	if len(args) < 2 || !slices.Contains([]string{"token create", "webhook create", "webhook rotate"}, args[0]+" "+args[1]) {
		a.said = append(a.said, out.Bytes()...)
	}
	return out.String(), errs.String()
}

// TestSecretsStaySecret: what a server is shown as a token, right or wrong, the secrets of webhooks and
// the key that encrypts these are in no log, no response, no metric, no export and no byte of the database.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte("k"), 32)
	keys := filepath.Join(t.TempDir(), "secret.keys")
	if err := os.WriteFile(keys, []byte(base64.StdEncoding.EncodeToString(key)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, "server", "--auth", "required", "--log-level", "debug", "--secret-key-file", keys)
	a := &accessed{serverProcess: s, env: s.Env}
	s.until("it is ready", func() bool { status, _ := s.get("/readyz"); return status == http.StatusOK })
	if !strings.Contains(s.said(), "no token can use this server yet; make the first with: pawl token create NAME --role admin") {
		t.Errorf("the server does not say how to make the first token:\n%s", s.said())
	}

	secret, _ := a.run(codeOK, nil, "token", "create", "ada", "--role", "admin", "--reason", "the first")
	secret = strings.TrimSpace(secret)
	server := []string{"PAWL_SERVER=" + s.url, "PAWL_TOKEN=" + secret}
	second, _ := a.run(codeOK, server, "token", "create", "grafana", "--role", "viewer")
	second = strings.TrimSpace(second)
	file := filepath.Join(s.dir, "viewer.token")
	if err := os.WriteFile(file, []byte(second+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wrong := secret[:len(secret)-12] + "Zzz" + secret[len(secret)-9:] // its checksum is wrong
	forged := strings.Replace(second, second[38:81], secret[38:81], 1)

	yaml := filepath.Join(s.dir, "w.yaml")
	if err := os.WriteFile(yaml, []byte("name: w\nsteps: [{id: a, sleep: 1h}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.run(codeOK, server, "submit", yaml)
	if out, _ := a.run(codeOK, server, "job", "history", "last"); !strings.Contains(out, "token:ada") {
		t.Errorf("the history does not name the principal:\n%s", out)
	}
	a.run(codeOK, []string{"PAWL_SERVER=" + s.url}, "jobs", "--token-file", file)
	if _, errs := a.run(codeNotAllowed, []string{"PAWL_SERVER=" + s.url}, "submit", yaml, "--token-file", file); !strings.Contains(errs, "submit-job needs the role operator, and token:grafana has viewer") {
		t.Errorf("%s", errs)
	}
	for _, bad := range []string{wrong, forged, "hunter2hunter2", ""} {
		if _, errs := a.run(codeNotAllowed, []string{"PAWL_SERVER=" + s.url, "PAWL_TOKEN=" + bad}, "jobs"); !strings.Contains(errs, "hint: name a token with PAWL_TOKEN, or --token-file FILE") {
			t.Errorf("%s", errs)
		}
	}
	for _, header := range []string{"Bearer " + secret, "Bearer " + wrong, "Basic " + secret, "Bearer " + secret + "x"} {
		for _, path := range []string{"/api/whoami", "/api/tokens", "/metrics", "/api/jobs?" + "cursor=x", "/api/none"} {
			a.said = append(a.said, ask(t, s.url+path, header)...)
		}
	}
	if ask(t, s.url+"/metrics", "Bearer "+second) == nil {
		t.Error("a viewer gets no metrics")
	}
	a.run(codeOK, server, "token", "revoke", "grafana", "--reason", "over")
	hook, _ := a.run(codeOK, server, "webhook", "create", "hook", "http://127.0.0.1:1/")
	rotated, _ := a.run(codeOK, server, "webhook", "rotate", "hook")
	a.run(codeConflict, server, "webhook", "test", "hook")
	a.run(codeConflict, nil, "webhook", "test", "hook") // it has no key
	a.run(codeOK, server, "webhook", "show", "hook", "-o", "json")
	a.run(codeOK, server, "webhook", "history", "hook")
	if out, _ := a.run(codeOK, server, "doctor"); !strings.Contains(out, "it encrypts 2 of 2 secrets of webhooks") {
		t.Errorf("the doctor says\n%s", out)
	}
	a.said = append(a.said, ask(t, s.url+"/metrics", "Bearer "+secret)...)
	plain := func(whole string) string {
		return strings.TrimRight(strings.TrimPrefix(strings.TrimSpace(whole), "whsec_"), "=")
	}
	raw := func(whole string) string {
		b, err := base64.RawStdEncoding.DecodeString(plain(whole))
		if err != nil || len(b) != 32 {
			t.Errorf("a secret of a webhook has %d bytes, %v", len(b), err)
		}
		return string(b)
	}
	a.run(codeOK, nil, "audit", "verify")
	export, _ := a.run(codeOK, nil, "audit", "export")
	if !strings.Contains(export, `"tk_`) {
		t.Error("tokens are not in the export")
	}
	s.stop()

	everything := map[string][]byte{"what the commands and the server have said": a.said}
	err := filepath.WalkDir(s.dir, func(path string, d os.DirEntry, err error) error { // the log and the database among others
		if err != nil || !d.Type().IsRegular() || path == file {
			return err
		}
		everything[path], err = os.ReadFile(path)
		return err
	})
	if err != nil || len(everything[filepath.Join(s.dir, "pawl.db")]) == 0 || len(everything[filepath.Join(s.dir, "err")]) == 0 {
		t.Fatal(err)
	}
	for what, text := range everything {
		for name, hidden := range map[string]string{"the secret": secret[38:81], "the viewer's": second[38:81], "a wrong one": "hunter2hunter2",
			"that of the webhook": plain(hook), "its bytes": raw(hook), "the new one": plain(rotated), "the bytes of that": raw(rotated),
			"the key": string(key), "the text of the key": base64.RawStdEncoding.EncodeToString(key[:30])} {
			if bytes.Contains(text, []byte(hidden)) {
				t.Errorf("%s has %s", what, name)
			}
		}
	}
}

// ask returns the answer to a request, with its headers.
func ask(t *testing.T, url, authorization string) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", authorization)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var head bytes.Buffer
	if err := resp.Header.Write(&head); err != nil {
		t.Fatal(err)
	}
	return append(head.Bytes(), b...)
}

// certify writes a certificate for 127.0.0.1 and its key.
func certify(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "pawl.crt"), filepath.Join(dir, "pawl.key")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// TestServingOtherMachines: a server at every address has TLS, and asks everybody for a token.
func TestServingOtherMachines(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	cert, key := certify(t, dir)
	env := append(os.Environ(), "PAWL_DATABASE="+filepath.Join(dir, "pawl.db"), "PAWL_RUNTIME_DIR="+filepath.Join(dir, "run"), "XDG_STATE_HOME="+dir)
	a := &accessed{env: env, serverProcess: &serverProcess{t: t}}
	secret, _ := a.run(codeOK, nil, "token", "create", "ada", "--role", "admin")
	a.serverProcess = startServing(t, dir, env, regexp.MustCompile(`https://\[::\]:[0-9]+`), "server", "--listen", ":0", "--tls-cert", cert, "--tls-key", key)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(a.url, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(a.serverProcess.said(), "no token can use") {
		t.Errorf("there is a token:\n%s", a.serverProcess.said())
	}
	url := "https://127.0.0.1:" + port
	mine := []string{"PAWL_SERVER=" + url, "PAWL_TOKEN=" + strings.TrimSpace(secret)}
	a.run(codeOK, mine, "jobs", "--ca", cert)
	a.run(codeNotAllowed, mine[:1], "jobs", "--ca", cert)
	if _, errs := a.run(codeNotAllowed, mine, "jobs"); !strings.Contains(errs, "the certificate of the server at "+url+" is not trusted") || !strings.Contains(errs, "hint: name the certificates that it is signed by with --ca FILE") {
		t.Errorf("%s", errs)
	}
	a.run(codeInvalid, mine, "jobs", "--ca", key)
	a.stop()
}
