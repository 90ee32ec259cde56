package main

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/programs/spec"
)

// The file of the most services that one file may have is a valid one.
func TestServices(t *testing.T) {
	t.Parallel()
	f, err := spec.Parse("/many.yaml", services(spec.MaxServices))
	if err != nil || len(f.Programs) != spec.MaxServices {
		t.Error(err)
	}
	if _, err := spec.Parse("/many.yaml", services(spec.MaxServices+1)); err == nil {
		t.Error("one more is valid, too")
	}
}
