package sdk

import (
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAKilledWorker: what a worker held that was killed by signal 9 is run by another one after
// the silence, under the next claim (T7, J9).
func TestAKilledWorker(t *testing.T) {
	each(t, func(t *testing.T, s *site, l *Language) {
		victim := s.worker(l, "--silence", "2")
		id := s.one("slow", s.with(1))
		s.waitFor("begin", 1)
		victim.kill()
		s.worker(l)
		if j := s.ended(id, "COMPLETED"); j.Steps[0].Claims != 2 || s.noted("begin") != 2 || s.noted("end") != 1 {
			t.Errorf("%+v, %v", j.Steps, s.notes())
		}
	})
}

// TestAKilledServer: results of steps that end while the server is away are kept until there is
// one again. No step runs a second time, and none that was claimed is lost (T5, T10).
func TestAKilledServer(t *testing.T) {
	each(t, func(t *testing.T, s *site, l *Language) {
		s.worker(l, "--silence", "30")
		id := s.submit("steps:\n  - {id: a, foreach: \"${{ [1, 2, 3, 4, 5, 6, 7, 8] }}\", handler: slow, with: " + s.with(0.3) + "}\n")
		s.waitFor("begin", 4)
		s.serving.kill()
		s.waitFor("end", 4)
		s.server()
		s.ended(id, "COMPLETED")
		claimed := map[string]int{}
		for _, c := range s.claimed(id) {
			claimed[c]++
			if !strings.HasSuffix(c, " 1") {
				t.Errorf("claim %s: want none but the first of each step", c)
			}
		}
		s.once(claimed)
	})
}

// TestAWorkerThatWasTakenForDead: one that was stopped for longer than the silence drops what it
// ran, which others have, and registers again (J1, J9).
func TestAWorkerThatWasTakenForDead(t *testing.T) {
	each(t, func(t *testing.T, s *site, l *Language) {
		frozen := s.worker(l, "--silence", "2")
		before := frozen.id()
		id := s.one("slow", s.with(60))
		s.waitFor("begin", 1)
		frozen.signal(syscall.SIGSTOP)
		other := s.worker(l, "--name", "other")
		s.waitFor("begin", 2)
		frozen.signal(syscall.SIGCONT)
		s.waitFor("lost", 1)
		until(t, "it is registered again", func() bool { return frozen.id() != before })
		s.call("POST", "/api/jobs/"+id+"/cancel", map[string]any{}, nil)
		s.ended(id, "CANCELED")
		other.signal(syscall.SIGINT)
		other.ends(0)
		s.ended(s.one("slow", s.with(0)), "COMPLETED")
		frozen.signal(syscall.SIGINT)
		frozen.ends(0)
		s.ends(frozen, "COMPLETED")
		if s.noted("lost") != 1 || s.noted("canceled") != 1 {
			t.Errorf("%v", s.notes())
		}
	})
}

// TestTerminated: a worker that an operator terminates interrupts what it runs, and ends with an
// error that says who has done it, and why (J1, T13).
func TestTerminated(t *testing.T) {
	each(t, func(t *testing.T, s *site, l *Language) {
		w := s.worker(l)
		s.one("slow", s.with(60))
		s.waitFor("begin", 1)
		s.call("POST", "/api/supervisor/workers/"+w.id()+"/terminate", map[string]any{"reason": "it is in the way"}, nil)
		w.ends(1)
		if s.noted("lost") != 1 || !strings.Contains(w.log.String(), "Terminated: worker "+w.id()+" was terminated by api: it is in the way") {
			t.Errorf("%v\n%s", s.notes(), w.log)
		}
	})
}

// TestABusyHandler: a handler that keeps its thread, or the event loop, for longer than the silence
// keeps its claim (J9).
func TestABusyHandler(t *testing.T) {
	each(t, func(t *testing.T, s *site, l *Language) {
		s.worker(l, "--silence", "4")
		if j := s.ended(s.one("block", "{seconds: 7}"), "COMPLETED"); j.Steps[0].Claims != 1 {
			t.Errorf("it was taken from its worker: %+v", j.Steps)
		}
	})
}

// TestIsolation: a step that must not overlap is told to end before its worker counts as dead, and
// begins again under the next claim (J9).
func TestIsolation(t *testing.T) {
	each(t, func(t *testing.T, s *site, l *Language) {
		p := s.through(rand.Uint64())
		s.worker(l, "--silence", "6")
		apart, along := s.one("slow", s.with(60), "isolation: stop"), s.one("slow", s.with(60))
		s.waitFor("begin", 2)
		p.set(false, true)
		cut := time.Now()
		s.waitFor("interrupted", 1)
		if took := time.Since(cut); took > 6*time.Second {
			t.Errorf("it was told after %s, and the silence is 6 s", took)
		}
		p.set(false, false)
		s.waitFor("begin", 3)
		if n := s.noted("interrupted"); n != 1 || s.job(apart).Steps[0].Attempts != 1 {
			t.Errorf("%d steps were interrupted: %v", n, s.notes())
		}
		for _, id := range []string{apart, along} {
			s.call("POST", "/api/jobs/"+id+"/cancel", map[string]any{}, nil)
		}
	})
}

// TestNoServer: a worker that finds no server tries again until there is one (J9).
func TestNoServer(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			w := s.begin(l)
			until(t, "it says so", func() bool { return strings.Contains(w.log.String(), "registering failed") })
			s.server()
			s.ended(s.one("slow", s.with(0)), "COMPLETED")
			w.signal(syscall.SIGINT)
			w.ends(0)
		})
	}
}

// TestDrainWithoutAServer: a worker that has nothing to report ends though the server is away, and
// one that has waits for a server, until it is told to hurry (J1).
func TestDrainWithoutAServer(t *testing.T) {
	each(t, func(t *testing.T, s *site, l *Language) {
		idle, busy := s.worker(l, "--queue", "none"), s.worker(l)
		s.one("slow", s.with(0.5))
		s.waitFor("begin", 1)
		s.serving.kill()
		for _, w := range []*process{idle, busy} {
			w.signal(syscall.SIGTERM)
		}
		idle.ends(0)
		s.waitFor("end", 1)
		select {
		case <-busy.done:
			t.Error("it has ended with a result that no server has")
		default:
		}
		busy.signal(syscall.SIGTERM)
		busy.ends(0)
	})
}
