package main

import (
	"testing"

	"github.com/pawl-dev/pawl/program"
)

// The file of the most services that one file may have is a valid one.
func TestServices(t *testing.T) {
	t.Parallel()
	f, err := program.Parse("/many.yaml", services(program.MaxServices))
	if err != nil || len(f.Programs) != program.MaxServices {
		t.Error(err)
	}
	if _, err := program.Parse("/many.yaml", services(program.MaxServices+1)); err == nil {
		t.Error("one more is valid, too")
	}
}
