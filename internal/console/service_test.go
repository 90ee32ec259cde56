package console

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A history is told in the service's own states, and of actions in what became of
// them (S14).
func TestServiceMoves(t *testing.T) {
	t.Parallel()
	up := lifecycle.ServiceTryingToStart
	var got []string
	for _, row := range ServiceHistory([]pawl.Transition{
		{To: lifecycle.ServiceStopped, Event: "add", Metadata: json.RawMessage(`{"state":"stopped"}`)},
		{From: &[]machine.State{lifecycle.ServiceStopped}[0], To: up, Event: "start", Metadata: json.RawMessage(`{"state":"waiting"}`)},
		{From: &up, To: up, Event: lifecycle.ServiceAct, Metadata: json.RawMessage(`{"state":"waiting","action":{"in_progress":true,"action_name":"start"}}`)},
		{From: &up, To: up, Event: lifecycle.ServiceSettle, Metadata: json.RawMessage(`{"state":"waiting","action":{"failed":true,"kind":"permanent","action_name":"start"}}`)},
		{From: &up, To: up, Event: lifecycle.ServiceSettle, Metadata: json.RawMessage(`{"state":"waiting","action":{"kind":"cancelled","action_name":"start"}}`)},
		{From: &up, To: up, Event: "shift", Metadata: json.RawMessage(`{"state":"backoff","action":{"failed":true,"action_name":"start"}}`)},
		{From: &up, To: up, Event: "shift"},
	}, nil)[1:] {
		got = append(got, row[1])
	}
	want := []string{"stopped", "stopped -> waiting", "start accepted", "start failed", "start cancelled", "waiting -> backoff", "trying_to_start (stays)"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A table on a terminal is no wider than it; elsewhere nothing is left out.
func TestFit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 100)
	rows := func() [][]string { return [][]string{{"A", "NOTE"}, {"four", long}} }
	if got := Fit(rows(), 0)[1][1]; got != long {
		t.Errorf("no terminal: %q", got)
	}
	if got, want := Fit(rows(), 50)[1][1], long[:43]+"…"; got != want {
		t.Errorf("50 columns: %q, want %q", got, want)
	}
	if got, want := Fit(rows(), 5)[1][1], long[:leastNote-1]+"…"; got != want {
		t.Errorf("5 columns: %q, want %q", got, want)
	}
}

// What a program prints, or says of itself, cannot change a terminal, nor show its
// letters in another order (S14).
func TestTerminalIsSpared(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := &Sanitizer{W: &out, Sanitize: func(line string) string { return Sanitize(line, false) }}
	for _, piece := range []string{"\x1b[2Jcl", "ear\r\nnext\x1b]0;ti", "tle\x07\n50%\r100%\n", "end"} {
		if _, err := io.WriteString(w, piece); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil || out.String() != "clear\nnext\n100%\nend\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	s := control.Service{Status: "a\u202eb\x1b[2J\u2028c\x9b"}
	if got := noteOf(&s); strings.ContainsAny(got, "\u202e\x1b\u2028\u009b") {
		t.Errorf("note %q", got)
	}
}

// A service that rests until it is started comes with the command that starts it (S14).
func TestServiceWhyNamesTheStart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		startable bool
		want      string
	}{
		{true, "web  failed: exit code 78 is permanent; start it with: pawl service start web\n"},
		{false, "web  failed: exit code 78 is permanent\n"},
	} {
		var b strings.Builder
		ServiceWhy(&b, &control.Service{ID: "web", State: "failed", Startable: tt.startable, Why: []string{"exit code 78 is permanent"}})
		if diff := cmp.Diff(tt.want, b.String()); diff != "" {
			t.Errorf("startable %v (-want +got):\n%s", tt.startable, diff)
		}
	}
}
