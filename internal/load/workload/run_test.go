//go:build linux

package workload

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/load/spec"
)

// TestEveryKind: each kind of operation does its work, alone and on files that come and go, and
// everything is cleaned up after that (L9).
func TestEveryKind(t *testing.T) {
	t.Parallel()
	for _, kind := range spec.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			job := newJob(t, `
name: kinds
files: [{name: data, count: 8, size: 64KiB, tree: {width: 2, depth: 2}}]
mix: [{operation: `+string(kind)+`, files: data}]
jobs: 2
count: 500
`)
			_, f := perform(t, job)
			if f.GetError() != nil {
				t.Fatal(f.GetError())
			}
			if n, _, _ := total(t, f, string(kind)); n != 500 {
				t.Errorf("%d operations: want 500; %v", n, f)
			}
		})
	}
}
