package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// noon is when everything in these tests begins.
var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) pawl.Timestamp { return pawl.Timestamp(pawl.Micros(noon.Add(d))) }

// busy is a job in the middle of everything that can happen to steps.
func busy() *pawl.JobView {
	failure := &pawl.Failure{Class: "exit_2", Message: "exit status 2: no such table"}
	v := &pawl.JobView{
		ID: "j_019a3c7e5b7a7c1d8000000040a1b2c3", Workflow: "nightly", Status: lifecycle.JobRunning, Workspace: "default",
		CreatedAt: after(0), StartedAt: after(0), Inputs: json.RawMessage(`{}`),
		Steps: []pawl.StepView{
			{Key: "extract", Status: lifecycle.StepComplete, Attempts: 1, Claims: 1, StartedAt: after(0), CompletedAt: after(1300 * time.Millisecond)},
			{Key: "count", Status: lifecycle.StepInProgress, StartedAt: after(2 * time.Second), Instances: &pawl.Instances{Total: 178, Made: 45, Live: 8}},
			{Key: "flaky", Status: lifecycle.StepPending, Attempts: 1, Claims: 1, NotBefore: after(9 * time.Second), Error: failure},
			{Key: "again", Status: lifecycle.StepInProgress, Attempts: 2, Claims: 2, StartedAt: after(4 * time.Second), Error: failure},
			{Key: "queue", Status: lifecycle.StepEnqueued},
			{Key: "broken", Status: lifecycle.StepPermanentError, Attempts: 3, Claims: 3, StartedAt: after(0), CompletedAt: after(90 * time.Second), Error: failure},
			{Key: "passed", Status: lifecycle.StepSkipped},
			{Key: "by_hand", Status: lifecycle.StepResolvedManually},
			{Key: "later", Status: lifecycle.StepPending},
		},
	}
	for i, status := range []machine.State{lifecycle.StepComplete, lifecycle.StepInProgress, lifecycle.StepInProgress, lifecycle.StepPermanentError, lifecycle.StepInProgress} {
		v.Steps = append(v.Steps, pawl.StepView{Key: fmt.Sprintf("count[%d]", i), Status: status, Attempts: 1, Claims: 1, StartedAt: after(3 * time.Second)})
	}
	return v
}

func TestDrawTree(t *testing.T) {
	t.Parallel()
	now := noon.Add(5 * time.Second)
	for name, f := range map[string]Frame{
		"plain":    {Now: now},
		"coloured": {Now: now, Paint: true, width: 80, height: 24, spin: 3},
		"narrow":   {Now: now, Paint: true, width: 24, height: 24},
		"low":      {Now: now, width: 80, height: 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Join(drawTree(busy(), f), "\n") + "\n"
			text = clockTime.ReplaceAllString(text, "at HH:MM:SS") // of the zone of whoever looks
			golden(t, "tree-"+name+".txt", strings.ReplaceAll(text, "\x1b", "ESC"))
		})
	}
}

var clockTime = regexp.MustCompile(`at \d\d:\d\d:\d\d`)

// A drawing that is replaced in place must never be wider or higher than the
// terminal, or the cursor would come back to the wrong line.
func TestDrawTreeFits(t *testing.T) {
	t.Parallel()
	escapes := regexp.MustCompile("\x1b\\[[0-9;]*m")
	rapid.Check(t, func(t *rapid.T) {
		f := Frame{Now: noon, Paint: rapid.Bool().Draw(t, "paint"), width: rapid.IntRange(5, 200).Draw(t, "width"), height: rapid.IntRange(4, 60).Draw(t, "height")}
		v := busy()
		for i := range rapid.IntRange(0, 80).Draw(t, "steps") {
			s := pawl.StepView{Key: fmt.Sprintf("more%d", i), Status: rapid.SampledFrom(lifecycle.Step.States).Draw(t, "state")}
			if rapid.Bool().Draw(t, "failed") {
				s.Error = &pawl.Failure{Message: rapid.String().Draw(t, "message")}
			}
			v.Steps = append(v.Steps, s)
		}
		lines := drawTree(v, f)
		if len(lines) >= f.height {
			t.Fatalf("%d lines on a terminal of %d", len(lines), f.height)
		}
		for _, l := range lines {
			if n := utf8.RuneCountInString(escapes.ReplaceAllString(l, "")); n > f.width {
				t.Fatalf("%d characters on a terminal of %d: %q", n, f.width, l)
			}
			if strings.ContainsAny(l, "\n\r") || !f.Paint && strings.Contains(l, "\x1b") {
				t.Fatalf("%q moves the cursor", l)
			}
		}
	})
}

// What a step's error says cannot change the terminal.
func TestPrintable(t *testing.T) {
	t.Parallel()
	if got := Printable("a\x1b[2Jb\nc\u009b1md\te"); got != "a\uFFFD[2Jb\uFFFDc\uFFFD1md\te" {
		t.Errorf("got %q", got)
	}
}

// Nor can what somebody said that a job is for, nor does it look like another line.
func TestJobSanitizesTheDescription(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := Job(&b, &pawl.JobView{Description: "a\x1b[31mb\nstarted now"}, Frame{}); err != nil {
		t.Fatal(err)
	}
	if want := "description  a\uFFFD[31mb started now\n"; !strings.Contains(b.String(), want) {
		t.Errorf("got %q, want %q in it", b.String(), want)
	}
}

// shared lets a test read what another goroutine writes.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func TestLiveReplacesItsLastDrawing(t *testing.T) {
	t.Parallel()
	var w shared
	l := NewLive(&w, Screen{Terminal: true, Size: func() (int, int) { return 80, 24 }}, Frame{})
	v := busy()
	v.Steps = v.Steps[:2]
	l.Show(v)
	done := *v
	done.Status, done.CompletedAt = lifecycle.JobCompleted, after(time.Minute)
	l.Show(&done)
	l.Close()
	text := w.b.String()
	if !strings.Contains(text, "\x1b[3A\r\x1b[2Knightly") {
		t.Errorf("the second drawing does not begin where the first did: %q", text)
	}
	if !strings.HasSuffix(text, "\n\x1b[J") || !strings.Contains(text, "COMPLETED  1m00s") {
		t.Errorf("the last drawing is not of the end: %q", text)
	}
}

// A log line comes out above the drawing, which is whole below it.
func TestLogLinesAboveTheDrawing(t *testing.T) {
	t.Parallel()
	var w shared
	logs := &LogWriter{W: &w}
	d := NewDrawing(NewLive(&w, Screen{Terminal: true, Size: func() (int, int) { return 80, 24 }}, Frame{}), logs)
	v := busy()
	v.Steps = v.Steps[:1]
	d.Show(v)
	fmt.Fprintln(logs, "level=WARN msg=trouble")
	d.Close()
	fmt.Fprintln(logs, "level=WARN msg=later")
	if text := w.b.String(); !strings.Contains(text, "\x1b[2A\r\x1b[Jlevel=WARN msg=trouble\n\r\x1b[2Knightly") {
		t.Errorf("the line is not above a new drawing: %q", text)
	} else if !strings.HasSuffix(text, "\x1b[Jlevel=WARN msg=later\n") {
		t.Errorf("after the drawing the line is not plain: %q", text)
	}
}
