package inspect

import (
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
)

func TestIsOf(t *testing.T) {
	t.Parallel()
	moves := []string{"", "load", "load[3]", "loads", "job2"}
	for step, want := range map[string][]string{
		"":        moves,
		OfJob:     {""},
		"load":    {"load", "load[3]"},
		"load[3]": {"load[3]"},
		"lo":      nil,
	} {
		var got []string
		for _, of := range moves {
			if isOf(&pawl.Transition{Step: of}, step) {
				got = append(got, of)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", step, got, want)
		}
	}
}
