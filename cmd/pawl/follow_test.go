package main

import (
	"fmt"
	"io"
	"testing"
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
		p := &process{screen: screen{terminal: tt.terminal}, getenv: func(string) string { return tt.noColor }}
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
		{"terminal", true, shape{form: formText}, "main.drawing"},
		{"terminal, json", true, shape{form: formJSON}, "main.drawing"},
		{"terminal, verbose", true, shape{form: formText, verbose: true}, "*main.teller"},
		{"elsewhere", false, shape{form: formText}, "*main.teller"},
		{"quiet", true, shape{form: formQuiet}, "main.silent"},
	} {
		a := &app{logs: &spout{w: io.Discard}, process: &process{stderr: io.Discard, getenv: func(string) string { return "" },
			screen: screen{terminal: tt.terminal, size: func() (int, int) { return 80, 24 }}}}
		f := a.follower(tt.shape)
		f.close()
		if got := fmt.Sprintf("%T", f); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
