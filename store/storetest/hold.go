package storetest

import (
	"errors"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/store"
)

var holdTests = []test{
	{name: "Hold/TakenAndReleased", run: holdTaken},
	{name: "Hold/TwoHandles", run: holdTwoHandles, shared: true},
	{name: "Hold/StrangeNames", run: holdStrangeNames},
	{name: "T5/BeatAnswersStops", run: beatAnswersStops},
	{name: "J9/ReapTheSilent", run: reapTheSilent},
	{name: "J9/ReapTheGone", run: reapTheGone},
}

// held checks that the name is taken, with that note.
func (e *env) held(st store.Store, name, note string) {
	e.Helper()
	_, err := st.Hold(e.ctx, name, []byte(`{"who":"late"}`))
	var taken *store.HeldError
	if !errors.As(err, &taken) || taken.Name != name || string(taken.Note) != note {
		e.Errorf("hold %q: error %v, want a HeldError with the note %s", name, err, note)
	}
}

func (e *env) hold(st store.Store, name, note string) (release func()) {
	e.Helper()
	release, err := st.Hold(e.ctx, name, []byte(note))
	e.ok(err)
	e.Cleanup(release)
	return release
}

func holdTaken(e *env) {
	release := e.hold(e.st, "worker/1", `{"pid":1}`)
	e.held(e.st, "worker/1", `{"pid":1}`)
	e.hold(e.st, "worker/2", "")
	release()
	release() // twice is fine
	e.hold(e.st, "worker/1", `{"pid":2}`)
	release() // and does not release the second
	e.held(e.st, "worker/1", `{"pid":2}`)
}

func holdTwoHandles(e *env) {
	other := e.open()
	release := e.hold(e.st, "engine", `{"pid":1}`)
	e.held(other, "engine", `{"pid":1}`)
	release()
	e.hold(other, "engine", `{"pid":2}`)
	e.held(e.st, "engine", `{"pid":2}`)
}

func holdStrangeNames(e *env) {
	names := []string{"a/b", "a%2Fb", "../x", ".", "ü \n'", strings.Repeat("long/", 200), strings.Repeat("long/", 200) + "er"}
	for _, name := range names {
		e.hold(e.st, name, name)
	}
	for _, name := range names {
		e.held(e.st, name, name)
	}
}

func beatAnswersStops(e *env) {
	w := e.addWorker()
	e.hold(e.st, workerName(w), "")
	m := e.add(3, func(m made, b *Batch) {
		claimed(w.Key())(m, b)
		m.steps[1].Claims = 4
		b.MoveStep(m.job, m.steps[1], lifecycle.StepCancelRequested)
		m.steps[1].DueAt, m.steps[1].DueEvent = b.now+1e6, "cancel"
		m.steps[2].DueAt, m.steps[2].DueEvent = b.now+1e6, lifecycle.StepTimeout
	})
	e.add(1, func(m made, b *Batch) { // another's
		claimed(w.Key()+1)(m, b)
		m.steps[0].DueAt, m.steps[0].DueEvent = b.now+1e6, "cancel"
	})
	stops, err := e.st.Beat(e.ctx, w.Key())
	e.ok(err)
	e.diff("stops", []store.Stop{{StepKey: m.steps[1].StepKey, Claim: 4}}, stops)
}

func (e *env) reap(st store.Store, silence time.Duration) map[int64]string {
	e.Helper()
	dead, err := st.Reap(e.ctx, silence)
	e.ok(err)
	reasons := map[int64]string{}
	for _, d := range dead {
		reasons[d.Worker] = d.Reason
	}
	return reasons
}

func reapTheSilent(e *env) {
	w := e.addWorker()
	e.hold(e.st, workerName(w), "")
	_, err := e.st.Beat(e.ctx, w.Key())
	e.ok(err)
	if dead := e.reap(e.st, time.Hour); len(dead) != 0 {
		e.Errorf("dead %v, want none", dead)
	}
	if dead := e.reap(e.st, 0); len(dead) != 0 {
		e.Errorf("dead %v where names alone count, want none", dead)
	}
	dead := e.reap(e.st, time.Microsecond) // whatever it did is too long ago
	if len(dead) != 1 || !strings.HasPrefix(dead[w.Key()], "silent for ") {
		e.Errorf("dead %v, want %d, silent", dead, w.Key())
	}
}

// reapTheGone: who holds no name is dead, whoever has ended is not asked. With a
// silence of 0 names alone count.
func reapTheGone(e *env) {
	held, gone, ended := e.addWorker(), e.addWorker(), e.addWorker()
	e.hold(e.st, workerName(held), "")
	release := e.hold(e.st, workerName(gone), "")
	e.do(&store.Query{Workers: []int64{ended.Key()}}, func(f *store.Facts, b *Batch) {
		b.MoveWorker(f.Workers[ended.Key()], lifecycle.WorkerTerminate)
	})
	release()
	e.diff("dead", map[int64]string{gone.Key(): "its process is gone"}, e.reap(e.st, 0))
}

// workerName is the name that the process of a worker holds.
func workerName(w *pawl.Worker) string { return "worker/" + decimal(w.Key()) }
