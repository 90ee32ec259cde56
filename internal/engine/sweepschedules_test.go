package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// TestTheSweepFindsSchedules: a schedule left without a next time, or whose time waits for
// a job that has ended, is found once, and makes the jobs of the times that it missed.
func TestTheSweepFindsSchedules(t *testing.T) { // K5, K8
	for name, lose := range map[string]string{
		"no next time":          "update schedule set due_at = 0",
		"a time that cannot be": "update schedule set due_at = -5",
		"its job has ended":     "update schedule set waiting = due, due_at = due_at + 86400000000",
	} {
		t.Run(name, func(t *testing.T) {
			onShared(t, func(t *testing.T, db *database) {
				quiet := passive(t, db.open())
				quiet.add(emptyFlow, pawl.SchedulePlan{Cron: rarely(), Overlap: schedule.Queue, CatchUp: 48 * time.Hour})
				db.due(time.Minute)
				begun := startProcess(t, db.open(), nil)
				until(t, "its job has ended", func() bool { return quiet.view().LastState == lifecycle.JobCompleted })
				begun.stop()
				quiet.put(pawl.SchedulePlan{Name: "s", Workflow: "empty", Cron: "@every 1s", Overlap: schedule.Queue, CatchUp: 48 * time.Hour}, true)
				db.sql(lose)

				p := startProcess(t, db.open(), nil)
				p.wait(p.submit(define(t, "name: other\nsteps: []\n"), ""))
				if n := quiet.count(lifecycle.ScheduleFire); n != 1 {
					t.Fatalf("%d jobs without a sweep, want the one from before", n)
				}
				if n := p.sweepAll(); n != 1 {
					t.Errorf("%d waits were found, want one", n)
				}
				quiet.untilMoved(lifecycle.ScheduleFire, 2)
				if n := p.sweepAll(); n != 0 {
					t.Errorf("%d waits were found again", n)
				}
				verify(t, p.store)
			})
		})
	}
}

// TestTheSweepLeavesSchedulesAlone that wait for their next time, for a running job, or for
// an operator to resume them.
func TestTheSweepLeavesSchedulesAlone(t *testing.T) { // K8
	onShared(t, func(t *testing.T, db *database) {
		g := newGate(false)
		defer g.release()
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": g.run}})
		all := planner{t, p.engine}
		all.add(handFlow, pawl.SchedulePlan{Overlap: schedule.Queue})
		db.due(0)
		g.wait(t)
		db.due(0)
		all.untilMoved(lifecycle.ScheduleQueue, 1)
		db.sql(fmt.Sprintf("update schedule set due_at = %d", time.Now().Add(time.Hour).UnixMicro()))
		all.put(pawl.SchedulePlan{Name: "calm", Workflow: "hand", Cron: rarely()}, false)
		all.put(pawl.SchedulePlan{Name: "paused", Workflow: "hand", Cron: rarely()}, false)
		must(t, errorOf(p.engine.MoveSchedule(t.Context(), named("paused"), lifecycle.SchedulePause, why)))
		before, err := p.store.Schedules(t.Context(), pawl.ScheduleName{}, pawl.ScheduleName{}, 0)
		must(t, err)
		if n := p.sweepAll(); n != 0 {
			t.Errorf("%d waits were found, and none has an end", n)
		}
		after, err := p.store.Schedules(t.Context(), pawl.ScheduleName{}, pawl.ScheduleName{}, 0)
		must(t, err)
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("the sweep changed something: %s", diff)
		}
	})
}
