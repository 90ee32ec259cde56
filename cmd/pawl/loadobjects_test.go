package main

import (
	"bufio"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/internal/lab/s3test"
)

// TestLoadObjectsManual runs the session on an object store of docs/load.md, as it is written there but for the
// store. Nothing of it is left in the bucket (L5, L9).
func TestLoadObjectsManual(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile("../../docs/load.md")
	if err != nil {
		t.Fatal(err)
	}
	_, session, _ := strings.Cut(string(manual), "\n## Object stores\n")
	session, _, _ = strings.Cut(session, "\n## The result\n")
	s := s3test.Start(t)
	session = strings.ReplaceAll(session, "https://s3.example.com/bench", s.URL)
	k := newKitchen(t)
	k.env = append(append(k.env, "XDG_STATE_HOME="+filepath.Join(k.dir, "state")), s.Env()...)
	for _, block := range fences.FindAllStringSubmatch(session, -1) {
		if block[1] == "console" {
			k.console(block[2])
			continue
		}
		if err := os.WriteFile(filepath.Join(k.dir, "objects.yaml"), []byte(block[2]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if keys := s3test.Keys(t, s.Client(t)); len(keys) > 0 {
		t.Errorf("left in the bucket: %v", keys)
	}
	withoutSecrets(t, k.dir)
}

// TestLoadStepOnStore: a step of a workflow runs a load on the store that the environment of the worker allows, and on none
// without it. Nothing is left in the bucket, and no file has the secret: neither the database nor the result nor a log (L7, L9).
func TestLoadStepOnStore(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"objects.yaml": "{name: objects, engine: s3, files: [{name: data, count: 2, size: 6MiB}], s3: {part_size: 5MiB, parts_at_once: 2}, mix: [{operation: read}], count: 20, interval: 100ms, start: {delay: 10ms}}",
		"flow.yaml":    "name: flow\nsteps:\n  - {id: measure, load: {file: " + filepath.Join(dir, "objects.yaml") + ", local: 2}}\n  - {id: tell, needs: [measure], env: {P50: \"${{ steps.measure.output.total.first_byte.p50_ns }}\"}, run: 'echo first byte $P50'}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := slices.Concat(os.Environ(), s.Env(), []string{"XDG_STATE_HOME=" + filepath.Join(dir, "state"), "HOME=" + dir, "PAWL_DATABASE=" + filepath.Join(dir, "pawl.db")})
	run := func(more ...string) (string, error) {
		c := exec.Command(binary(t), "run", filepath.Join(dir, "flow.yaml"), "--verbose")
		c.Env = append(env, more...)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := run("PAWL_LOAD_S3=" + s.URL + "/steps?bytes=1GiB"); err != nil || !regexp.MustCompile(`first byte [1-9]`).MatchString(out) || strings.Contains(out, s3test.Secret) {
		t.Errorf("%v: %s", err, out)
	}
	for allowed, want := range map[string]string{"": "the worker allows none", "bench": "PAWL_LOAD_S3: ", s.URL + "x/steps": "NoSuchBucket"} {
		if out, err := run("PAWL_LOAD_S3=" + allowed); err == nil || !strings.Contains(out, want) || strings.Contains(out, s3test.Secret) {
			t.Errorf("%q: %v: %s", allowed, err, out)
		}
	}
	if keys := s3test.Keys(t, s.Client(t)); len(keys) > 0 {
		t.Errorf("left in the bucket: %v", keys)
	}
	withoutSecrets(t, dir)
}

// withoutSecrets fails if a file has a secret of the store.
func withoutSecrets(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), s3test.Secret) {
			t.Errorf("%s has the secret", path)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files: %v", files, err)
	}
}

// An s3Agent is a process of pawl agent that may use a bucket.
type s3Agent struct {
	*exec.Cmd
	says *bufio.Reader
}

func startS3Agent(t *testing.T, dir, url string, env []string) *s3Agent {
	t.Helper()
	a := &s3Agent{Cmd: exec.Command(binary(t), "agent", "--id", "a", "--s3", url, "--state-dir", filepath.Join(dir, "state"), "--listen", "unix:"+filepath.Join(dir, "s"))}
	a.Env = env
	stderr, err := a.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = a.Process.Kill()
		_ = a.Wait()
	})
	a.says = bufio.NewReader(stderr)
	for { // it serves when it has cleaned up
		line, err := a.says.ReadString('\n')
		if strings.Contains(line, " serves ") {
			return a
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
}

// TestS3AgentKilled: an agent that was killed during a run on an object store deletes what the run has created when it
// starts again, and nothing else; its folder does not have the secret (L5, L9).
func TestS3AgentKilled(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	c := s.Client(t)
	s3test.Put(t, c, "load/of-others", "x")
	dir, err := os.MkdirTemp("", "pawl-s3-") // short: it has a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	env := slices.Concat(os.Environ(), s.Env(), []string{"XDG_STATE_HOME=" + dir})
	file := filepath.Join(dir, "load.yaml")
	config := "{name: killed, engine: s3, files: [{name: data, count: 8, size: 6MiB}], mix: [{operation: read}, {operation: create}], s3: {part_size: 5MiB}, interval: 100ms, duration: 1h}"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	a := startS3Agent(t, dir, s.URL, env)
	run := exec.Command(binary(t), "load", "run", file, "--agents", "unix:"+filepath.Join(dir, "s"), "--json", "--out", filepath.Join(dir, "out"))
	run.Env = env
	stdout, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = run.Process.Kill()
		_ = run.Wait()
	})
	for lines := bufio.NewScanner(stdout); lines.Scan() && !strings.Contains(lines.Text(), `"type":"interval"`); {
	}
	if err := a.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = a.Wait()
	if len(s3test.Keys(t, c)) < 9 {
		t.Fatal("the run had created nothing")
	}
	startS3Agent(t, dir, s.URL, env)
	if diff := cmp.Diff([]string{"load/of-others"}, s3test.Keys(t, c)); diff != "" {
		t.Errorf("left in the bucket: %s", diff)
	}
	if all := s3test.Uploads(t, c); len(all) > 0 {
		t.Errorf("uploads are left: %v", all)
	}
	withoutSecrets(t, dir)
}
