package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawl-dev/pawl/internal/console"
)

var serverURL = regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`)

// url VARIABLE FILE sets a variable to the first URL of a server in a file.
func url(ts *testscript.TestScript, _ bool, args []string) {
	u := serverURL.FindString(ts.ReadFile(args[1]))
	if u == "" {
		ts.Fatalf("no URL in %s", args[1])
	}
	ts.Setenv(args[0], u)
}

// A twin is one of the two ways of a command, and what it is given there: the job that was
// submitted last, and a name.
type twin struct{ flags, job, name string }

// both CODE ARGUMENT... runs pawl with the arguments through the server $SERVER and then on the
// database, and fails unless both end with the exit code and print the same, apart from ids,
// times and durations. JOB stands for the job that the last submission or continuation that way
// has made, SAME for that on the database, NAME for a name.
func both(ts *testscript.TestScript, _ bool, args []string) {
	twins := []twin{{"--server=" + ts.Getenv("SERVER"), ts.Getenv("REMOTE_JOB"), "remote_one"}, {"", ts.Getenv("LOCAL_JOB"), "local_one"}}
	var printed [2]string
	for i, w := range twins {
		words := []string{}
		if w.flags != "" {
			words = append(words, w.flags)
		}
		for _, a := range args[1:] {
			words = append(words, strings.NewReplacer("JOB", w.job, "SAME", ts.Getenv("LOCAL_JOB"), "NAME", w.name).Replace(a))
		}
		c := program(ts, words...)
		var out, errs bytes.Buffer
		c.Stdout, c.Stderr = &out, &errs
		_ = c.Run() // its exit code is checked
		if got := fmt.Sprint(c.ProcessState.ExitCode()); got != args[0] {
			ts.Fatalf("pawl %s: exit code %s, want %s\n%s%s", strings.Join(words, " "), got, args[0], &out, &errs)
		}
		if id := publicID.FindString(out.String() + errs.String()); id != "" && (args[1] == "submit" || slices.Contains(args, "retry")) {
			ts.Setenv([]string{"REMOTE_JOB", "LOCAL_JOB"}[i], id)
		}
		if slices.Contains(words, "--wait") || args[1] == "service" && (args[2] == "start" || args[2] == "stop") { // which shows what it sees of the way
			errs.Reset()
		}
		printed[i] = neutralOf(out.String() + "\n--- stderr\n" + errs.String())
	}
	if diff := cmp.Diff(printed[1], printed[0]); diff != "" {
		ts.Fatalf("pawl %s prints something else through the server (-local +remote):\n%s", strings.Join(args[1:], " "), diff)
	}
}

// program returns a run of pawl in the environment of a script.
func program(ts *testscript.TestScript, words ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(builds.dir, "pawl"), words...)
	c.Dir = ts.MkAbs(".")
	for _, v := range passed {
		c.Env = append(c.Env, v+"="+ts.Getenv(v))
	}
	return c
}

// arrive STEP KIND waits until a step of the last two jobs waits for that kind of thing.
func arrive(ts *testscript.TestScript, _ bool, args []string) {
	for _, job := range []string{ts.Getenv("REMOTE_JOB"), ts.Getenv("LOCAL_JOB")} {
		waitUntil(ts, strings.Join(args, " ")+" did not come", func() bool {
			out, err := program(ts, "job", "why", job, args[0], "-o", "json").Output()
			return err == nil && bytes.Contains(out, []byte(`"kind": "`+args[1]+`"`))
		})
	}
}

// neutralities are what may differ between the two ways, with what stands for it.
var neutralities = []struct {
	is *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`(?m)^ *"request_id": "[0-9A-Z]{26}",\n`), ""}, // a random one
	{regexp.MustCompile(`\b(j|st|w|sc|r|qp|tk|wh|test)_[0-9a-f]{32}\b`), "$1"},
	{regexp.MustCompile(`\b(pawl|whsec)_[0-9A-Za-z_+/=]+`), "SECRET"},
	{regexp.MustCompile(`(?m)^(process +|host/)\d+`), "$1"},
	{regexp.MustCompile(`\bsha256:[0-9a-f]+\b`), "HASH"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| UTC)?`), "TIME"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d(\.\d+)?\b`), "TIME"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(h|m|s|ms|µs|us))+\b`), "DURATION"},
	{regexp.MustCompile(` --server \S+`), ""},
	{regexp.MustCompile(`"dir": "[^"]*"`), `"dir": ""`}, // of this machine
	{regexp.MustCompile(`(?m)^folder .*\n`), ""},
	{regexp.MustCompile(`(?m)  +`), "  "},
	{regexp.MustCompile(`(?m)^\d+(  TIME  test)`), "N$1"}, // of a delivery
	{regexp.MustCompile(`\b\d+ ms\b`), "DURATION"},
	{regexp.MustCompile(`-{3,}|─+`), "-"},
}

func neutralOf(text string) string {
	text = strings.NewReplacer("remote_one", "NAME", "local_one", "NAME").Replace(text)
	for _, n := range neutralities {
		text = n.is.ReplaceAllString(text, n.to)
	}
	return text
}

// TestServerFlag: where the server and the database come from, and which commands refuse a
// server.
func TestServerFlag(t *testing.T) {
	t.Parallel()
	away := "http://127.0.0.1:1"
	env := map[string]string{"HOME": t.TempDir(), "USER": "tester"}
	with := map[string]string{"HOME": env["HOME"], "USER": "tester", "PAWL_SERVER": away, "PAWL_DATABASE": filepath.Join(env["HOME"], "none.db")}
	for _, tt := range []struct {
		name string
		env  map[string]string
		args string
		code int
		says string
	}{
		{"out of reach", env, "--server " + away + " jobs", codeUnavailable, "the server at " + away + " is out of reach"},
		{"hint", env, "--server " + away + " jobs", codeUnavailable, "hint: is it running there?"},
		{"both", env, "--server " + away + " --database x.db jobs", codeInvalid, "want one of them"},
		{"not loopback", env, "--server http://pawl.example.com jobs", codeInvalid, "--server: the URL of the server: http is for the loopback interface only"},
		{"no URL", env, "--server pawl.example.com jobs", codeInvalid, "--server: the URL of the server: want https://HOST"},
		{"variable", with, "jobs", codeUnavailable, "the server at " + away},
		{"a flag comes first", with, "--database other.db jobs", codeNotFound, "there is no database other.db"},
		{"variable, and a local command", with, "migrate status", codeOK, ""},
		{"run", env, "--server " + away + " run x.yaml", codeInvalid, "pawl submit FILE --wait"},
		{"exec", env, "--server " + away + " exec true", codeInvalid, "pawl submit FILE --wait"},
		{"profile and server", env, "--profile a --server " + away + " jobs", codeInvalid, "--profile and --server: want one of them"},
		{"profile and database", env, "--profile a --database x.db jobs", codeInvalid, "--profile and --database: want one of them"},
		{"profile, and a local command", env, "--profile a run x.yaml", codeInvalid, "pawl submit FILE --wait"},
		{"no such profile", env, "--profile a jobs", codeNotFound, `there is no profile "a"`},
		{"help", env, "--server " + away + " help jobs", codeOK, ""},
		{"machine", env, "--server " + away + " machine list", codeOK, ""},
	} {
		code, _, stderr := here(tt.env, strings.Fields(tt.args)...)
		if code != tt.code || !strings.Contains(stderr, tt.says) {
			t.Errorf("%s: exit code %d and %q, want %d and %q", tt.name, code, stderr, tt.code, tt.says)
		}
	}
	for _, local := range []string{"run x", "exec x", "dev", "server", "supervise x", "migrate status", "bench"} {
		code, _, stderr := here(env, append([]string{"--server", away}, strings.Fields(local)...)...)
		if code != codeInvalid || !strings.Contains(stderr, "not through a server") {
			t.Errorf("%s: exit code %d and %q, want %d", local, code, stderr, codeInvalid)
		}
	}
}

// TestWhichServer: a flag comes first, then PAWL_SERVER, PAWL_PROFILE, PAWL_DATABASE, the default
// profile and the default database; only --server and PAWL_SERVER get PAWL_TOKEN and the flags for
// credentials.
func TestWhichServer(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	config := filepath.Join(home, ".config", "pawl", "config.yaml")
	write(t, config, "default: one\nprofiles:\n  one: {server: 'http://127.0.0.1:1', workspace: billing}\n  two: {server: 'http://127.0.0.2:1', token_file: two.token, ca: ~/ca.pem}\n")
	write(t, filepath.Join(home, "file"), "from the file\n")
	write(t, filepath.Join(filepath.Dir(config), "two.token"), "of two\n")
	const one, two, three = "http://127.0.0.1:1", "http://127.0.0.2:1", "http://127.0.0.3:1"
	for _, tt := range []struct {
		name, env, args                    string
		server, database, workspace, token string
		says                               string
	}{
		{"default profile", "PAWL_TOKEN=t", "jobs", one, "", "billing", "", ""},
		{"--database", "PAWL_SERVER=" + three, "--database a.db jobs", "", "a.db", "default", "-", ""},
		{"PAWL_DATABASE", "PAWL_DATABASE=b.db", "jobs", "", "b.db", "default", "-", ""},
		{"PAWL_PROFILE", "PAWL_TOKEN=t PAWL_PROFILE=two PAWL_DATABASE=b.db", "jobs", two, "", "default", "of two", ""},
		{"PAWL_SERVER", "PAWL_TOKEN=t PAWL_PROFILE=two PAWL_SERVER=" + three, "jobs", three, "", "default", "t", ""},
		{"--profile", "PAWL_TOKEN=t PAWL_SERVER=" + three, "--profile two jobs", two, "", "default", "of two", ""},
		{"--server", "PAWL_TOKEN=t PAWL_PROFILE=two", "--server " + three + " jobs", three, "", "default", "t", ""},
		{"--token-file", "PAWL_TOKEN=t", "--server " + three + " --token-file " + filepath.Join(home, "file") + " jobs", three, "", "default", "from the file", ""},
		{"--workspace", "PAWL_WORKSPACE=env", "--workspace flag jobs", one, "", "flag", "", ""},
		{"PAWL_WORKSPACE", "PAWL_WORKSPACE=env", "jobs", one, "", "env", "", ""},
		{"a local command", "PAWL_PROFILE=two PAWL_SERVER=" + three, "migrate status", "", "", "default", "-", ""},
		{"a command on files", "PAWL_PROFILE=two PAWL_SERVER=" + three, "validate x.yaml", "", "", "default", "-", ""},
		{"a command on files, and --profile", "", "--profile two validate x.yaml", two, "", "default", "of two", ""},
		{"no profile of this name", "PAWL_PROFILE=tow", "jobs", "", "", "", "", `there is no profile "tow": want one or two`},
		{"a flag for credentials", "", "--profile two --token-file x jobs", "", "", "", "", "--token-file cannot be given for a profile"},
		{"a flag for the default profile", "", "--ca x jobs", "", "", "", "", "--ca cannot be given for a profile"},
		{"PAWL_CONFIG", "PAWL_CONFIG=" + filepath.Join(home, "none.yaml"), "jobs", "", "", "", "", "none.yaml: no such file"},
	} {
		env := map[string]string{"HOME": home}
		for _, v := range strings.Fields(tt.env) {
			key, value, _ := strings.Cut(v, "=")
			env[key] = value
		}
		a := &app{process: &process{getenv: func(key string) string { return env[key] }}, logs: &console.LogWriter{}}
		root := newRoot(a)
		c, rest, err := root.Find(strings.Fields(tt.args))
		if err == nil {
			err = c.ParseFlags(rest)
		}
		if err == nil {
			err = a.settle(c)
		}
		if tt.says != "" {
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: %v, want %s", tt.name, err, tt.says)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		token := "-"
		if a.server != "" {
			if token, err = a.token(t.Context()); err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
		if a.server != tt.server || a.database != tt.database || a.workspace != tt.workspace || token != tt.token {
			t.Errorf("%s: server %q, database %q, workspace %q, token %q", tt.name, a.server, a.database, a.workspace, token)
		}
		if a.profile == "two" && a.ca != filepath.Join(home, "ca.pem") {
			t.Errorf("%s: the CA is %s", tt.name, a.ca)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestConsent: a command that changes what is on another machine says where; one of a profile
// that wants consent needs --yes where nobody can be asked. Reading is never held up.
func TestConsent(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	write(t, filepath.Join(home, ".config", "pawl", "config.yaml"), "profiles:\n  prod: {server: 'https://pawl.invalid', confirm: true}\n  near: {server: 'http://127.0.0.1:1', confirm: true}\n")
	env := map[string]string{"HOME": home, "USER": "tester"}
	const on = "on prod (https://pawl.invalid)\n"
	for _, tt := range []struct {
		args string
		code int
		says string
		not  string
	}{
		{"--profile prod job cancel last", codeInvalid, on + "error: pawl job cancel on prod (https://pawl.invalid) wants consent, and there is no terminal to ask for consent\nhint: add --yes to consent\n", "out of reach"},
		{"--profile prod job cancel last --yes", codeUnavailable, on, "consent"},
		{"--profile prod jobs", codeUnavailable, "out of reach", "on prod"},
		{"--profile near job cancel last", codeInvalid, "error: pawl job cancel on near (http://127.0.0.1:1) wants consent", "out of reach"},
		{"--server https://pawl.invalid job cancel last", codeUnavailable, "on https://pawl.invalid\n", "consent"},
		{"--server http://127.0.0.1:1 job cancel last", codeUnavailable, "out of reach", "on http"},
		{"__complete --profile prod job cancel x", codeOK, "", "on prod"},
	} {
		code, _, stderr := here(env, strings.Fields(tt.args)...)
		if code != tt.code || !strings.Contains(stderr, tt.says) || strings.Contains(stderr, tt.not) {
			t.Errorf("%s: exit code %d and %q, want %d and %q", tt.args, code, stderr, tt.code, tt.says)
		}
	}
}
