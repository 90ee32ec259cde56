package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
)

// A planner makes and reads schedules through an engine, and fails the test if it cannot.
type planner struct {
	t *testing.T
	e *engine.Engine
}

// passive returns a planner whose engine follows no schedule.
func passive(t *testing.T, s store.Store) planner {
	e := engine.New(engine.Config{Store: s, Passive: true})
	t.Cleanup(e.Close)
	return planner{t, e}
}

const (
	emptyFlow = "name: empty\nsteps: []\n"
	handFlow  = "name: hand\nsteps: [{id: a, handler: h}]\n"
)

var why = pawl.Change{Actor: "test", Reason: "to see"}

func named(name string) pawl.ScheduleName {
	return pawl.ScheduleName{Workspace: pawl.DefaultWorkspace, Name: name}
}

// rarely returns an expression whose next time is months away, so that a test has only the
// times that it makes.
func rarely() string { return fmt.Sprintf("0 0 1 %d *", time.Now().UTC().AddDate(0, 6, 0).Month()) }

func (p planner) register(src string) {
	p.t.Helper()
	if _, _, err := p.e.RegisterWorkflow(p.t.Context(), pawl.DefaultWorkspace, define(p.t, src).Canonical(), "", why); err != nil {
		p.t.Fatal(err)
	}
}

func (p planner) put(plan pawl.SchedulePlan, replace bool) {
	p.t.Helper()
	if _, err := p.e.PutSchedule(p.t.Context(), plan, replace, why); err != nil {
		p.t.Fatal(err)
	}
}

// add makes the schedule s of a workflow.
func (p planner) add(src string, plan pawl.SchedulePlan) {
	p.t.Helper()
	p.register(src)
	plan.Name, plan.Workflow = "s", define(p.t, src).Name
	if plan.Cron == "" {
		plan.Cron = rarely()
	}
	p.put(plan, false)
}

func (p planner) move(event machine.Event) {
	p.t.Helper()
	if _, err := p.e.MoveSchedule(p.t.Context(), named("s"), event, why); err != nil {
		p.t.Fatal(err)
	}
}

func (p planner) view() *pawl.ScheduleView {
	p.t.Helper()
	v, err := p.e.Schedule(p.t.Context(), named("s"), 1)
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

// moves returns the history of the schedule s: event, and reason if there is one.
func (p planner) moves() []string {
	p.t.Helper()
	history, err := collected(p.t.Context(), p.e.ScheduleHistory, named("s"))
	if err != nil {
		p.t.Fatal(err)
	}
	var lines []string
	for _, h := range history {
		lines = append(lines, strings.TrimSpace(string(h.Event)+" "+h.Reason))
	}
	return lines
}

// count returns how many moves were made by the event.
func (p planner) count(event machine.Event) int {
	n := 0
	for _, m := range p.moves() {
		if word, _, _ := strings.Cut(m, " "); word == string(event) {
			n++
		}
	}
	return n
}

// untilMoved waits until the event was applied that many times.
func (p planner) untilMoved(event machine.Event, times int) {
	p.t.Helper()
	until(p.t, fmt.Sprintf("%d times %s", times, event), func() bool { return p.count(event) >= times })
}

// jobs returns all jobs, oldest first.
func (p planner) jobs() []pawl.JobView {
	p.t.Helper()
	jobs, err := p.e.Jobs(p.t.Context(), pawl.JobQuery{Limit: 1000})
	if err != nil {
		p.t.Fatal(err)
	}
	slices.Reverse(jobs)
	return jobs
}

// wantJobs checks the states of all jobs.
func (p planner) wantJobs(want ...machine.State) {
	p.t.Helper()
	var got []machine.State
	for _, j := range p.jobs() {
		got = append(got, j.Status)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		p.t.Errorf("jobs (-want +got):\n%s\n%s", diff, strings.Join(p.moves(), "\n"))
	}
}

// due makes the schedules that are not paused due that long ago.
func (db *database) due(ago time.Duration) {
	db.t.Helper()
	db.sql(fmt.Sprintf("update schedule set due_at = %d where due_at > 0", time.Now().Add(-ago).UnixMicro()))
}

// unregister forgets every workflow that was registered.
func (db *database) unregister() {
	db.t.Helper()
	db.sql("delete from " + map[string]string{"sqlite": "version", "postgres": "registered"}[db.kind])
}

// Each time makes one job, no matter how many engines of how many processes see it.
func TestADueTimeMakesOneJob(t *testing.T) { // K5
	onShared(t, func(t *testing.T, db *database) {
		for range 2 {
			s := db.open()
			startProcess(t, s, nil)
			startProcess(t, s, nil)
		}
		s := db.open()
		p := passive(t, s)
		p.add(emptyFlow, pawl.SchedulePlan{})
		const rounds = 10
		for n := 1; n <= rounds; n++ {
			until(t, "the last job has ended", func() bool { v := p.view(); return v.LastJob == nil || v.LastState == lifecycle.JobCompleted })
			db.due(0)
			p.untilMoved(lifecycle.ScheduleFire, n)
		}
		if n, jobs := p.count(lifecycle.ScheduleFire), len(p.jobs()); n != rounds || jobs != rounds {
			t.Errorf("%d times made %d jobs by %d moves; want one each\n%s", rounds, jobs, n, strings.Join(p.moves(), "\n"))
		}
		verify(t, s)
	})
}

// Times missed while no engine ran are made up for, if it is not too late.
func TestCatchUp(t *testing.T) {
	for _, tt := range []struct {
		name          string
		catchUp, late time.Duration
		want          string
	}{
		{"none", 0, 3 * time.Hour, "skip missed, and the catch-up is 0s"},
		{"none, and it is hardly late", 0, 20 * time.Second, "fire"},
		{"too late for it", 2 * time.Hour, 3 * time.Hour, "skip missed, and the catch-up is 2h0m0s"},
		{"in time for it", 4 * time.Hour, 3 * time.Hour, "fire"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			onShared(t, func(t *testing.T, db *database) {
				p := passive(t, db.open())
				p.add(emptyFlow, pawl.SchedulePlan{CatchUp: tt.catchUp})
				db.due(tt.late)
				startProcess(t, db.open(), nil)
				until(t, "the time is dealt with", func() bool { return len(p.moves()) > 1 })
				if got := p.moves()[1:]; !slices.Equal(got, []string{tt.want}) {
					t.Errorf("moves %q; want %q", got, tt.want)
				}
				if jobs := len(p.jobs()); jobs != strings.Count(tt.want, "fire") {
					t.Errorf("%d jobs; want %d", jobs, strings.Count(tt.want, "fire"))
				}
			})
		})
	}
}

// gated starts a process whose handler h waits for the gate.
func gated(t *testing.T, s store.Store) (planner, *gate) {
	g := newGate(false)
	p := start(t, s, setup{handlers: map[string]worker.Handler{"h": g.run}})
	t.Cleanup(g.release)
	return planner{t, p.engine}, g
}

func TestOverlapSkip(t *testing.T) {
	onShared(t, func(t *testing.T, db *database) {
		p, g := gated(t, db.open())
		p.add(handFlow, pawl.SchedulePlan{Overlap: schedule.Skip})
		db.due(0)
		g.wait(t)
		db.due(0)
		p.untilMoved(lifecycle.ScheduleSkip, 1)
		if got, want := p.moves()[2], "("+p.jobs()[0].ID+") has not ended"; !strings.HasSuffix(got, want) {
			t.Errorf("the second time: %q; want it skipped because the job has not ended: %s", got, want)
		}
		p.wantJobs(lifecycle.JobRunning)
		g.release()
		until(t, "the job has ended", func() bool { return p.view().LastState == lifecycle.JobCompleted })
		db.due(0)
		p.untilMoved(lifecycle.ScheduleFire, 2)
	})
}

// A time waits for the last job. Meanwhile other times pass, and processing them writes no
// history.
func TestOverlapQueue(t *testing.T) {
	onShared(t, func(t *testing.T, db *database) {
		s := &reading{Store: db.open()}
		p, g := gated(t, s)
		p.add(handFlow, pawl.SchedulePlan{Overlap: schedule.Queue})
		db.due(0)
		g.wait(t)
		db.due(0)
		p.untilMoved(lifecycle.ScheduleQueue, 1)
		seen := s.reads.Load()
		until(t, "the schedule is looked at again", func() bool { return s.reads.Load() > seen+1 })
		if got := p.moves(); len(got) != 3 || p.view().Waiting == 0 {
			t.Errorf("moves %q, waiting %s; want create, fire and queue, and a time that waits", got, p.view().Waiting)
		}
		p.wantJobs(lifecycle.JobRunning)
		p.put(pawl.SchedulePlan{Name: "s", Workflow: "hand", Cron: "@every 1s", Overlap: schedule.Queue}, true)
		p.untilMoved(lifecycle.ScheduleSkip, 1)
		waited := p.view().Waiting
		p.put(pawl.SchedulePlan{Name: "s", Workflow: "hand", Cron: rarely(), Overlap: schedule.Queue}, true)
		g.release()
		p.untilMoved(lifecycle.ScheduleFire, 2)
		if v := p.view(); v.LastDue != waited || v.Waiting != 0 {
			t.Errorf("the job of %s, and %s waits; want that of %s, which has waited, and none", v.LastDue, v.Waiting, waited)
		}
		if n := p.count(lifecycle.ScheduleQueue); n != 1 || len(p.jobs()) != 2 {
			t.Errorf("%d times waited, %d jobs; want one, and two jobs\n%s", n, len(p.jobs()), strings.Join(p.moves(), "\n"))
		}
		verify(t, s)
	})
}

// reading counts how often a schedule is read.
type reading struct {
	store.Store
	reads atomic.Int64
}

func (r *reading) Schedule(ctx context.Context, key rowkey.Schedule) (*pawl.Schedule, error) {
	r.reads.Add(1)
	return r.Store.Schedule(ctx, key)
}

func TestOverlapCancelOld(t *testing.T) { // T1
	onShared(t, func(t *testing.T, db *database) {
		s := db.open()
		p, g := gated(t, s)
		p.add(handFlow, pawl.SchedulePlan{Overlap: schedule.CancelOld})
		db.due(0)
		g.wait(t)
		db.due(0)
		g.wait(t)
		until(t, "the first is CANCELED", func() bool { return p.jobs()[0].Status == lifecycle.JobCanceled })
		p.wantJobs(lifecycle.JobCanceled, lifecycle.JobRunning)
		old := p.jobs()[0]
		if old.Error == nil || !strings.HasPrefix(old.Error.Message, "the next time of its schedule has come: ") {
			t.Errorf("the first was canceled because of %v; want the next time as the reason", old.Error)
		}
		id, err := pawl.ParseID(pawl.JobPrefix, old.ID)
		if err != nil {
			t.Fatal(err)
		}
		until(t, "nothing is left of it", func() bool { return errorOf(p.e.Cancel(t.Context(), id, note("again"))) != nil })
		verify(t, s)
	})
}

// Many simultaneous times, each of which cancels the job of the previous one, are processed
// in several turns.
func TestManyTimesAtOnce(t *testing.T) {
	onShared(t, func(t *testing.T, db *database) {
		s := db.open()
		p := passive(t, s)
		p.add(handFlow, pawl.SchedulePlan{Cron: "@every 1m", Overlap: schedule.CancelOld, CatchUp: 4 * time.Hour})
		const missed = schedule.MaxActs + 30
		db.due(missed*time.Minute + time.Second)
		startProcess(t, s, nil)
		p.untilMoved(lifecycle.ScheduleFire, missed)
		jobs := p.jobs()
		for i, j := range jobs {
			if last := i == len(jobs)-1; last != (j.Status == lifecycle.JobPending) || !last && j.Status != lifecycle.JobCanceled {
				t.Errorf("job %d of %d is %s; want the last PENDING and the others CANCELED", i, len(jobs), j.Status)
			}
		}
		if n := p.count(lifecycle.ScheduleFire); n != len(jobs) || p.count(lifecycle.ScheduleSkip) != 0 {
			t.Errorf("%d jobs of %d times, %d skipped; want one each and none skipped", len(jobs), n, p.count(lifecycle.ScheduleSkip))
		}
		verify(t, s)
	})
}

// A time whose job cannot be made is skipped with the reason, and the schedule continues.
func TestThereCanBeNoJob(t *testing.T) {
	const takes, refuses = "name: w\ninputs: {region: {type: string}}\nsteps: []\n", "name: w\ninputs: {zone: {type: string}}\nsteps: []\n"
	onShared(t, func(t *testing.T, db *database) {
		s := db.open()
		p := planner{t, startProcess(t, s, nil).engine}
		p.add(takes, pawl.SchedulePlan{Inputs: json.RawMessage(`{"region":"eu"}`)})
		p.register(refuses)
		db.due(0)
		p.untilMoved(lifecycle.ScheduleSkip, 1)
		db.unregister()
		db.due(0)
		p.untilMoved(lifecycle.ScheduleSkip, 2)
		p.register(takes)
		db.due(0)
		p.untilMoved(lifecycle.ScheduleFire, 1)
		want := []string{"create to see", `skip there can be no job: there is no input "region" (known: zone)`,
			`skip there can be no job: no workflow "w" is registered in workspace default`, "fire"}
		if diff := cmp.Diff(want, p.moves()); diff != "" {
			t.Errorf("moves (-want +got):\n%s", diff)
		}
		if jobs := p.jobs(); len(jobs) != 1 || string(jobs[0].Inputs) != `{"region":"eu"}` {
			t.Errorf("jobs %+v; want one with its inputs", jobs)
		}
		verify(t, s)
	})
}

// Every change of a schedule has its audit row, with the actor and the reason; a refused
// change leaves none.
func TestScheduleChangesAreAudited(t *testing.T) { // K3, K6
	onStores(t, func(t *testing.T, open func() store.Store) {
		s := open()
		p := passive(t, s)
		p.add(emptyFlow, pawl.SchedulePlan{})
		refused := func(event machine.Event) {
			t.Helper()
			var refusal *machine.Refusal
			if _, err := p.e.MoveSchedule(t.Context(), named("s"), event, why); !errors.As(err, &refusal) || refusal.Entity != p.view().ID {
				t.Errorf("%s: %v; want a refusal that names the schedule", event, err)
			}
		}
		refused(lifecycle.ScheduleResume)
		p.move(lifecycle.SchedulePause)
		refused(lifecycle.SchedulePause)
		if _, err := p.e.TriggerSchedule(t.Context(), named("s"), why); pawl.KindOf(err) != pawl.Conflict || len(p.jobs()) != 0 {
			t.Errorf("trigger while it is paused: %v, %d jobs; want a refusal and none", err, len(p.jobs()))
		}
		p.put(pawl.SchedulePlan{Name: "s", Workflow: "empty@1", Cron: "@daily", Priority: 7}, true)
		if v := p.view(); v.Status != lifecycle.SchedulePaused || v.Workflow != "empty@1" || v.Priority != 7 || len(v.Next) != 0 {
			t.Errorf("after the update: %+v; want it paused, with what was changed and no next time", v)
		}
		p.move(lifecycle.ScheduleResume)
		if _, err := p.e.TriggerSchedule(t.Context(), named("s"), why); err != nil {
			t.Error(err)
		}
		if _, err := p.e.MoveSchedule(t.Context(), named("s"), lifecycle.ScheduleFire, why); pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("fire by hand: %v; want it invalid", err)
		}
		history, err := collected(t.Context(), p.e.ScheduleHistory, named("s"))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, h := range history {
			got = append(got, fmt.Sprint(h.Event, " ", h.To, " by ", h.Actor, ": ", h.Reason))
		}
		want := []string{"create active by test: to see", "pause paused by test: to see", "update paused by test: to see",
			"resume active by test: to see", "fire active by test: to see"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
		p.move(lifecycle.ScheduleRemove)
		for _, event := range []machine.Event{lifecycle.SchedulePause, lifecycle.ScheduleResume, lifecycle.ScheduleRemove} {
			if _, err := p.e.MoveSchedule(t.Context(), named("s"), event, why); pawl.KindOf(err) != pawl.NotFound {
				t.Errorf("%s once it is removed: %v; want it not found", event, err)
			}
		}
		p.put(pawl.SchedulePlan{Name: "s", Workflow: "empty", Cron: "@daily"}, false)
		verify(t, s)
	})
}

// While a schedule is paused no time makes a job, and none is made up for later.
func TestAPausedScheduleRests(t *testing.T) {
	onShared(t, func(t *testing.T, db *database) {
		s := db.open()
		p := planner{t, startProcess(t, s, nil).engine}
		p.add(emptyFlow, pawl.SchedulePlan{CatchUp: time.Hour})
		p.move(lifecycle.SchedulePause)
		if due := dueAt(t, s); !due.IsZero() {
			t.Errorf("paused, and due at %s; want no deadline", due)
		}
		p.move(lifecycle.ScheduleResume)
		if due := dueAt(t, s); due.Before(time.Now().AddDate(0, 1, 0)) {
			t.Errorf("resumed, and due at %s; want the next time of its expression", due)
		}
		p.move(lifecycle.SchedulePause)
		p.move(lifecycle.ScheduleRemove)
		p.add(emptyFlow, pawl.SchedulePlan{})
		db.due(0)
		p.untilMoved(lifecycle.ScheduleFire, 1)
		if len(p.jobs()) != 1 {
			t.Errorf("%d jobs; want that of the second schedule alone", len(p.jobs()))
		}
	})
}

// An update of what is run keeps a time that no engine has processed yet; an update of the
// expression counts from now on.
func TestAnUpdateKeepsTheTimes(t *testing.T) {
	onShared(t, func(t *testing.T, db *database) {
		s := db.open()
		p := passive(t, s)
		p.add(emptyFlow, pawl.SchedulePlan{CatchUp: time.Hour})
		db.due(10 * time.Minute)
		plan := pawl.SchedulePlan{Name: "s", Workflow: "empty", Cron: rarely(), CatchUp: time.Hour, Priority: 5}
		p.put(plan, true)
		if due := dueAt(t, s); due.After(time.Now()) {
			t.Errorf("due at %s after an update of the priority; want the time that has passed", due)
		}
		plan.Cron = "@every 24h"
		p.put(plan, true)
		if due := dueAt(t, s); due.Before(time.Now()) || due.After(time.Now().Add(24*time.Hour)) {
			t.Errorf("due at %s after an update of the expression; want its next time", due)
		}
	})
}

// dueAt returns when the one schedule is due, or the zero time.
func dueAt(t *testing.T, s store.Store) time.Time {
	t.Helper()
	all, err := s.Schedules(t.Context(), pawl.ScheduleName{}, pawl.ScheduleName{}, 0)
	if err != nil || len(all) != 1 {
		t.Fatalf("schedules %v, %v; want one", all, err)
	}
	if all[0].DueAt == 0 {
		return time.Time{}
	}
	return pawl.Time(all[0].DueAt)
}

// A trigger makes a job no matter what runs, and that job then counts for the overlap.
func TestTriggerMakesAJob(t *testing.T) {
	onShared(t, func(t *testing.T, db *database) {
		s := db.open()
		p, g := gated(t, s)
		p.add("name: hand\ninputs: {scheduled_at: {type: string, required: true}}\nsteps: [{id: a, handler: h}]\n", pawl.SchedulePlan{})
		began := time.Now().Truncate(time.Second)
		for range 2 {
			id, err := madeBy(p.e.TriggerSchedule(t.Context(), named("s"), why))
			if err != nil {
				t.Fatal(err)
			}
			g.wait(t)
			if v := p.view(); v.LastJob == nil || *v.LastJob != id.Public(pawl.JobPrefix) {
				t.Errorf("last job %v; want %s", v.LastJob, id.Public(pawl.JobPrefix))
			}
		}
		p.wantJobs(lifecycle.JobRunning, lifecycle.JobRunning)
		var in struct {
			At time.Time `json:"scheduled_at"`
		}
		if err := json.Unmarshal(p.jobs()[0].Inputs, &in); err != nil || in.At.Before(began) || in.At.After(time.Now()) {
			t.Errorf("inputs %s, %v; want the time of the trigger", p.jobs()[0].Inputs, err)
		}
		db.due(0)
		p.untilMoved(lifecycle.ScheduleSkip, 1)
		db.unregister()
		if _, err := p.e.TriggerSchedule(t.Context(), named("s"), why); pawl.KindOf(err) != pawl.NotFound {
			t.Errorf("trigger of a workflow that is gone: %v; want it not found", err)
		}
		verify(t, s)
	})
}

// Transactions that fail, and commits whose outcome is lost, neither lose a time nor make
// two jobs of it: the job and the next deadline are one commit.
func TestSchedulesOnAStoreThatFails(t *testing.T) { // K5
	onShared(t, func(t *testing.T, db *database) {
		good := db.open()
		for seed := range uint64(2) {
			startProcess(t, newMoody(db.open(), seed), nil)
		}
		p := passive(t, good)
		p.add(emptyFlow, pawl.SchedulePlan{Overlap: schedule.CancelOld, CatchUp: time.Hour})
		const rounds = 25
		for n := 1; n <= rounds; n++ {
			db.due(0)
			p.untilMoved(lifecycle.ScheduleFire, n)
		}
		if jobs := len(p.jobs()); jobs != rounds || p.count(lifecycle.ScheduleFire) != rounds {
			t.Errorf("%d times made %d jobs; want one each", rounds, jobs)
		}
		verify(t, good)
	})
}

// TestAKilledScheduler: the next process takes over the times of a process that is killed,
// none lost and none twice.
func TestAKilledScheduler(t *testing.T) { // K5, T10
	onShared(t, func(t *testing.T, db *database) {
		s := db.open()
		p := passive(t, s)
		p.add(emptyFlow, pawl.SchedulePlan{Cron: "@every 1s", Overlap: schedule.CancelOld, CatchUp: time.Hour})
		if _, err := p.e.Submit(t.Context(), pawl.Submission{Definition: define(t, handFlow).Canonical(), Actor: "test"}); err != nil {
			t.Fatal(err)
		}
		kill := startVictim(t, db, 1)
		p.untilMoved(lifecycle.ScheduleFire, 2)
		kill()
		before, killed := p.count(lifecycle.ScheduleFire), time.Now()
		until(t, "two times pass", func() bool { return time.Since(killed) > 2500*time.Millisecond })
		startProcess(t, db.open(), nil)
		p.untilMoved(lifecycle.ScheduleFire, before+3)
		p.move(lifecycle.SchedulePause)
		history, err := collected(t.Context(), p.e.ScheduleHistory, named("s"))
		if err != nil {
			t.Fatal(err)
		}
		var last time.Time
		for _, h := range history {
			if h.Event != lifecycle.ScheduleFire {
				continue
			}
			var fired struct{ Due time.Time }
			if err := json.Unmarshal(h.Metadata, &fired); err != nil {
				t.Fatal(err)
			}
			if gap := fired.Due.Sub(last); !last.IsZero() && gap != time.Second {
				t.Errorf("%s comes %s after the time before; want 1 s", fired.Due, gap)
			}
			last = fired.Due
		}
		if fired, jobs := p.count(lifecycle.ScheduleFire), len(p.jobs())-1; fired != jobs {
			t.Errorf("%d times made %d jobs; want one each", fired, jobs)
		}
		verify(t, s)
	})
}

// Daylight saving through the engine: the clocks of Berlin change on 29 March and
// on 25 October 2026.
func TestSchedulesAcrossDaylightSaving(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, cron, from, until, want string }{
		{"nightly in spring", "30 2 * * *", "2026-03-27T12:00:00Z", "2026-03-30T12:00:00Z",
			"2026-03-28T01:30:00Z 2026-03-29T01:00:00Z 2026-03-30T00:30:00Z"},
		{"nightly in autumn", "30 2 * * *", "2026-10-23T12:00:00Z", "2026-10-26T12:00:00Z",
			"2026-10-24T00:30:00Z 2026-10-25T00:30:00Z 2026-10-26T01:30:00Z"},
		{"hourly in spring", "30 * * * *", "2026-03-29T00:00:00Z", "2026-03-29T02:59:00Z",
			"2026-03-29T00:30:00Z 2026-03-29T01:30:00Z 2026-03-29T02:30:00Z"},
		{"hourly in autumn", "30 * * * *", "2026-10-25T00:00:00Z", "2026-10-25T02:59:00Z",
			"2026-10-25T00:30:00Z 2026-10-25T01:30:00Z 2026-10-25T02:30:00Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var now atomic.Int64
			set := func(text string) time.Time {
				at, err := time.Parse(time.RFC3339, text)
				if err != nil {
					t.Fatal(err)
				}
				return at
			}
			now.Store(set(tt.from).UnixMicro())
			clock := func() time.Time { return pawl.Time(now.Load()) }
			s, err := openStore("memory", ":memory:", clock)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			e := engine.New(engine.Config{Store: s, Clock: clock, Poll: 5 * time.Millisecond})
			t.Cleanup(e.Close)
			p := planner{t, e}
			p.add("name: w\ninputs: {scheduled_at: {type: string}}\nsteps: []\n", pawl.SchedulePlan{Cron: tt.cron, TimeZone: "Europe/Berlin"})
			for n := 1; ; n++ {
				next := p.view().Next[0]
				if next.Time().After(set(tt.until)) {
					break
				}
				now.Store(int64(next))
				p.untilMoved(lifecycle.ScheduleFire, n)
				until(t, "its job has ended", func() bool { return p.view().LastState == lifecycle.JobCompleted })
			}
			var got []string
			for _, j := range p.jobs() {
				var in struct {
					At string `json:"scheduled_at"`
				}
				if err := json.Unmarshal(j.Inputs, &in); err != nil {
					t.Fatal(err)
				}
				got = append(got, in.At)
			}
			if diff := cmp.Diff(strings.Fields(tt.want), got); diff != "" {
				t.Errorf("times (-want +got):\n%s", diff)
			}
			verify(t, s)
		})
	}
}

// An invalid plan is refused by name, value and the allowed values.
func TestPlansThatCannotBe(t *testing.T) {
	t.Parallel()
	s, err := openStore("memory", ":memory:", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	p := passive(t, s)
	p.add("name: w\ninputs: {day: {type: string}}\nsteps: []\n", pawl.SchedulePlan{})
	for _, tt := range []struct {
		name   string
		change func(*pawl.SchedulePlan)
		kind   pawl.Kind
		want   string
	}{
		{"no name", func(p *pawl.SchedulePlan) { p.Name = "" }, pawl.Invalid, `name of a schedule: ""`},
		{"a name with a sign first", func(p *pawl.SchedulePlan) { p.Name = "-x" }, pawl.Invalid, `name of a schedule: "-x"`},
		{"a name that is taken", func(p *pawl.SchedulePlan) { p.Name = "s" }, pawl.Conflict, "there is a schedule s already"},
		{"a negative catch-up", func(p *pawl.SchedulePlan) { p.CatchUp = -1 }, pawl.Invalid, "catch-up: -1ns: want 0s to 720h0m0s"},
		{"a long catch-up", func(p *pawl.SchedulePlan) { p.CatchUp = engine.MaxCatchUp + 1 }, pawl.Invalid, "want 0s to 720h0m0s"},
		{"an unknown overlap", func(p *pawl.SchedulePlan) { p.Overlap = "both" }, pawl.Invalid, `overlap "both"`},
		{"a high priority", func(p *pawl.SchedulePlan) { p.Priority = 1001 }, pawl.Invalid, "priority: 1001: want -1000 to 1000"},
		{"no expression", func(p *pawl.SchedulePlan) { p.Cron = "" }, pawl.Invalid, "want 5"},
		{"no zone", func(p *pawl.SchedulePlan) { p.TimeZone = "Mars" }, pawl.Invalid, `time zone "Mars"`},
		{"an unknown workflow", func(p *pawl.SchedulePlan) { p.Workflow = "x" }, pawl.NotFound, `no workflow "x" is registered`},
		{"an unknown version", func(p *pawl.SchedulePlan) { p.Workflow = "w@7" }, pawl.NotFound, "workflow w has no version 7"},
		{"a workflow that is no name", func(p *pawl.SchedulePlan) { p.Workflow = "w@x" }, pawl.Invalid, `"x" is not a version`},
		{"inputs that do not fit", func(p *pawl.SchedulePlan) { p.Inputs = json.RawMessage(`{"dya":"x"}`) }, pawl.Invalid, `no input "dya"`},
		{"inputs that are null", func(p *pawl.SchedulePlan) { p.Inputs = json.RawMessage(`null`) }, pawl.Invalid, "inputs: want a JSON object"},
		{"inputs that are a list", func(p *pawl.SchedulePlan) { p.Inputs = json.RawMessage(`[]`) }, pawl.Invalid, "inputs: want a JSON object"},
		{"two inputs", func(p *pawl.SchedulePlan) { p.Inputs = json.RawMessage(`{}{}`) }, pawl.Invalid, "nothing behind it"},
	} {
		plan := pawl.SchedulePlan{Name: "new", Workflow: "w", Cron: "@daily"}
		tt.change(&plan)
		if _, err := p.e.PutSchedule(t.Context(), plan, false, why); err == nil || pawl.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want an error of kind %d with %q", tt.name, err, tt.kind, tt.want)
		}
	}
	if _, err := p.e.PutSchedule(t.Context(), pawl.SchedulePlan{Name: "new", Workflow: "w", Cron: "@daily"}, true, why); pawl.KindOf(err) != pawl.NotFound {
		t.Errorf("an update of none: %v; want it not found", err)
	}
}

// Schedules are followed as long as an engine has a worker that lives.
func TestFollowed(t *testing.T) {
	onShared(t, func(t *testing.T, db *database) {
		p := passive(t, db.open())
		followed := func() bool {
			ok, err := p.e.Followed(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return ok
		}
		if followed() {
			t.Error("followed by nobody; want false")
		}
		kept := startProcess(t, db.open(), map[string]worker.Handler{"h": echo})
		if !followed() {
			t.Error("not followed while a worker lives; want true")
		}
		kept.stop()
		if followed() {
			t.Error("followed after the worker has ended; want false")
		}
	})
}
