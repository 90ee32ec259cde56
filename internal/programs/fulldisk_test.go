package programs

import (
	"context"
	"regexp"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/programs/spec"
	"github.com/pawl-dev/pawl/supervisor"
)

// A failing journal is on a disk that is full for a while.
type failing struct {
	supervisor.MemoryJournal
	full atomic.Bool
	left atomic.Int64 // refusals until there is room again
}

func (j *failing) Append(ctx context.Context, e audit.Entry) error {
	if j.full.Load() && j.left.Add(-1) >= 0 {
		return syscall.ENOSPC
	}
	return j.MemoryJournal.Append(ctx, e)
}

// (S10, S12, S14) A full disk does not keep programs from being stopped in order. Deferred
// entries are written if there is room before the end; if not, the next manager continues
// from what is there.
func TestStopOnFullDisk(t *testing.T) {
	t.Parallel()
	for name, refusals := range map[string]int64{"for a while": 2, "for good": 1 << 40} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := &failing{}
			j.left.Store(refusals)
			h := newFixture(t, Config{Journal: j}, pair()...)
			h.in("b", running)
			j.full.Store(true)
			if r := h.stop(); len(r.Left) != 0 {
				t.Errorf("left: %+v", r.Left)
			}
			for _, id := range []string{"a", "b"} {
				if s, err := h.Service(id); err != nil || s.State != stopped || s.Exit != "exit code 0" {
					t.Errorf("%+v, %v", s, err)
				}
			}
			trail, err := supervisor.Trails(t.Context(), j, "b")
			if last := trail[len(trail)-1]; err != nil || (last.To == phases[stopped]) != (refusals == 2) {
				t.Errorf("the trail ends with %+v, %v", last, err)
			}
			j.full.Store(false)
			newFixture(t, Config{Journal: j}, pair()...).in("b", running)
		})
	}
}

// pair returns two programs, of which b needs a, that end with exit code 0 when they are
// stopped.
func pair() []*spec.Program {
	a, b := testProgram("a", "wait"), testProgram("b", "wait")
	for _, p := range []*spec.Program{a, b} {
		p.Ready = quick(spec.Probe{Log: regexp.MustCompile("waiting")})
	}
	b.Needs = []spec.Need{{ID: "a", Condition: spec.Ready}}
	return []*spec.Program{a, b}
}
