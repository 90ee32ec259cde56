package supervisor_test

import (
	"context"
	"io/fs"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/supervisor"
)

// S10: an error that cannot be read, a nil pointer in one, is a panic of its service
// and of nothing else.
func TestNilPointerAsError(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		var none *fs.PathError
		acts := &plant{id: "acts", start: func(context.Context, *plant) error { return none }}
		looks := &plant{id: "looks", look: func(context.Context, *plant) error { return none }}
		h.add(acts, supervisor.Options{})
		h.add(looks, supervisor.Options{})
		h.add(&plant{id: "web"}, supervisor.Options{})
		pass(5 * time.Second)
		h.in("web", lifecycle.ServiceRunning)
		if st, _ := h.s.Status("acts"); st.Action.Kind != supervisor.KindPanic || acts.began("start") != 1 {
			t.Errorf("action %+v, %d starts", st.Action, acts.began("start"))
		}
		if st, _ := h.s.Status("looks"); st.Seen.Failures == 0 {
			t.Errorf("seen %+v", st.Seen)
		}
	})
}

// S12: a panic in a hook is logged, and harms nothing.
func TestPanicsInHooks(t *testing.T) {
	var begun atomic.Int64
	hooks := supervisor.Hooks{
		Transition: func(supervisor.Identity, supervisor.Transition) { panic("boom") },
		Decided:    func(supervisor.Identity, time.Duration, time.Duration) { panic("boom") },
		Observed:   func(supervisor.Identity, supervisor.Observation, time.Duration) { panic("boom") },
		Action: func(context.Context, supervisor.Identity, supervisor.Run, supervisor.Action) (context.Context, func(supervisor.Attempt)) {
			if begun.Add(1) == 1 {
				panic("boom")
			}
			return context.Background(), func(supervisor.Attempt) { panic("boom") }
		},
	}
	bubble(t, supervisor.Config{Hooks: hooks}, func(h *hall) {
		p := &plant{id: "web"}
		h.add(p, supervisor.Options{})
		pass(5 * time.Second)
		h.in("web", lifecycle.ServiceRunning)
		if r := h.stop(); len(r.Left) != 0 || p.began("start") != 1 || p.began("stop") != 1 {
			t.Errorf("left %+v, runs %v", r.Left, p.runs)
		}
	})
}

// S10: another desired state is seen at once, after a panic in Next too, and so is
// a shutdown.
func TestPanicYieldsToNews(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web"}
		p.next = func(_ string, n snapshot) *decision {
			if n.Desired.Rev == 0 {
				panic("boom")
			}
			return nil
		}
		x := h.add(p, supervisor.Options{})
		pass(40 * time.Second) // the next of its backoffs is a long one
		if err := x.SetSpec(want{Rev: 1}); err != nil {
			t.Error(err)
		}
		pass(time.Millisecond)
		h.in("web", lifecycle.ServiceRunning)
	})
}

// S9: a stop gives up no collection that it has just cancelled.
func TestStopWaitsForACollection(t *testing.T) {
	var log lockedBuffer
	bubble(t, supervisor.Config{Log: slog.New(slog.NewTextHandler(&log, nil))}, func(h *hall) {
		p := &plant{id: "web"}
		h.add(p, supervisor.Options{})
		pass(5 * time.Second)
		p.set(func() { p.look = deaf(500 * time.Millisecond) })
		pass(time.Second + 100*time.Millisecond)
		if r := h.stop(); len(r.Left) != 0 || strings.Contains(log.String(), "given up") {
			t.Errorf("left %+v\n%s", r.Left, log.String())
		}
	})
}

// slowToRead is a journal whose reading takes a while.
type slowToRead struct {
	supervisor.MemoryJournal
	delay atomic.Int64
}

func (j *slowToRead) Last(ctx context.Context, entity string) (audit.Entry, error) {
	time.Sleep(time.Duration(j.delay.Load()))
	return j.MemoryJournal.Last(ctx, entity)
}

// S3, S10: a service whose journal is being read does nothing, and leaves by way of
// its journal.
func TestRemoveWhileItIsAdded(t *testing.T) {
	j := &slowToRead{}
	bubble(t, supervisor.Config{Journal: j}, func(h *hall) {
		h.add(&plant{id: "parent"}, supervisor.Options{})
		pass(time.Second)
		j.delay.Store(int64(3 * time.Second))
		go func() {
			id := supervisor.Identity{ID: "child", Parent: "parent"}
			if _, err := supervisor.Add(context.Background(), h.s, id, &plant{id: "child"}, want{}, supervisor.Options{}); err != nil {
				t.Error(err)
			}
		}()
		pass(time.Second)
		if r, err := h.s.Remove(context.Background(), "parent"); err != nil || len(r.Left) != 0 {
			t.Errorf("left %+v, %v", r.Left, err)
		}
		trail := trailOf(j, supervisor.Entity("child", 1))
		if n := len(trail); n < 2 || trail[n-1].Event != lifecycle.ServiceRemove {
			t.Errorf("trail of the child: %+v", trail)
		}
	})
}

// A service that another supervisor runs can be removed from this one.
func TestRemoveAfterConflict(t *testing.T) {
	j := &supervisor.MemoryJournal{}
	bubble(t, supervisor.Config{Journal: j}, func(h *hall) {
		p := &plant{id: "web", start: takes(10 * time.Second)}
		h.add(p, supervisor.Options{})
		pass(time.Second)
		trail := trailOf(j, "sv_web")
		if err := j.Append(context.Background(), entryAfter(trail[len(trail)-1])); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if r, err := h.s.Remove(context.Background(), "web"); err != nil || len(r.Left) != 0 {
			t.Errorf("left %+v, %v", r.Left, err)
		}
		if after := trailOf(j, "sv_web"); len(after) != len(trail)+1 {
			t.Errorf("the trail has %d entries, want %d", len(after), len(trail)+1)
		}
	})
}

// S10: a Next or a hook that ends the goroutine of the loop, as testing.T.Fatal
// does, ends no other service.
func TestGoexitInTheLoop(t *testing.T) {
	hooks := supervisor.Hooks{Transition: func(supervisor.Identity, supervisor.Transition) { runtime.Goexit() }}
	bubble(t, supervisor.Config{Shards: 1, Hooks: hooks}, func(h *hall) {
		bad, asked := &plant{id: "bad"}, 0
		bad.next = func(_ string, n snapshot) *decision {
			if n.Shutdown && asked == 0 { // Add asks, and returns
				runtime.Goexit()
			}
			if asked++; asked < 4 {
				runtime.Goexit()
			}
			return nil
		}
		h.add(bad, supervisor.Options{})
		h.add(&plant{id: "web"}, supervisor.Options{})
		pass(5 * time.Second)
		h.in("web", lifecycle.ServiceRunning)
		h.in("bad", lifecycle.ServiceStopped)
		pass(30 * time.Second)
		h.in("bad", lifecycle.ServiceRunning)
		if r := h.stop(); len(r.Left) != 0 {
			t.Errorf("left %+v", r.Left)
		}
	})
}
