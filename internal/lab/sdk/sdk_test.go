package sdk

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOutcomes: what a handler returns or raises is what becomes of its step (T6, T8).
func TestOutcomes(t *testing.T) {
	each(t, func(t *testing.T, s *site, l *Language) {
		s.worker(l)
		quick := "retry: {max_attempts: 3, base: 10ms, jitter: none}"
		fault := map[string]string{"python": "ZeroDivisionError", "node": "RangeError"}[l.Name]
		for _, test := range []struct {
			name, handler, with, more string
			status, output, class     string
			attempts                  int
		}{
			{"a value", "echo", "{n: 12345678901, l: [1.5, null, ü]}", "", "COMPLETED",
				`{"by":"` + l.Name + `","inputs":{},"item":null,"needs":{},"with":{"l":[1.5,null,"ü"],"n":12345678901}}`, "", 1},
			{"retried", "flaky", "{}", quick, "COMPLETED", `3`, "", 3},
			{"attempts used up", "flaky", "{}", "retry: {max_attempts: 2, base: 10ms}", "FAILED", ``, "early", 2},
			{"permanent", "broken", "{}", quick, "FAILED", ``, "broken", 1},
			{"an exception", "boom", "{}", quick, "FAILED", ``, fault, 3},
			{"typed", "typed", "{item: nut, count: 3}", quick, "COMPLETED", `"3 x nut"`, "", 1},
			{"of another type", "typed", "{item: 7}", quick, "FAILED", ``, "invalid_input", 1},
			{"an unknown field", "typed", "{item: nut, size: 4}", quick, "FAILED", ``, "invalid_input", 1},
			{"snoozed", "snoozed", "{}", "retry: {max_attempts: 1}", "COMPLETED", `[2,1]`, "", 1},
			{"no JSON", "unprintable", "{}", quick, "FAILED", ``, "invalid_output", 1},
			{"too large", "huge", "{}", quick, "FAILED", ``, "output_too_large", 1},
			{"too late", "slow", s.with(60), "timeout: 200ms, retry: {max_attempts: 1}", "FAILED", ``, "timeout", 1},
			{"too late, async", "gentle", s.with(60), "timeout: 200ms, retry: {max_attempts: 1}", "FAILED", ``, "timeout", 1},
		} {
			var more []string
			if test.more != "" {
				more = append(more, test.more)
			}
			j := s.ended(s.one(test.handler, test.with, more...), test.status)
			got := []any{string(j.Output), "", j.Steps[0].Attempts}
			if j.Error != nil {
				got[0], got[1] = "", j.Error.Class
			}
			if diff := cmp.Diff([]any{test.output, test.class, test.attempts}, got); diff != "" {
				t.Errorf("%s (-want +got)\n%s%+v", test.name, diff, j.Error)
			}
		}
		if s.noted("timeout") != 2 {
			t.Errorf("the handlers were not told that their time is over: %v", s.notes())
		}
	})
}

// TestBothInOneWorkflow: the steps of one job are run by workers in Python and JavaScript, and
// each gets what the other has returned (T8, T11).
func TestBothInOneWorkflow(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server()
	for _, l := range languages {
		s.worker(l, "--prefix", l.Name+".")
	}
	j := s.ended(s.submit(`
steps:
  - {id: first, handler: python.echo, with: {n: 1}}
  - {id: wide, needs: [first], foreach: "${{ [1, 2, 3, 4, 5, 6, 7, 8] }}", handler: node.echo, with: "${{ steps.first.output.by }}"}
  - {id: last, needs: [wide], handler: python.echo, with: "${{ steps.wide.output[7] }}"}
output: ["${{ steps.last.output.by }}", "${{ steps.last.output.with.by }}", "${{ steps.last.output.with.with }}", "${{ steps.last.output.with.item }}"]
`), "COMPLETED")
	if want := `["python","node","python",8]`; string(j.Output) != want {
		t.Errorf("output %s, want %s", j.Output, want)
	}
}

// TestLogs: what a handler prints is in the log of its step, up to 1 MiB of a stream, and is
// there when the step has ended (T8).
func TestLogs(t *testing.T) {
	each(t, func(t *testing.T, s *site, l *Language) {
		s.worker(l)
		type line struct{ Stream, Text string }
		read := func(id string) (stdout, stderr, own string) {
			texts := map[string]string{}
			for cursor := ""; ; {
				var page struct {
					Items []line
					Next  string
				}
				s.call("GET", "/api/jobs/"+id+"/logs?limit=100"+cursor, nil, &page)
				for _, l := range page.Items {
					texts[l.Stream] += l.Text
				}
				if page.Next == "" {
					return texts["stdout"], texts["stderr"], texts["pawl"]
				}
				cursor = "&cursor=" + page.Next
			}
		}
		id := s.one("talk", "{}")
		s.ended(id, "COMPLETED")
		if out, err, own := read(id); out != "to stdout\n" || err != "to stderr, ü\nby logging\n" || own != "" {
			t.Errorf("%q, %q, %q", out, err, own)
		}
		id = s.one("flood", "{}")
		s.ended(id, "COMPLETED")
		if out, _, own := read(id); len(out) != 1<<20 || own != "stdout: 180224 bytes more were dropped\n" {
			t.Errorf("%d bytes are kept, want %d; %q", len(out), 1<<20, own)
		}
	})
}

// TestCancel: the handlers of a canceled job are told, also those that are async, and its steps
// are canceled (T13).
func TestCancel(t *testing.T) {
	each(t, func(t *testing.T, s *site, l *Language) {
		s.worker(l)
		id := s.submit(fmt.Sprintf("steps: [{id: a, handler: slow, with: %s}, {id: b, handler: gentle, with: %[1]s}]\n", s.with(60)))
		s.waitFor("begin", 2)
		s.call("POST", "/api/jobs/"+id+"/cancel", map[string]any{"reason": "enough"}, nil)
		s.waitFor("canceled", 2)
		for _, step := range s.ended(id, "CANCELED").Steps {
			if step.Status != "cancelled" {
				t.Errorf("step %s is %s", step.Key, step.Status)
			}
		}
	})
}

// TestDrain: after SIGTERM a worker finishes what runs, takes nothing more, and ends its record;
// with a limit, or after a second signal, steps that run are interrupted, and lose no attempt (J1).
func TestDrain(t *testing.T) {
	each(t, func(t *testing.T, s *site, l *Language) {
		w := s.worker(l, "--capacity", "1")
		first, second := s.one("slow", s.with(1)), s.one("slow", s.with(0))
		s.waitFor("begin", 1)
		w.signal(syscall.SIGTERM)
		w.ends(0)
		if s.ended(first, "COMPLETED"); s.job(second).Steps[0].Claims != 0 || s.noted("end") != 1 {
			t.Errorf("it has not finished what ran, or has begun another: %v", s.notes())
		}
		s.ends(w, "COMPLETED")

		third := s.one("slow", s.with(60))
		hasty := s.worker(l, "--drain-timeout", "0.1")
		s.waitFor("begin", 3)
		hasty.signal(syscall.SIGTERM)
		hasty.ends(0)
		w = s.worker(l)
		s.waitFor("begin", 4)
		w.signal(syscall.SIGTERM)
		w.signal(syscall.SIGINT)
		w.ends(0)
		if step := s.job(third).Steps[0]; step.Attempts != 0 || step.Claims != 2 || s.noted("interrupted") != 2 {
			t.Errorf("after two interruptions: %+v, %v", step, s.notes())
		}
		s.ended(second, "COMPLETED")
	})
}

// ends checks how the record of a worker has ended.
func (s *site) ends(w *process, state string) {
	s.t.Helper()
	var record struct {
		Status string `json:"status"`
	}
	s.call("GET", "/api/workers/"+w.id(), nil, &record)
	if record.Status != state {
		s.t.Errorf("the worker is %s, want %s", record.Status, state)
	}
}

// id returns the id under which a worker has registered last.
func (p *process) id() string {
	text := p.log.String()
	text = text[strings.LastIndex(text, "worker w_")+len("worker "):]
	return text[:strings.Index(text, " ")]
}
