package spec_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/document"
	"github.com/pawl-dev/pawl/internal/programs/spec"
)

var update = flag.Bool("update", false, "rewrite the expected errors in testdata/bad")

func parseFile(t testing.TB, path string) (*spec.File, error) {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return spec.Parse(filepath.Base(path), src)
}

// TestBadFiles holds every file of testdata/bad against the exact text of its
// errors (S14).
func TestBadFiles(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(paths) < 20 {
		t.Fatalf("found %d files: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			t.Parallel()
			f, err := parseFile(t, path)
			if err == nil || f != nil {
				t.Fatal("the file was accepted")
			}
			checkProblems(t, err)
			golden(t, strings.TrimSuffix(path, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// checkProblems fails unless err is a list of problems that have places, in the
// order of the file, and is of kind Invalid.
func checkProblems(t *testing.T, err error) {
	t.Helper()
	var problems document.Problems
	if !errors.As(err, &problems) || len(problems) == 0 {
		t.Fatalf("%T is not a list of problems: %v", err, err)
	}
	if pawl.KindOf(err) != pawl.Invalid {
		t.Errorf("kind of the error is %d, want Invalid", pawl.KindOf(err))
	}
	last := document.Problem{}
	for _, p := range problems {
		if p.Message == "" {
			t.Errorf("a problem says nothing: %+v", p)
		}
		if (p.Line < 1 || p.Column < 1) && !strings.Contains(p.Message, "the file has more than") {
			t.Errorf("a problem has no place: %+v", p)
		}
		if p.Line < last.Line || p.Line == last.Line && p.Column < last.Column {
			t.Errorf("problems are not in the order of the file: %v after %v", p, last)
		}
		last = p
	}
}

// compare compares what Parse returns.
var compare = cmp.Comparer(func(a, b *regexp.Regexp) bool {
	return a == b || a != nil && b != nil && a.String() == b.String()
})

// plain is a service with defaults and nothing else.
func plain(id string, command ...string) *spec.Program {
	return &spec.Program{
		ID: id, Command: command, Dir: "/srv/app", Env: map[string]string{}, Autostart: true,
		Restart: spec.Restart{
			Policy: spec.Always, Base: time.Second, Cap: time.Minute, Jitter: true, Burst: 5,
			Window: 5 * time.Minute, Reset: time.Minute, PermanentExitCodes: []int{},
		},
		Stop: spec.Stop{Signal: "SIGTERM", Grace: 10 * time.Second},
		Log:  spec.Log{MaxSize: 10_000_000, MaxFiles: 5},
	}
}

// (S14) What is left out has its default; the name is the file's own.
func TestDefaults(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("testdata/good/minimal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := spec.Parse("/srv/app/stack.yaml", src)
	if err != nil {
		t.Fatal(err)
	}
	want := &spec.File{Name: "stack", Path: "/srv/app/stack.yaml", Programs: []*spec.Program{
		plain("a", "/bin/sh", "-e", "-c", "exec sleep 1000"),
	}}
	if diff := cmp.Diff(want, got, compare); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
}

// (S14) Every key reaches its field.
func TestEveryKey(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("testdata/good/all.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := spec.Parse("/srv/app/stack.yaml", src)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(everything(), got, compare); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
}

// everything is what testdata/good/all.yaml says.
func everything() *spec.File {
	cache := plain("cache", "./cache")
	cache.Autostart = false
	cache.Ready = &spec.Probe{Log: regexp.MustCompile(`^listening on \d+$`), Interval: time.Second, Timeout: time.Second, Successes: 1, Failures: 3}
	cache.Alive = &spec.Probe{TCP: "[::1]:6379", Interval: 10 * time.Second, Timeout: time.Second, Successes: 1, Failures: 3}

	migrate := plain("migrate", "/bin/sh", "-e", "-c", "./migrate up\n")
	migrate.Needs = []spec.Need{{ID: "db", Condition: spec.Ready}}
	migrate.Restart.Policy = spec.Never

	probed := plain("probe_it", "sh", "-c", "exec sleep 1000")
	probed.Ready = &spec.Probe{Command: []string{"true"}, Interval: time.Second, Timeout: time.Second, Successes: 1, Failures: 3}
	probed.Alive = &spec.Probe{HTTP: "https://localhost/", Interval: 10 * time.Second, Timeout: time.Second, Successes: 1, Failures: 3}
	probed.Restart.Base, probed.Restart.Cap = 2*time.Minute, 2*time.Minute
	probed.Pass = []string{"*"}

	web := plain("web", "./web")
	web.Needs = []spec.Need{{ID: "cache", Condition: spec.Started}, {ID: "db", Condition: spec.Ready}, {ID: "migrate", Condition: spec.Completed}}
	web.Ready = &spec.Probe{HTTP: "http://127.0.0.1:8080/healthz", Interval: time.Second, Timeout: time.Second, Successes: 1, Failures: 3}
	web.Alive = &spec.Probe{Notify: true, Interval: 10 * time.Second, Timeout: 30 * time.Second, Successes: 1, Failures: 1}

	worker := plain("worker-2", "./worker")
	worker.Ready = &spec.Probe{Notify: true, Interval: time.Second, Timeout: time.Second, Successes: 1, Failures: 3}
	worker.Alive = &spec.Probe{Notify: true, Interval: 10 * time.Second, Timeout: 90 * time.Second, Successes: 1, Failures: 1}
	worker.Stop.Signal = "SIGQUIT"

	f := &spec.File{Name: "everything", Path: "/srv/app/stack.yaml", Programs: []*spec.Program{cache, database(), migrate, probed, web, worker}}
	for _, p := range f.Programs {
		if p.ID != "db" {
			p.Env = map[string]string{"LANG": "C", "LEVEL": "3"}
		}
	}
	return f
}

func database() *spec.Program {
	return &spec.Program{
		ID: "db", Description: "Keeps the data.", Command: []string{"./db", "--port", "5432"}, Dir: "/srv/app/data",
		Env: map[string]string{"LANG": "C", "LEVEL": "debug"}, Pass: []string{"TOKEN", "AWS_*"}, User: "postgres", Group: "70", Autostart: true,
		Ready: &spec.Probe{TCP: "127.0.0.1:5432", Interval: 500 * time.Millisecond, Timeout: 2 * time.Second, Successes: 2, Failures: 5},
		Alive: &spec.Probe{Command: []string{"./ask", "are you there?"}, Interval: 30 * time.Second, Timeout: 5 * time.Second, Successes: 1, Failures: 2},
		Start: spec.Start{Timeout: time.Minute},
		Restart: spec.Restart{
			Policy: spec.OnFailure, Base: 2 * time.Second, Cap: 30 * time.Second, Burst: 10, Window: time.Hour, Reset: 2 * time.Minute, PermanentExitCodes: []int{64, 78},
		},
		Stop: spec.Stop{Signal: "SIGINT", Grace: 30 * time.Second},
		Log:  spec.Log{File: "/srv/logs/db.log", MaxSize: 512 << 10},
		Limits: spec.Limits{
			OpenFiles: new(uint64(1024)), Processes: new(uint64(64)), AddressSpace: new(uint64(1_000_000_000)), FileSize: new(uint64(100 << 20)),
			CoreSize: new(uint64(0)), CPUTime: time.Hour, Nice: new(5),
		},
	}
}

// FuzzParse: no panic; an error has a place and a kind.
func FuzzParse(f *testing.F) {
	for _, dir := range []string{"good", "bad"} {
		paths, _ := filepath.Glob("testdata/" + dir + "/*.yaml")
		for _, path := range paths {
			src, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		file, err := spec.Parse("fuzz.yaml", src)
		if err != nil {
			checkProblems(t, err)
			return
		}
		if len(file.Programs) == 0 || len(spec.Diff(file, file)) > 0 {
			t.Errorf("%+v", file)
		}
	})
}
