package keeper

import (
	"context"
	"regexp"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/program"
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

// (S10, S12, S14) a full disk is no reason not to stop programs as they are to be
// stopped. What could not be kept is, if there is room before the end; and if not, the
// next keeper goes on from what is there.
func TestStopOnFullDisk(t *testing.T) {
	t.Parallel()
	for name, refusals := range map[string]int64{"for a while": 3, "for good": 1 << 40} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := &failing{}
			j.left.Store(refusals)
			h := newHouse(t, Config{Journal: j}, pair()...)
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
			if last := trail[len(trail)-1]; err != nil || (last.To == phases[stopped]) != (refusals == 3) {
				t.Errorf("the trail ends with %+v, %v", last, err)
			}
			j.full.Store(false)
			newHouse(t, Config{Journal: j}, pair()...).in("b", running)
		})
	}
}

// pair answers two programs, of which b needs a, that end well if they are asked.
func pair() []*program.Program {
	a, b := genuine("a", "wait"), genuine("b", "wait")
	for _, p := range []*program.Program{a, b} {
		p.Ready = quick(program.Probe{Log: regexp.MustCompile("waiting")})
	}
	b.Needs = []program.Need{{ID: "a", Condition: program.Ready}}
	return []*program.Program{a, b}
}
