// Package examples holds the examples to what they promise: that they are
// valid, explained, and made of programs that run.
package examples

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	loadspec "github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/programs/spec"
	"github.com/pawl-dev/pawl/workflow"
)

// files are the workflow files with the inputs that they cannot do without.
var files = map[string]map[string]any{
	"hello.yaml":           nil,
	"fanout.yaml":          nil,
	"retry.yaml":           nil,
	"conditions.yaml":      nil,
	"http.yaml":            {"url": "http://127.0.0.1:8080/"},
	"drain.yaml":           nil,
	"gostats/gostats.yaml": nil,

	"matrix.yaml":            nil,
	"approval.yaml":          nil,
	"sleep.yaml":             nil,
	"event.yaml":             nil,
	"hooks.yaml":             nil,
	"concurrency.yaml":       nil,
	"queues.yaml":            nil,
	"again.yaml":             nil,
	"faulty.yaml":            nil,
	"child/parent.yaml":      nil,
	"child/greeting.yaml":    {"name": "Ada"},
	"child/registered.yaml":  nil,
	"move/release.yaml":      nil,
	"move/release-2.yaml":    nil,
	"schedule/midnight.yaml": nil,
}

// (T12) every file is valid, bears the name of its workflow (with a number after
// it if it is a later version), and takes its inputs; so does what is stored of
// it.
func TestFiles(t *testing.T) {
	t.Parallel()
	for path, inputs := range files {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			d, err := workflow.ParseWith(path, read(t, path), openBeside)
			if err != nil {
				t.Fatal(err)
			}
			base := strings.TrimSuffix(filepath.Base(path), ".yaml")
			if want := version.ReplaceAllString(base, ""); d.Name != want {
				t.Errorf("the workflow's name is %q, want %q", d.Name, want)
			}
			if bound, err := d.BindInputs(inputs); err != nil || !json.Valid(bound) {
				t.Errorf("inputs %v: got %s, %v", inputs, bound, err)
			}
			if again, err := workflow.Load(d.Canonical()); err != nil || again.Hash() != d.Hash() {
				t.Errorf("its canonical form is not the same workflow: %v", err)
			}
		})
	}
}

var version = regexp.MustCompile(`-[0-9]+$`)

func openBeside(from, path string) (string, []byte, error) {
	known := filepath.Join(filepath.Dir(from), path)
	src, err := os.ReadFile(known)
	return known, src, err
}

func TestInputsAreChecked(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		path   string
		inputs map[string]any
	}{
		{"http.yaml", nil},
		{"http.yaml", map[string]any{"url": "ftp://example.org/"}},
		{"gostats/gostats.yaml", map[string]any{"pace": "soon"}},
		{"gostats/gostats.yaml", map[string]any{"out": "-o"}},
		{"child/greeting.yaml", nil},
		{"sleep.yaml", map[string]any{"seconds": "soon"}},
	} {
		d, err := workflow.Parse(test.path, read(t, test.path))
		if err != nil {
			t.Fatal(err)
		}
		if bound, err := d.BindInputs(test.inputs); err == nil {
			t.Errorf("%s took %v as %s", test.path, test.inputs, bound)
		}
	}
}

// services are the files of pawl supervise.
var services = []string{"supervise/stack.yaml"}

// (S14) each is valid and bears the name of its file.
func TestServices(t *testing.T) {
	t.Parallel()
	for _, path := range services {
		f, err := spec.Parse(path, read(t, path))
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.TrimSuffix(filepath.Base(path), ".yaml"); f.Name != want {
			t.Errorf("%s: the name is %q, want %q", path, f.Name, want)
		}
	}
}

// loads are the files of pawl load.
var loads = []string{"load/random-read.yaml", "load/mixed.yaml", "load/metadata.yaml", "load/rate-limited.yaml", "load/objects.yaml"}

// (L9) each is valid and bears the name of its file.
func TestLoads(t *testing.T) {
	t.Parallel()
	for _, path := range loads {
		f, err := loadspec.ParseFile(path, read(t, path))
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.TrimSuffix(filepath.Base(path), ".yaml"); f.Name != want {
			t.Errorf("%s: the name is %q, want %q", path, f.Name, want)
		}
	}
}

// Every file is in one of the tables above and says at its top how it is run;
// every folder has a README of a few lines; the README here names them all.
func TestExplained(t *testing.T) {
	t.Parallel()
	index := string(read(t, "README.md"))
	found := map[string]bool{}
	walk(t, func(path string, d fs.DirEntry) {
		switch {
		case d.IsDir() && path != ".":
			if lines := strings.Count(string(read(t, filepath.Join(path, "README.md"))), "\n"); lines < 3 {
				t.Errorf("%s/README.md has %d lines, want a few", path, lines)
			}
			if !strings.Contains(index, "examples/"+path) {
				t.Errorf("README.md does not name examples/%s", path)
			}
		case filepath.Ext(path) == ".yaml":
			found[path] = true
			command := "pawl run examples/" + path
			if slices.Contains(services, path) {
				command = "pawl supervise examples/" + path
			}
			if slices.Contains(loads, path) {
				command = "pawl load run examples/" + path
			}
			if !strings.Contains(string(read(t, path)), "#   "+command) {
				t.Errorf("%s does not say %q", path, command)
			}
			if !strings.Contains(index, command) {
				t.Errorf("README.md does not say %q", command)
			}
		}
	})
	want := map[string]bool{}
	for _, path := range slices.Concat(services, loads, slices.Collect(maps.Keys(files))) {
		want[path] = true
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("files (-in the table +here):\n%s", diff)
	}
}

// Every command that the texts name is of an example that is there.
func TestCommandsNameFiles(t *testing.T) {
	t.Parallel()
	walk(t, func(path string, d fs.DirEntry) {
		if ext := filepath.Ext(path); d.IsDir() || ext != ".md" && ext != ".yaml" {
			return
		}
		for _, word := range strings.Fields(string(read(t, path))) {
			name, ok := strings.CutPrefix(strings.Trim(word, "`:;.,()"), "examples/")
			if !ok {
				continue
			}
			if _, err := os.Stat(filepath.FromSlash(name)); err != nil {
				t.Errorf("%s names examples/%s: %v", path, name, err)
			}
		}
	})
}

// The programs beside the workflows pass vet, and run.
func TestPrograms(t *testing.T) {
	t.Parallel()
	if out, err := exec.CommandContext(t.Context(), "go", "vet", "./...").CombinedOutput(); err != nil {
		t.Errorf("go vet: %v\n%s", err, out)
	}
	for _, test := range []struct {
		args []string
		want string // in what it prints
	}{
		{[]string{"./gostats"}, "gostats: want a subcommand"},
		{[]string{"./gostats", "list", fakeTree(t)}, "one/package\n"},
		{[]string{"./echo", "-address", "192.0.2.1:0"}, "echo: "},
	} {
		out, _ := exec.CommandContext(t.Context(), "go", append([]string{"run"}, test.args...)...).CombinedOutput()
		if !strings.Contains(string(out), test.want) {
			t.Errorf("go run %q printed %q, want %q", test.args, out, test.want)
		}
	}
}

func fakeTree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "src", "one", "package")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte("package p\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// walk visits what belongs to the examples: not what a run has put out.
func walk(t *testing.T, visit func(path string, d fs.DirEntry)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "out" {
			return fs.SkipDir
		}
		visit(filepath.ToSlash(path), d)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The quickstart of the README is a program that is built with everything else.
func TestReadmeQuickstart(t *testing.T) {
	t.Parallel()
	_, program, _ := strings.Cut(string(read(t, "quickstart/main.go")), "\npackage main")
	_, block, _ := strings.Cut(string(read(t, "../README.md")), "```go\npackage main")
	block, _, _ = strings.Cut(block, "```\n")
	if diff := cmp.Diff(program, block); diff != "" {
		t.Errorf("the quickstart of README.md is not examples/quickstart/main.go (-program +README):\n%s", diff)
	}
}
