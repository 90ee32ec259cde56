package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// K2: the committed pages are those of the tables.
func TestCommitted(t *testing.T) {
	t.Parallel()
	got := read(t, filepath.Join("..", "..", "..", folder))
	if diff := cmp.Diff(pages(lifecycle.All()), got); diff != "" {
		t.Errorf("%s differs from the tables; run: go run ./internal/lab/machinedoc\n(-want +committed):\n%s", folder, diff)
	}
}

// A page of a machine that is gone goes too, what is not a page stays.
func TestWrite(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "machines")
	if err := write(dir, map[string]string{"old.md": "old", "README.md": "one"}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "drawing.svg"), []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := write(dir, map[string]string{"README.md": "two", "new.md": "new"}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"README.md": "two", "new.md": "new", "drawing.svg": "kept"}
	if diff := cmp.Diff(want, read(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(b)
	}
	return files
}

// K2, K4: a page has the diagram, the rows and the matrix.
func TestPage(t *testing.T) {
	t.Parallel()
	for _, m := range lifecycle.All() {
		text := page(m)
		for _, part := range []string{m.Doc, "```mermaid\n" + m.Mermaid() + "```\n", m.Markdown(), m.Matrix()} {
			if !strings.Contains(text, part) {
				t.Errorf("page of %s lacks:\n%s", m.Name, part)
			}
		}
	}
}

func TestEnds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		m    *machine.Machine
		want string
	}{
		{&machine.Machine{Ends: []machine.State{"a", "b"}}, "a, b"},
		{&machine.Machine{Ends: []machine.State{"a"}, Resident: true}, "a (resident)"},
		{&machine.Machine{Resident: true}, "none (resident)"},
	} {
		if got := ends(tt.m); got != tt.want {
			t.Errorf("ends = %q, want %q", got, tt.want)
		}
	}
}
