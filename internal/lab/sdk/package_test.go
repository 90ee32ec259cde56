package sdk

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
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
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestUnits: the tests of the SDKs themselves, by their own languages' tools.
func TestUnits(t *testing.T) {
	t.Parallel()
	for l, args := range map[*Language][]string{Python: {"-m", "unittest", "discover", "-s", "tests"}, Node: {"--test"}} {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			out := runIn(t, folder(t, l), nil, append([]string{interpreter(t, l)}, args...)...)
			if ran := regexp.MustCompile(`(?m)^Ran [1-9]|^# pass [1-9]|^ℹ pass [1-9]`); !ran.MatchString(out) {
				t.Errorf("no test has run\n%s", out)
			}
		})
	}
}

func interpreter(t *testing.T, l *Language) string {
	t.Helper()
	program, err := l.Interpreter()
	must(t, err)
	return program
}

// folder returns the folder of an SDK.
func folder(t *testing.T, l *Language) string {
	t.Helper()
	root, err := Root()
	must(t, err)
	return filepath.Join(root, "sdk", map[*Language]string{Python: "python", Node: "js"}[l])
}

// runIn runs a command in a folder and returns what it prints.
func runIn(t *testing.T, dir string, env []string, argv ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return string(out)
}

// TestExamples: the examples of the SDKs do what their first lines say.
func TestExamples(t *testing.T) {
	each(t, func(t *testing.T, s *site, l *Language) {
		file := filepath.Join(folder(t, l), "examples", "shout") + map[*Language]string{Python: ".py", Node: ".js"}[l]
		_, env, err := l.Worker()
		must(t, err)
		env = append(env, "PAWL_SERVER="+s.via)
		w := s.start([]string{interpreter(t, l), file, "worker"}, env)
		if out := runIn(t, s.dir, env, interpreter(t, l), file, "submit", "hello", "world"); out != "HELLO!! WORLD!!\n" {
			t.Errorf("it prints %q", out)
		}
		w.signal(syscall.SIGTERM)
		w.ends(0)
	})
}

// TestTokensAndTLS: a token with the role worker is enough for a worker, over TLS with a
// certificate of a CA of one's own; without a token, and without the CA, it ends with an error
// that says so.
func TestTokensAndTLS(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			ca := s.secure()
			s.server()
			token := s.newToken("hands", "worker")
			s.token, s.via = s.newToken("ada", "operator"), "https://"+s.address
			s.env = []string{"PAWL_TOKEN=" + token}
			w := s.worker(l, "--ca", ca)
			s.ended(s.one("flaky", "{}", "retry: {max_attempts: 3, base: 10ms}"), "COMPLETED")
			s.ended(s.one("talk", "{}"), "COMPLETED")
			w.signal(syscall.SIGTERM)
			w.ends(0)
			s.env = nil
			for want, args := range map[string][]string{"ApiError: ": {"--ca", ca}, "the certificate of https://" + s.address + " is not trusted": nil} {
				w := s.begin(l, args...)
				if w.ends(1); !strings.Contains(w.log.String(), want) {
					t.Errorf("want %q\n%s", want, w.log)
				}
			}
		})
	}
}

// secure has the server serve TLS to holders of tokens only, and returns the file of its CA.
func (s *site) secure() string {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(s.t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	signed, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	must(s.t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(s.t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})
	files := map[string][]byte{"cert.pem": cert, "key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})}
	for name, b := range files {
		must(s.t, os.WriteFile(filepath.Join(s.dir, name), b, 0o600))
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	s.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	s.t.Cleanup(s.client.CloseIdleConnections)
	s.flags = []string{"--auth", "required", "--tls-cert", filepath.Join(s.dir, "cert.pem"), "--tls-key", filepath.Join(s.dir, "key.pem")}
	return filepath.Join(s.dir, "cert.pem")
}

func (s *site) newToken(name, role string) string {
	s.t.Helper()
	cmd := exec.Command(pawl(s.t), "--database", s.database(), "token", "create", name, "--role", role)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+s.dir)
	out, err := cmd.Output()
	must(s.t, err)
	return strings.TrimSpace(string(out))
}

// TestPackages: both packages build with their languages' tools, have what they need and nothing
// else, the licence of the project, and the same version; and each works from where it was
// installed.
func TestPackages(t *testing.T) {
	t.Parallel()
	python, js := wheel(t), tarball(t)
	version := regexp.MustCompile(`(?m)^Version: (.*)$`).FindStringSubmatch(python["METADATA"])[1]
	var manifest struct{ Version, License string }
	must(t, json.Unmarshal([]byte(js["package.json"]), &manifest))
	if version == "" || strings.ReplaceAll(manifest.Version, "-dev.", ".dev") != version {
		t.Errorf("the versions are %s and %s", version, manifest.Version)
	}
	if manifest.License != "Apache-2.0" || !strings.Contains(python["METADATA"], "License: Apache-2.0") || strings.Contains(python["METADATA"], "Requires-Dist") {
		t.Errorf("licence %s, and\n%s", manifest.License, python["METADATA"])
	}
	root, err := Root()
	must(t, err)
	licence, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	must(t, err)
	for name, have := range map[string]string{"python": python["LICENSE"], "js": js["LICENSE"]} {
		if have != string(licence) {
			t.Errorf("%s: the licence is another than that of the project", name)
		}
	}
}

// builder returns a Python that can build packages: the one in use, or that of Debian.
func builder(t *testing.T) string {
	t.Helper()
	const debian = "/usr/bin/python3"
	for _, python := range []string{interpreter(t, Python), debian} {
		if exec.Command(python, "-c", "import pip, setuptools; assert int(setuptools.__version__.split('.')[0]) >= 71 or __import__('wheel')").Run() == nil {
			return python
		}
	}
	must(t, install("python3-pip", "python3-setuptools", "python3-wheel"))
	return debian
}

// wheel builds the package of Python, imports what it has, and returns its files by name.
func wheel(t *testing.T) map[string]string {
	python, dir := builder(t), t.TempDir()
	source := filepath.Join(dir, "source") // setuptools writes beside what it builds
	must(t, os.CopyFS(source, os.DirFS(folder(t, Python))))
	runIn(t, dir, nil, python, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", dir, source)
	built, err := filepath.Glob(filepath.Join(dir, "pawl-*-py3-none-any.whl"))
	must(t, err)
	z, err := zip.OpenReader(built[0])
	must(t, err)
	defer z.Close()
	files := map[string]string{}
	var own []string
	for _, f := range z.File {
		r, err := f.Open()
		must(t, err)
		b, err := io.ReadAll(r)
		must(t, err)
		if files[filepath.Base(f.Name)] = string(b); strings.HasPrefix(f.Name, "pawl/") {
			own = append(own, strings.TrimPrefix(f.Name, "pawl/"))
		}
	}
	sameFiles(t, filepath.Join(folder(t, Python), "pawl"), own)
	runIn(t, dir, []string{"PYTHONPATH=" + built[0]}, interpreter(t, Python), "-c", "import pawl; pawl.Worker().handle('a', lambda: None); assert '.whl' in pawl.__file__")
	return files
}

// tarball builds the package of JavaScript, imports what it has, and returns its files by name.
func tarball(t *testing.T) map[string]string {
	dir := t.TempDir()
	npm, err := exec.LookPath("npm")
	if err != nil {
		must(t, install("npm"))
		npm = "npm"
	}
	runIn(t, folder(t, Node), nil, npm, "pack", "--silent", "--offline", "--pack-destination", dir)
	built, err := filepath.Glob(filepath.Join(dir, "pawl-*.tgz"))
	must(t, err)
	b, err := os.ReadFile(built[0])
	must(t, err)
	z, err := gzip.NewReader(bytes.NewReader(b))
	must(t, err)
	files := map[string]string{}
	var own []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		b, err := io.ReadAll(r)
		must(t, err)
		name := strings.TrimPrefix(h.Name, "package/")
		if files[name] = string(b); strings.HasPrefix(name, "lib/") {
			own = append(own, strings.TrimPrefix(name, "lib/"))
		}
		to := filepath.Join(dir, "node_modules", "pawl", name)
		must(t, os.MkdirAll(filepath.Dir(to), 0o755))
		must(t, os.WriteFile(to, b, 0o600))
	}
	sameFiles(t, filepath.Join(folder(t, Node), "lib"), own)
	must(t, os.WriteFile(filepath.Join(dir, "use.mjs"), []byte("import { Worker } from 'pawl'; new Worker().handle('a', console.log);"), 0o600))
	runIn(t, dir, nil, interpreter(t, Node), "use.mjs")
	return files
}

// sameFiles checks that a package has the files of a folder.
func sameFiles(t *testing.T, dir string, got []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var want []string
	for _, e := range entries {
		if !e.IsDir() {
			want = append(want, e.Name())
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the package has other files than %s (-want +got)\n%s", dir, diff)
	}
}

// typescript is what checks the types of the package of JavaScript.
const typescript = "typescript@5.9.3"

// TestTypes: the types of the SDK for JavaScript are what its manual says: they accept its use,
// and refuse another.
func TestTypes(t *testing.T) {
	t.Parallel()
	interpreter(t, Node) // installs npx
	dir := t.TempDir()
	for name, source := range map[string]string{"good.mts": uses, "bad.mts": misuses} {
		source = "import { Client, Permanent, Retry, Snooze, Worker } from " + quoted(filepath.Join(folder(t, Node), "index.js")) + ";\n" + source
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(source), 0o600))
	}
	must(t, os.WriteFile(filepath.Join(dir, "tsconfig.json"), []byte(settings), 0o600))
	cmd := exec.CommandContext(t.Context(), "npx", "--yes", "--package", typescript, "tsc", "--project", dir)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	bad := strings.Count(string(out), "bad.mts(")
	if err == nil || bad != strings.Count(misuses, "\n") || bad != strings.Count(string(out), "error TS") {
		t.Errorf("%v: %d errors, want one in each line of bad.mts, and no other\n%s", err, bad, out)
	}
}

func quoted(s string) string { b, _ := json.Marshal(s); return string(b) }

const settings = `{"compilerOptions": {"noEmit": true, "strict": true, "target": "es2022", "module": "nodenext", "lib": ["es2022", "dom"], "types": []}, "include": ["*.mts"]}`

const uses = `
interface Order { item: string; count?: number }
const w = new Worker({ capacity: 4, silenceMs: 6000, isolation: "stop" });
w.handle<Order, string>("a", async (o, step) => {
  step.check();
  await fetch("https://example.com", { signal: step.signal });
  if (step.attempt > 2) throw new Permanent("no", { class: "c", metadata: { a: 1 } });
  if (step.attempt > 1) throw new Retry("no", { afterMs: 5 });
  if (o.count === 0) throw new Snooze(1000);
  return o.item + step.inputs.name;
}, { parse: (v) => v as Order }).handle("b", (o: number) => o + 1);
const c = new Client({ server: "https://example.com", token: "t" });
const job = await c.wait<number>(await c.submit({ workflow: "a@1", inputs: { n: 1 } }), { timeoutMs: 5 });
const n: number | undefined = job.output;
await c.cancel(job.id, { reason: "r", requestId: "k" });
w.drain(n);
await w.run();
export {};
`

const misuses = `new Worker({ capacity: "4" });
new Worker().handle<{ item: string }, string>("a", (o) => o.size);
new Worker().handle<number, string>("a", (o) => o);
new Client().submit({ workflow: 7 });
new Client().wait<number>("j").then((j) => j.output!.length);
new Snooze("soon");
`
