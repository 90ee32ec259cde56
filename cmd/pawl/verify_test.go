package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/signals"
)

// One interruption ends the looking through of a workflow that takes seconds.
func TestVerifyIsInterrupted(t *testing.T) {
	t.Parallel()
	var src strings.Builder
	src.WriteString("name: chain\ninputs: {go: {type: boolean, default: true}}\nsteps:\n  - {id: s0, run: ls}\n")
	for i := range 800 {
		fmt.Fprintf(&src, "  - {id: s%d, run: ls, needs: [s%d], if: \"${{ inputs.go }}\"}\n", i+1, i)
	}
	path := filepath.Join(t.TempDir(), "chain.yaml")
	if err := os.WriteFile(path, []byte(src.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &process{args: []string{"verify", path}, stdout: io.Discard, stderr: io.Discard, getenv: func(string) string { return "" }, signals: signals.New(func() { panic("exit") })}
	p.signals.C <- os.Interrupt
	if code := p.main(); code != codeInterrupted {
		t.Errorf("exit code %d, want %d", code, codeInterrupted)
	}
}
