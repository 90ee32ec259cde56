package api

import (
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/remote"
)

// TestSince: what a client says came with a later version is an operation of the table.
func TestSince(t *testing.T) {
	t.Parallel()
	all := described().operations()
	for id, version := range remote.Since {
		if version == "" || !slices.ContainsFunc(all, func(o operation) bool { return o.id == id }) {
			t.Errorf("%s, since %q: want an operation, and a version", id, version)
		}
	}
}
