package console

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestConfirm(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]bool{"y\n": true, " YES \n": true, "n\n": false, "\n": false, "": false, "y": false, "yesterday\n": false} {
		var out strings.Builder
		got, err := Confirm(t.Context(), strings.NewReader(typed), &out, "cancel 3 jobs")
		if got != want || err != nil || out.String() != "cancel 3 jobs? [y/N] " {
			t.Errorf("%q: %v, %v, asked %q: want %v", typed, got, err, out.String(), want)
		}
	}
}

// TestConfirmIsInterrupted: an end of the context ends the wait for an answer.
func TestConfirmIsInterrupted(t *testing.T) {
	t.Parallel()
	in, typed := io.Pipe()
	defer typed.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ok, err := Confirm(ctx, in, io.Discard, "cancel 3 jobs"); ok || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v: want no, and why", ok, err)
	}
}
