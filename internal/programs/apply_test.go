package programs

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/programs/spec"
)

// (S14) a definition changes, again and again, while its probe is asked and its program
// is started: the probe continues, with the newest definition.
func TestApplyWhileProbed(t *testing.T) {
	t.Parallel()
	version := func(burst int) *spec.Program {
		p := testProgram("a", "wait")
		p.Ready = quick(spec.Probe{Command: []string{"/bin/sh", "-c", "exit 0"}})
		p.Ready.Interval, p.Restart.Burst = time.Millisecond, burst
		return p
	}
	h := newFixture(t, Config{}, version(1))
	for n := range 100 {
		h.apply(version(n + 2))
	}
	h.in("a", running)
	h.order("a", control.Restart)
	for n := range 100 {
		h.apply(version(n + 1000))
	}
	h.until("a", "started again", func(s control.Service) bool { return s.State == running && s.Starts == 2 })
	w := h.program("a")
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.run.currentSpec; r.Restart.Burst != 1099 {
		t.Errorf("it runs by burst %d", r.Restart.Burst)
	}
}
