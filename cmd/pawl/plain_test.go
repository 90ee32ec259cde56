package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// stages is a job at four looks: a step that fails and is tried again, and one
// that began and ended between two looks.
func stages() []*pawl.JobView {
	failure := &pawl.Failure{Class: "exit_1", Message: "exit status 1"}
	look := func(v pawl.JobView, steps ...pawl.StepView) *pawl.JobView {
		v.Workflow, v.CreatedAt, v.StartedAt, v.Steps = "nightly", after(0), after(0), steps
		return &v
	}
	return []*pawl.JobView{
		look(pawl.JobView{Status: lifecycle.JobPending},
			pawl.StepView{Key: "one", Status: lifecycle.StepPending}, pawl.StepView{Key: "two", Status: lifecycle.StepPending}),
		look(pawl.JobView{Status: lifecycle.JobRunning},
			pawl.StepView{Key: "one", Status: lifecycle.StepInProgress, Attempts: 1, Claims: 1, StartedAt: after(time.Second)}, pawl.StepView{Key: "two", Status: lifecycle.StepPending}),
		look(pawl.JobView{Status: lifecycle.JobRunning},
			pawl.StepView{Key: "one", Status: lifecycle.StepPending, Attempts: 1, Claims: 1, StartedAt: after(time.Second), NotBefore: after(5 * time.Second), Error: failure},
			pawl.StepView{Key: "two", Status: lifecycle.StepPending}),
		look(pawl.JobView{Status: lifecycle.JobCompleted, CompletedAt: after(8 * time.Second)},
			pawl.StepView{Key: "one", Status: lifecycle.StepComplete, Attempts: 2, Claims: 2, StartedAt: after(5 * time.Second), CompletedAt: after(6 * time.Second)},
			pawl.StepView{Key: "two", Status: lifecycle.StepComplete, Attempts: 1, Claims: 1, StartedAt: after(6 * time.Second), CompletedAt: after(8 * time.Second)}),
	}
}

const told = `2026-01-31T12:00:00.000Z nightly pending
2026-01-31T12:00:01.000Z one in_progress
2026-01-31T12:00:03.000Z one pending (attempt 2 at 2026-01-31T12:00:05.000Z: exit status 1)
2026-01-31T12:00:05.000Z one in_progress (attempt 2)
2026-01-31T12:00:06.000Z one complete (1.0s)
2026-01-31T12:00:06.000Z two in_progress
2026-01-31T12:00:08.000Z two complete (2.0s)
2026-01-31T12:00:08.000Z nightly completed (8.0s)
`

func newTestTeller(b *strings.Builder) *teller {
	return newTeller(b, func() time.Time { return noon.Add(3 * time.Second) })
}

func TestTeller(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	teller := newTestTeller(&b)
	for _, v := range stages() {
		teller.show(v)
	}
	if diff := cmp.Diff(told, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// However often the job is looked at, nothing is told twice, and the end is told.
func TestTellerTellsOnce(t *testing.T) {
	t.Parallel()
	all := stages()
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		teller := newTestTeller(&b)
		for _, v := range all[:3] {
			for range rapid.IntRange(0, 3).Draw(t, "looks") {
				teller.show(v)
			}
		}
		for range rapid.IntRange(1, 3).Draw(t, "looks at the end") {
			teller.show(all[3])
		}
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		seen := map[string]bool{}
		for _, l := range lines {
			if seen[l] {
				t.Fatalf("told twice: %s", l)
			}
			seen[l] = true
		}
		if !strings.HasSuffix(lines[len(lines)-1], "nightly completed (8.0s)") {
			t.Fatalf("the last line is %s", lines[len(lines)-1])
		}
	})
}

// A job that is continued does not tell its past.
func TestTellerSince(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	teller := newTestTeller(&b)
	all := stages()
	teller.since(all[2])
	teller.show(all[2])
	if b.Len() > 0 {
		t.Errorf("told of the past: %s", b.String())
	}
	teller.show(all[3])
	if want := strings.Join(strings.SplitAfter(told, "\n")[3:], ""); b.String() != want {
		t.Errorf("got %s, want %s", b.String(), want)
	}
}

// The pieces of several streams come out as whole lines, each of its own source.
func TestPrefixer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		p := newPrefixer(&b)
		texts := map[string]string{"load[0]": "one\ntwo\nthree", "load[1]": "\nuno\n\ndos\n"}
		want := map[string][]string{"load[0]": {"one", "two", "three"}, "load[1]": {"", "uno", "", "dos"}}
		for len(texts) > 0 {
			step := rapid.SampledFrom([]string{"load[0]", "load[1]"}).Draw(t, "step")
			text, ok := texts[step]
			if !ok {
				continue
			}
			n := rapid.IntRange(1, len(text)).Draw(t, "bytes")
			p.write(step, "stdout", 1, text[:n])
			if texts[step] = text[n:]; text[n:] == "" {
				delete(texts, step)
			}
		}
		p.flush()
		got := map[string][]string{}
		for _, line := range strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n") {
			step, text, ok := strings.Cut(line, " | ")
			if !ok {
				t.Fatalf("a torn line: %q", line)
			}
			got[step] = append(got[step], text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// A line without an end does not grow for ever.
func TestPrefixerBoundsLines(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	p := newPrefixer(&b)
	for range 5 {
		p.write("s", "stdout", 1, strings.Repeat("x", maxPartial))
	}
	if len(p.partial) != 0 || b.Len() < 5*maxPartial {
		t.Errorf("%d bytes written, %d lines kept", b.Len(), len(p.partial))
	}
}

// TestTellerOfWhatIsOver tells of a job that had ended before the first look once.
func TestTellerOfWhatIsOver(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	newTestTeller(&b).show(&pawl.JobView{Workflow: "empty", Status: lifecycle.JobCompleted, CreatedAt: after(0), StartedAt: after(0), CompletedAt: after(time.Second)})
	if want := "2026-01-31T12:00:01.000Z empty completed (1.0s)\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
