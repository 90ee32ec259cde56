package controller

import (
	"testing"
	"time"
)

// TestRunIDs: the ids of runs are ULIDs, and later ones are greater.
func TestRunIDs(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_700_000_000_000)
	one, other := NewID(now), NewID(now.Add(time.Millisecond))
	if !IsID(one) || one[:10] != "01HF7YAT00" || other <= one {
		t.Error(one, other)
	}
	for _, bad := range []string{"", "01HF7YAT00", "81HF7YAT000000000000000000", "01HF7YAT0000000000000000OI", one + "0"} {
		if IsID(bad) {
			t.Errorf("%q is an id", bad)
		}
	}
}
