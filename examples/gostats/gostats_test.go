package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tree makes a Go tree of the files, by their path below its root.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		path = filepath.Join(root, filepath.FromSlash(path))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func small(t *testing.T) string {
	return tree(t, map[string]string{
		"VERSION":              "go1.99.1\ntime 2030-01-01T00:00:00Z\n",
		"src/a/a.go":           "package a\n\n// F is.\nfunc F() {}\n",
		"src/a/a_test.go":      "package a\n\nfunc TestF() {}\n",
		"src/a/gen.go":         "//go:build ignore\n\npackage main\n\nfunc main() {}\n",
		"src/a/internal/i.go":  "package internal\n",
		"src/a/testdata/t.go":  "package t\n",
		"src/b/c/c.go":         "package c\n\nconst X = 1\n",
		"src/b/c/c_plan9.go":   "package c\n\nconst Y = 1\n",
		"src/b/c/c_windows.go": "package c\n\nconst Y = 1\n",
		"src/builtin/b.go":     "package builtin\n",
		"src/cmd/go/main.go":   "package main\n",
		"src/d/only_test.go":   "package d\n",
		"src/vendor/v/v.go":    "package v\n",
		"src/.e/e.go":          "package e\n",
	})
}

// try runs a subcommand with the environment and returns what it printed.
func try(env map[string]string, args ...string) (string, error) {
	var out strings.Builder
	err := run(call{args, func(name string) string { return env[name] }, &out})
	return out.String(), err
}

func must(t *testing.T, env map[string]string, args ...string) string {
	t.Helper()
	out, err := try(env, args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return out
}

func TestListLeavesOutWhatIsNoPackage(t *testing.T) {
	t.Parallel()
	if got, want := must(t, nil, "list", small(t)), "a\nb/c\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCountIsOfThisPlatformWithoutTests(t *testing.T) {
	t.Parallel()
	root := small(t)
	for pkg, want := range map[string]packageCount{
		"a":   {"a", numbers{Files: 1, Lines: 4, Code: 2, Comment: 1, Blank: 1, Funcs: 1, Exported: 1}},
		"b/c": {"b/c", numbers{Files: 1, Lines: 3, Code: 2, Blank: 1, Consts: 1, Exported: 1}},
	} {
		var got packageCount
		if err := json.Unmarshal([]byte(must(t, nil, "count", "-pace", "1ms", root, pkg)), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(packageCount{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", pkg, diff)
		}
	}
}

// (T6) the first two attempts are worth another one, the third works.
func TestReleaseFailsTwice(t *testing.T) {
	t.Parallel()
	root := small(t)
	for attempt, want := range map[string]int{"1": exitTemporary, "2": exitTemporary, "3": 0, "4": 0, "": 0, "x": exitUsage} {
		out, err := try(map[string]string{"PAWL_ATTEMPT": attempt}, "release", root)
		if got := code(err); got != want {
			t.Errorf("attempt %q: exit code %d (%v), want %d", attempt, got, err, want)
		}
		if want == 0 && out != "go1.99.1\n" {
			t.Errorf("attempt %q: got %q", attempt, out)
		}
		if want == exitTemporary && !strings.Contains(err.Error(), "on purpose") {
			t.Errorf("attempt %q does not say that it fails on purpose: %v", attempt, err)
		}
	}
	if got := must(t, nil, "release", t.TempDir()); got != "go (no release)\n" {
		t.Errorf("without a VERSION file: got %q", got)
	}
}

func code(err error) int {
	if err == nil {
		return 0
	}
	return exitCode(err)
}

// (T6) faults of the caller are not worth another attempt.
func TestUsage(t *testing.T) {
	t.Parallel()
	root := small(t)
	for _, args := range [][]string{
		{}, {"sing"}, {"list"}, {"list", filepath.Join(root, "none")}, {"list", filepath.Join(root, "src", "a")},
		{"count", root}, {"count", "-pace", "soon", root, "a"}, {"count", root, "none"}, {"count", root, "d"}, {"release"},
		{"total", "-top", "0"}, {"total", "-top", "51"}, {"total", "-top", "1", "more"}, {"total"}, {"report"}, {"chart", "out"},
	} {
		if out, err := try(nil, args...); code(err) != exitUsage || out != "" {
			t.Errorf("%q: exit code %d (%v) and %q, want %d and nothing", args, code(err), err, out, exitUsage)
		}
	}
}

func TestSteps(t *testing.T) {
	t.Parallel()
	root, out := small(t), filepath.Join(t.TempDir(), "new", "out")
	needs := map[string]any{"release": "go<1>", "count": []json.RawMessage{
		json.RawMessage(must(t, nil, "count", root, "b/c")), json.RawMessage(must(t, nil, "count", root, "a")),
	}}
	summary := must(t, input(t, needs), "total", "-top", "1")
	if !strings.Contains(summary, `"packages":2,"declarations":2,"total":{"files":2,"lines":7,`) ||
		!strings.Contains(summary, `"top":[{"package":"a",`) || strings.Contains(summary, `"package":"b/c"`) {
		t.Errorf("got %s", summary)
	}
	env := input(t, map[string]any{"total": json.RawMessage(summary)})
	for range 2 { // every step may be repeated
		for command, name := range map[string]string{"report": reportName, "chart": chartName} {
			if got, want := must(t, env, command, out), filepath.Join(out, name)+"\n"; got != want {
				t.Errorf("%s printed %q, want %q", command, got, want)
			}
		}
	}
	if got, want := names(t, out), []string{chartName, reportName}; !slices.Equal(got, want) {
		t.Errorf("the folder holds %q, want %q", got, want)
	}
	report, err := os.ReadFile(filepath.Join(out, reportName))
	if err != nil || !strings.Contains(string(report), "go<1> for ") || !strings.Contains(string(report), "2 packages, 7 lines, 2 declarations.") {
		t.Errorf("the report reads (%v):\n%s", err, report)
	}
}

// input makes the environment of a step whose needs have put that out.
func input(t *testing.T, needs any) map[string]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "input.json")
	raw, err := json.Marshal(map[string]any{"needs": needs})
	if err := errors.Join(err, os.WriteFile(path, raw, 0o600)); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"PAWL_INPUT": path}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// What cannot be replaced leaves nothing behind.
func TestReplaceCleansUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := replace(path, []byte("x")); err == nil {
		t.Error("a folder was replaced by a file")
	}
	if got := names(t, dir); !slices.Equal(got, []string{"taken"}) {
		t.Errorf("left behind: %q", got)
	}
}

// A chart is well-formed, has a bar for each package, and nothing of it is
// outside of its ground.
func TestChart(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 20, maxTop} {
		s := summary{Release: `"go" <1> & more`}
		for i := range n {
			s.Top = append(s.Top, packageCount{"p/" + strconv.Itoa(i), numbers{Lines: 100_000 - i, Code: 60_000, Comment: 30_000 - i, Blank: 10_000}})
		}
		counts := map[string]int{}
		var width, height int
		d := xml.NewDecoder(strings.NewReader(string(chartOf(s))))
		for {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%d packages: %v", n, err)
			}
			e, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			counts[e.Name.Local]++
			if e.Name.Local == "svg" {
				width, height = number(e, "width"), number(e, "height")
			}
			if right, low := number(e, "x")+number(e, "width"), number(e, "y")+number(e, "height"); right > width || low > height {
				t.Errorf("%d packages: %s reaches to %d,%d of %d,%d", n, e.Name.Local, right, low, width, height)
			}
		}
		if got, want := counts["rect"], 1+len(parts)+len(parts)*n; got != want {
			t.Errorf("%d packages: %d rectangles, want %d", n, got, want)
		}
		if counts["g"] != n {
			t.Errorf("%d packages: %d bars", n, counts["g"])
		}
	}
}

func number(e xml.StartElement, name string) int {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			n, _ := strconv.Atoi(a.Value)
			return n
		}
	}
	return 0
}

func TestAxisFor(t *testing.T) {
	t.Parallel()
	for most, want := range map[int]axis{
		0: {1, 1}, 1: {1, 1}, 8: {1, 8}, 9: {2, 10}, 16: {2, 16}, 17: {5, 20}, 40: {5, 40}, 41: {10, 50}, 88_455: {20_000, 100_000},
	} {
		if got := axisFor(most); got != want {
			t.Errorf("axisFor(%d) = %v, want %v", most, got, want)
		}
	}
}

func TestGrouped(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("grouped(%d) = %q, want %q", n, got, want)
		}
	}
}
