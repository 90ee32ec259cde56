package main

import (
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestResolveWaitsForWeighing resolves a step in the moment after its failure: it is done once an
// engine has decided what follows, and refused if none does.
func TestResolveWaitsForWeighing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drainFile)
	w.claimAll("one", "two") // two keeps the job running
	w.freeze()
	defer w.close()
	a := w.held["one"]
	_, err := w.engine.Exchange(t.Context(), link.Exchange{Worker: w.worker,
		Reports: []link.Report{{Step: a.Step.StepKey, Claim: a.Step.Claims, Actor: "test", Report: decide.Report{Event: lifecycle.StepFailPermanently, Failure: &pawl.Failure{Class: "broken", Message: "broken", Permanent: true}}}}})
	w.check(err)
	_, err = w.engine.ResolveStep(t.Context(), w.id, "one", nil, byTester)
	if !errors.Is(err, decide.ErrNotApplied) || pawl.KindOf(err) != pawl.Conflict {
		t.Fatalf("with no engine: %v, want a conflict that is ErrNotApplied", err)
	}
	done := make(chan error)
	go func() { done <- errorOf(w.engine.ResolveStep(t.Context(), w.id, "one", nil, byTester)) }()
	live := engine.New(engine.Config{Store: w.store})
	defer live.Close()
	if err := <-done; err != nil {
		t.Errorf("with an engine: %v", err)
	}
	if got := w.state("one"); got != string(lifecycle.StepResolvedManually) {
		t.Errorf("the step is %s", got)
	}
}
