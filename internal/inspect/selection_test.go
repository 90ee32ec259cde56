package inspect

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is done to a parent reaches its children; a job that was retried is not
// retried again.
func TestWhatAllLeavesOut(t *testing.T) {
	t.Parallel()
	all := []Candidate{{ID: "c", Parent: "b"}, {ID: "b", Parent: "a"}, {ID: "a"}, {ID: "x", Parent: "gone"}, {ID: "y"}}
	rest := Lineage{"y": true}.Without(WithoutChildren(all))
	if diff := cmp.Diff([]Candidate{{ID: "a"}, {ID: "x", Parent: "gone"}}, rest, cmp.AllowUnexported(Candidate{})); diff != "" {
		t.Error(diff)
	}
}
