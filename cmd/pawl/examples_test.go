package main

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestExampleScripts runs the examples that take more than one command: a person
// who approves, a worker, a second job.
func TestExampleScripts(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	p := scripts(t, "")
	p.Dir = "testdata/examples"
	setup := p.Setup
	p.Setup = func(e *testscript.Env) error {
		e.Setenv("EXAMPLES", root)
		return setup(e)
	}
	testscript.Run(t, p)
}

// TestExamplesVerified holds every example but one to what `pawl verify` finds, and
// service files to `pawl validate`, and load files to `pawl load validate`.
func TestExamplesVerified(t *testing.T) {
	t.Parallel()
	root := "../../examples"
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		want := 0
		if d.Name() == "faulty.yaml" {
			want = codeFailed
		}
		args := []string{"verify", "--strict", path}
		switch {
		case strings.Contains(path, "/supervise/"):
			args = []string{"validate", path}
		case strings.Contains(path, "/load/"):
			args = []string{"load", "validate", path}
		}
		code, stdout, stderr := here(nil, args...)
		if code != want || want != 0 && !strings.Contains(stdout+stderr, "uses the output of weigh") {
			t.Errorf("pawl %s: exit %d, want %d\n%s%s", strings.Join(args, " "), code, want, stdout, stderr)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestExamples runs each example as it is (T12).
func TestExamples(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusOK) }))
	t.Cleanup(server.Close)
	out := t.TempDir()
	for _, test := range []struct {
		name string
		args []string
		code int
		want string // in the output
	}{
		{"hello", []string{"hello.yaml"}, 0, "HELLO, WORLD!"},
		{"hello Ada", []string{"hello.yaml", "-i", "name=Ada"}, 0, "HELLO, ADA!"},
		{"fanout", []string{"fanout.yaml"}, 0, "28 bytes in 6 words"},
		{"retry", []string{"retry.yaml"}, 0, "worked at attempt 3"},
		{"retry, broken", []string{"retry.yaml", "-i", "broken=true"}, codeFailed, ""},
		{"conditions", []string{"conditions.yaml"}, 0, `"published": null`},
		{"conditions, for real", []string{"conditions.yaml", "-i", "dry_run=false"}, 0, "published 3 pages"},
		{"http", []string{"http.yaml", "-i", "url=" + server.URL}, 0, "200"},
		{"drain", []string{"drain.yaml"}, codeFailed, ""},
		{"matrix", []string{"matrix.yaml"}, 0, `"builds": 4`},
		{"sleep", []string{"sleep.yaml"}, 0, "poured after 1 s"},
		{"faulty, as most of the time", []string{"faulty.yaml"}, 0, "6 euros"},
		{"faulty, with its fault", []string{"faulty.yaml", "-i", "express=true"}, codeFailed, ""},
		{"gostats", []string{"gostats/gostats.yaml", "-i", "out=" + out}, 0, `"declarations"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root, err := filepath.Abs("../../examples")
			if err != nil {
				t.Fatal(err)
			}
			var stdout, stderr bytes.Buffer
			cmd := exec.CommandContext(t.Context(), binary(t), append([]string{"run"}, test.args...)...)
			cmd.Dir, cmd.Stdout, cmd.Stderr = root, &stdout, &stderr
			cmd.Env = append(os.Environ(), "PAWL_DATABASE="+filepath.Join(t.TempDir(), "pawl.db"))
			err = cmd.Run()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if code := cmd.ProcessState.ExitCode(); code != test.code || !strings.Contains(stdout.String(), test.want) {
				t.Errorf("exit %d, output %q; want exit %d and %q in it\n%s", code, stdout.String(), test.code, test.want, stderr.String())
			}
		})
	}
	t.Cleanup(func() {
		for _, file := range []string{"report.md", "chart.svg"} {
			if info, err := os.Stat(filepath.Join(out, file)); err != nil || info.Size() == 0 {
				t.Errorf("gostats wrote no %s: %v", file, err)
			}
		}
	})
}
