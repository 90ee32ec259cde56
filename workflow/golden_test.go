package workflow_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/workflow"
)

var update = flag.Bool("update", false, "rewrite the expected errors in testdata/bad")

// TestBadFiles holds every file of testdata/bad against the exact text of its
// errors (T12).
func TestBadFiles(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(paths) < 105 {
		t.Fatalf("found %d files: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			t.Parallel()
			d, err := parseFile(path)
			if err == nil || d != nil {
				t.Fatal("the file was accepted")
			}
			checkProblems(t, err)
			golden(t, strings.TrimSuffix(path, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

// parseFile reads a workflow file; those of its children are known by their
// place beside it.
func parseFile(path string) (*workflow.Definition, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return workflow.ParseWith(filepath.Base(path), src, beside(filepath.Dir(path)))
}

// beside opens files by their place in dir.
func beside(dir string) workflow.Open {
	return func(from, path string) (string, []byte, error) {
		known := filepath.ToSlash(filepath.Join(filepath.Dir(from), path))
		src, err := os.ReadFile(filepath.Join(dir, known))
		if err != nil {
			err = fmt.Errorf("there is no file %s", known)
		}
		return known, src, err
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

// checkProblems fails unless err is a list of problems that have places, file by
// file in order, and is of kind Invalid.
func checkProblems(t *testing.T, err error) {
	t.Helper()
	var problems workflow.Problems
	if !errors.As(err, &problems) || len(problems) == 0 {
		t.Fatalf("%T is not a list of problems: %v", err, err)
	}
	if pawl.KindOf(err) != pawl.Invalid {
		t.Errorf("kind of the error is %d, want Invalid", pawl.KindOf(err))
	}
	last := workflow.Problem{}
	for _, p := range problems {
		if p.Message == "" {
			t.Errorf("a problem says nothing: %+v", p)
		}
		if (p.Line < 1 || p.Column < 1) && !strings.Contains(p.Message, "the file has more than") {
			t.Errorf("a problem has no place: %+v", p)
		}
		if p.File != last.File {
			last = workflow.Problem{File: p.File}
		}
		if p.Line < last.Line || p.Line == last.Line && p.Column < last.Column {
			t.Errorf("problems are not in the order of the file: %v after %v", p, last)
		}
		last = p
	}
}
