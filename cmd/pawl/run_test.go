package main

import (
	"fmt"
	"io"
	"testing"

	"github.com/pawl-dev/pawl/internal/console"
)

func TestColours(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		terminal bool
		noColor  string
		want     bool
	}{
		{"on a terminal", true, "", true},
		{"NO_COLOR", true, "1", false},
		{"elsewhere", false, "", false},
	} {
		p := &process{screen: console.Screen{Terminal: tt.terminal}, getenv: func(string) string { return tt.noColor }}
		if got := p.colours(); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestFollowerOfShape(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		terminal bool
		shape    shape
		want     string
	}{
		{"terminal", true, shape{form: formText}, "console.Drawing"},
		{"terminal, json", true, shape{form: formJSON}, "console.Drawing"},
		{"terminal, verbose", true, shape{form: formText, verbose: true}, "*console.Transcript"},
		{"elsewhere", false, shape{form: formText}, "*console.Transcript"},
		{"quiet", true, shape{form: formQuiet}, "console.Silent"},
	} {
		a := &app{logs: &console.LogWriter{W: io.Discard}, process: &process{stderr: io.Discard, getenv: func(string) string { return "" },
			screen: console.Screen{Terminal: tt.terminal, Size: func() (int, int) { return 80, 24 }}}}
		f := a.follower(tt.shape)
		f.Close()
		if got := fmt.Sprintf("%T", f); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
