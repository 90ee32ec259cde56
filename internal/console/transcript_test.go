package console

import (
	"fmt"
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

func newTestTranscript(b *strings.Builder) *Transcript {
	return NewTranscript(b, func() time.Time { return noon.Add(3 * time.Second) })
}

func TestTranscript(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	script := newTestTranscript(&b)
	for _, v := range stages() {
		script.Show(v)
	}
	if diff := cmp.Diff(told, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// However often the job is looked at, nothing is told twice, and the end is told.
func TestTranscriptWritesOnce(t *testing.T) {
	t.Parallel()
	all := stages()
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		script := newTestTranscript(&b)
		for _, v := range all[:3] {
			for range rapid.IntRange(0, 3).Draw(t, "looks") {
				script.Show(v)
			}
		}
		for range rapid.IntRange(1, 3).Draw(t, "looks at the end") {
			script.Show(all[3])
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
func TestTranscriptSince(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	script := newTestTranscript(&b)
	all := stages()
	script.Since(all[2])
	script.Show(all[2])
	if b.Len() > 0 {
		t.Errorf("told of the past: %s", b.String())
	}
	script.Show(all[3])
	if want := strings.Join(strings.SplitAfter(told, "\n")[3:], ""); b.String() != want {
		t.Errorf("got %s, want %s", b.String(), want)
	}
}

// The pieces of several streams come out as whole lines, each of its own source.
func TestPrefixer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		p := NewPrefixer(&b)
		texts := map[string]string{"load[0]": "one\ntwo\nthree", "load[1]": "\nuno\n\ndos\n"}
		want := map[string][]string{"load[0]": {"one", "two", "three"}, "load[1]": {"", "uno", "", "dos"}}
		for len(texts) > 0 {
			step := rapid.SampledFrom([]string{"load[0]", "load[1]"}).Draw(t, "step")
			text, ok := texts[step]
			if !ok {
				continue
			}
			n := rapid.IntRange(1, len(text)).Draw(t, "bytes")
			p.Write(step, "stdout", 1, text[:n])
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
	p := NewPrefixer(&b)
	for range 5 {
		p.Write("s", "stdout", 1, strings.Repeat("x", maxPartial))
	}
	if len(p.partial) != 0 || b.Len() < 5*maxPartial {
		t.Errorf("%d bytes written, %d lines kept", b.Len(), len(p.partial))
	}
}

// TestTranscriptOfAnEndedJob tells of a job that had ended before the first look once.
func TestTranscriptOfAnEndedJob(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	newTestTranscript(&b).Show(&pawl.JobView{Workflow: "empty", Status: lifecycle.JobCompleted, CreatedAt: after(0), StartedAt: after(0), CompletedAt: after(time.Second)})
	if want := "2026-01-31T12:00:01.000Z empty completed (1.0s)\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// fanned is a job whose step load has so many instances. The first n are complete, and the next runs.
func fanned(total, n int) *pawl.JobView {
	v := &pawl.JobView{Workflow: "nightly", Status: lifecycle.JobRunning, CreatedAt: after(0), StartedAt: after(0)}
	v.Steps = []pawl.StepView{{Key: "load", Status: lifecycle.StepInProgress, Claims: 1, StartedAt: after(0), Instances: &pawl.Instances{Total: total}}}
	for i := range total {
		s := pawl.StepView{Key: fmt.Sprintf("load[%d]", i), Status: lifecycle.StepPending}
		began := time.Duration(i) * time.Second
		if i <= n {
			s.Status, s.Attempts, s.Claims, s.StartedAt = lifecycle.StepInProgress, 1, 1, after(began)
		}
		if i < n {
			s.Status, s.CompletedAt = lifecycle.StepComplete, after(began+time.Second)
		}
		v.Steps = append(v.Steps, s)
	}
	return v
}

// tellFanned returns what is told of a fan-out at each of these numbers of complete instances.
func tellFanned(total int, looks ...int) string {
	var b strings.Builder
	script := newTestTranscript(&b)
	for _, n := range looks {
		v := fanned(total, n)
		if n == total {
			v.Steps[0].Status, v.Steps[0].CompletedAt = lifecycle.StepComplete, after(time.Duration(total)*time.Second)
		}
		script.Show(v)
	}
	return b.String()
}

// TestTranscriptCountsLargeFanOut tells of each tenth of a fan-out once, and of no instance by itself.
func TestTranscriptCountsLargeFanOut(t *testing.T) {
	t.Parallel()
	var looks []int
	for n := range 177 {
		looks = append(looks, n)
	}
	golden(t, "plain-fanout.txt", tellFanned(176, looks...))
	if got, want := strings.Count(tellFanned(176, 0, 5, 90, 91, 176), " of 176 done"), 2; got != want {
		t.Errorf("%d lines of progress, want %d", got, want)
	}
	if got := tellFanned(fewInstances, 0, 1); !strings.Contains(got, " load[0] complete (1.0s)\n") || strings.Contains(got, "done") {
		t.Errorf("of few instances each is told:\n%s", got)
	}
}

// TestTranscriptOfFailuresInLargeFanOut tells of an instance that fails, is tried again or waits for
// somebody, and counts no canceled one as done.
func TestTranscriptOfFailuresInLargeFanOut(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	script := newTestTranscript(&b)
	script.Since(fanned(20, 3))
	v := fanned(20, 3)
	failure := &pawl.Failure{Class: "exit_1", Message: "exit status 1"}
	s := v.Steps[1:]
	s[3].Status, s[3].Error, s[3].CompletedAt = lifecycle.StepPermanentError, failure, after(4*time.Second)
	s[4].Status, s[4].Attempts, s[4].Claims, s[4].StartedAt = lifecycle.StepPending, 1, 1, after(2*time.Second)
	s[4].Error, s[4].NotBefore = failure, after(9*time.Second)
	s[5].Status, s[5].Attempts, s[5].Claims, s[5].StartedAt = lifecycle.StepInProgress, 2, 2, after(5*time.Second)
	s[6].Status, s[6].Attempts, s[6].Claims, s[6].StartedAt, s[6].CompletedAt = lifecycle.StepComplete, 2, 2, after(5*time.Second), after(6*time.Second)
	s[7].Status, s[7].Claims, s[7].StartedAt, s[7].Wait = lifecycle.StepInProgress, 1, after(7*time.Second), &pawl.Wait{Kind: "approval", Prompt: "Load?"}
	s[8].Status, s[8].CompletedAt = lifecycle.StepResolvedManually, after(8*time.Second)
	for i := 9; i < 20; i++ {
		s[i].Status, s[i].CompletedAt = lifecycle.StepCancelled, after(8*time.Second)
	}
	script.Show(v)
	script.Show(v)
	golden(t, "plain-fanout-failures.txt", b.String())
}
