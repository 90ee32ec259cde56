package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// An authority signs certificates.
type authority struct {
	*testing.T
	dir  string
	name string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority makes one, whose own certificate is NAME.crt in the folder.
func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	a := &authority{T: t, dir: dir, name: name}
	a.cert = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.key = a.sign(name, a.cert)
	return a
}

// issue writes NAME.crt and NAME.key, for the loopback address, valid until a time.
func (a *authority) issue(name string, until time.Time) {
	a.Helper()
	a.sign(name, &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
}

func (a *authority) sign(name string, template *x509.Certificate) *ecdsa.PrivateKey {
	a.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.Fatal(err)
	}
	signer := a.key
	if signer == nil {
		signer = key // its own
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), signer)
	if err != nil {
		a.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.Fatal(err)
	}
	for suffix, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(a.dir, name+suffix), pem.EncodeToMemory(block), 0o600); err != nil {
			a.Fatal(err)
		}
	}
	return key
}

const briefLoad = `name: brief
files: [{name: data, count: 1, size: 4KiB}]
mix: [{operation: read}]
count: 10
start: {delay: 50ms}
timeouts: {config: 3s}
`

// A loadBench is a folder in which an agent is served and loads are run.
type loadBench struct {
	*testing.T
	dir   string
	env   []string
	agent *serverProcess
}

func newLoadBench(t *testing.T) *loadBench {
	t.Helper()
	dir := shortDir(t)
	b := &loadBench{T: t, dir: dir, env: append(os.Environ(), "XDG_STATE_HOME="+dir, "PAWL_RUNTIME_DIR="+filepath.Join(dir, "run"))}
	b.write("brief.yaml", briefLoad)
	return b
}

func (b *loadBench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *loadBench) write(name, text string) {
	b.Helper()
	if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
}

var servedAddress = regexp.MustCompile(`serves (\S+)`)

// serve starts an agent with flags, in place of one that was started.
func (b *loadBench) serve(args ...string) (address string) {
	b.Helper()
	b.agent = startServing(b.T, b.dir, b.env, servedAddress, append([]string{"agent", "--id", "a1"}, args...)...)
	return strings.TrimPrefix(b.agent.url, "serves ")
}

// pawl runs a command and returns its exit code and what it has printed.
func (b *loadBench) pawl(args ...string) (code int, printed string) {
	b.Helper()
	c := exec.Command(binary(b.T), args...)
	c.Env, c.Dir = b.env, b.dir
	out, err := c.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		b.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

// TestLoadAgentCredentials: an agent that speaks TLS takes a run from whoever shows a certificate that
// its authority has signed, or its token, and from nobody else; a controller talks to an agent only
// whose certificate is valid. Whatever is wrong is named, and no run begins (L10).
func TestLoadAgentCredentials(t *testing.T) {
	t.Parallel()
	b := newLoadBench(t)
	soon, past := time.Now().Add(time.Hour), time.Now().Add(-time.Minute)
	ours, theirs := newAuthority(t, b.dir, "ours"), newAuthority(t, b.dir, "theirs")
	for name, until := range map[string]time.Time{"server": soon, "old-server": past, "client": soon, "old-client": past} {
		ours.issue(name, until)
	}
	theirs.issue("stranger", soon)
	b.write("token", "a-secret-of-32-characters-or-more\n")
	b.write("wrong", "another-secret-of-32-characters-..\n")
	if err := os.Mkdir(b.path("root"), 0o700); err != nil {
		t.Fatal(err)
	}
	agent := func(cert string) string {
		return b.serve("--listen", "127.0.0.1:0", "--root", b.path("root"), "--state-dir", b.path(cert), "--tls-cert", b.path(cert+".crt"), "--tls-key", b.path(cert+".key"),
			"--tls-client-ca", b.path("ours.crt"), "--token-file", b.path("token"))
	}
	run := func(name, address string, want int, says string, flags ...string) {
		t.Helper()
		for i, f := range flags {
			if i%2 == 1 {
				flags[i] = b.path(f)
			}
		}
		code, printed := b.pawl(append([]string{"load", "run", "brief.yaml", "--agents", address}, flags...)...)
		if code != want || !regexp.MustCompile(says).MatchString(printed) {
			t.Errorf("%s: exit code %d, want %d, and %q:\n%s", name, code, want, says, printed)
		}
	}
	good := agent("server")
	run("a certificate", good, codeOK, `brief .* completed`, "--ca", "ours.crt", "--client-cert", "client.crt", "--client-key", "client.key")
	run("a token", good, codeOK, `brief .* completed`, "--ca", "ours.crt", "--token-file", "token")
	run("a wrong token", good, codeUnavailable, `error: agent .*token`, "--ca", "ours.crt", "--token-file", "wrong")
	run("nothing", good, codeUnavailable, `error: agent .*(token|certificate)`, "--ca", "ours.crt")
	run("an expired certificate", good, codeUnavailable, `error: agent \S+ it refuses the connection: expired certificate`, "--ca", "ours.crt", "--client-cert", "old-client.crt", "--client-key", "old-client.key")
	run("a certificate of others", good, codeUnavailable, `error: agent \S+ want a certificate that this agent's CA has signed`, "--ca", "ours.crt", "--client-cert", "stranger.crt", "--client-key", "stranger.key")
	run("another CA", good, codeUnavailable, `error: agent .*certificate signed by unknown authority`, "--ca", "theirs.crt", "--token-file", "token")
	run("a key of another certificate", good, codeInvalid, `error: .*key`, "--ca", "ours.crt", "--client-cert", "client.crt", "--client-key", "stranger.key")
	run("plain", good, codeUnavailable, `error: agent .*`)
	run("an expired agent", agent("old-server"), codeUnavailable, `error: agent .*certificate has expired`, "--ca", "ours.crt", "--token-file", "token")
	trails, err := filepath.Glob(b.path("*/trail/*.jsonl"))
	if err != nil || len(trails) != 2 {
		t.Errorf("%d runs have begun, want 2; %v", len(trails), err)
	}
}
