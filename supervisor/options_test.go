package supervisor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/supervisor"
)

// (S10) what a service depends on may change while it runs: peers, cycles, and the
// order of the stop follow.
func TestSetOptions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, supervisor.Config{Shards: 1})
		h.run()
		a, b := &plant{id: "a"}, &plant{id: "b"}
		ha := h.add(a, supervisor.Options{})
		hb := h.add(b, supervisor.Options{DependsOn: []string{"a"}})
		synctest.Wait()
		if err := ha.SetOptions(supervisor.Options{DependsOn: []string{"b"}}); !errors.Is(err, supervisor.ErrCycle) {
			t.Errorf("cycle: %v", err)
		}
		if err := ha.SetOptions(supervisor.Options{StopTimeout: -1}); !errors.Is(err, supervisor.ErrInvalid) {
			t.Errorf("invalid: %v", err)
		}
		if err := hb.SetOptions(supervisor.Options{}); err != nil {
			t.Error(err)
		}
		if err := ha.SetOptions(supervisor.Options{DependsOn: []string{"b"}, StopTimeout: time.Minute}); err != nil {
			t.Error(err)
		}
		if d := ha.Snapshot().Dependencies; len(d) != 1 || d[0].ID != "b" || len(hb.Snapshot().Dependencies) != 0 {
			t.Errorf("dependencies: %v, %v", d, hb.Snapshot().Dependencies)
		}
		a.stop = takes(30 * time.Second) // longer than the default
		b.set(func() { b.stop = takes(time.Second) })
		began := time.Now()
		if r := h.stop(); len(r.Left) != 0 || time.Since(began) < 31*time.Second {
			t.Errorf("after %s: %+v", time.Since(began), r)
		}
		if err := ha.SetOptions(supervisor.Options{}); !errors.Is(err, supervisor.ErrStopped) {
			t.Errorf("stopped: %v", err)
		}
		if _, err := h.s.Remove(context.Background(), "a"); err == nil {
			t.Error("removed after the stop")
		}
	})
}

// One that names its parent among what it depends on is one child.
func TestAParentThatIsDependedOn(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		x := h.add(&plant{id: "a"}, supervisor.Options{})
		o := supervisor.Options{DependsOn: []string{"a"}}
		if _, err := supervisor.Add(context.Background(), h.s, supervisor.Identity{ID: "b", Parent: "a"}, &plant{id: "b"}, want{}, o); err != nil {
			t.Fatal(err)
		}
		if n := len(x.Snapshot().Children); n != 1 {
			t.Errorf("%d children: want 1", n)
		}
	})
}
