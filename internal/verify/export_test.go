package verify

import (
	"math/rand/v2"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/expressions"
	"github.com/pawl-dev/pawl/internal/rehearsal"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// Walk takes a job to its end by chance: any step may end next, and each time in
// every way there is.
func Walk(def *workflow.Definition, seed uint64) (machine.State, []Finding, error) {
	r, err := expressions.Read(def)
	if err != nil {
		return "", nil, err
	}
	sets, err := r.Inputs(nil, expressions.InputSets)
	if err != nil {
		return "", nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	x := newExplorer(r)
	var findings []Finding
	x.report = func(f Finding, w *rehearsal.World) {
		f.Trace = w.Timeline()
		findings = append(findings, f)
	}
	x.pick = rng.IntN
	x.actor = func(w *rehearsal.World) *pawl.Step {
		clear(x.ways)
		var able []*pawl.Step
		for _, s := range w.All() {
			if s.State == lifecycle.StepInProgress && !w.IsFan(s) || s.State == lifecycle.StepPending && s.DueAt > 0 {
				able = append(able, s)
			}
		}
		if len(able) == 0 {
			return nil
		}
		return able[rng.IntN(len(able))]
	}
	w := rehearsal.New(def, sets[rng.IntN(len(sets))], x)
	for err = w.Start(); err == nil && !w.Ended(); err = x.advance(w) {
		if err := w.Check(); err != nil {
			return "", nil, err
		}
	}
	return w.Job().State, findings, err
}

// Stuck continues a job in which nothing more can happen, and returns what is said of
// it then, and of one that counts wrong.
func Stuck(def *workflow.Definition) (explored, miscounted error) {
	r, err := expressions.Read(def)
	if err != nil {
		return err, err
	}
	x := newExplorer(r)
	x.pick = func(int) int { return 0 }
	w := rehearsal.New(def, []byte("{}"), x)
	w.Job().State = lifecycle.JobRunning // and no step has been started
	explored = x.advance(w)
	w.Job().Active = 1
	return explored, w.Check()
}

// Halted explores after a stop, and returns how many outcomes it goes through all the
// same.
func Halted(def *workflow.Definition) (outcomes int, err error) {
	r, err := expressions.Read(def)
	if err != nil {
		return 0, err
	}
	sets, err := r.Inputs(nil, 1)
	if err != nil {
		return 0, err
	}
	x := newExplorer(r)
	stop := make(chan struct{})
	close(stop)
	x.stop = stop
	x.run(sets)
	return x.outcomes, nil
}
