package api

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestPlaces: a run has no more places than it may, so that one that keeps all of its own leaves others to the rest, and one
// that becomes free goes to somebody who waits and may have it (L7).
func TestPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(3, 2)
		var dones []func()
		for _, tt := range []struct {
			run string
			ok  bool
		}{{"a", true}, {"a", true}, {"a", false}, {"b", true}, {"c", false}} {
			done, ok, _ := p.take(tt.run)
			if ok != tt.ok {
				t.Errorf("%s: %t", tt.run, ok)
			}
			if ok {
				dones = append(dones, done)
			}
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.wait(over, "a"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		got := make(chan string, 2)
		for _, run := range []string{"a", "c"} {
			go func() {
				if _, err := p.wait(t.Context(), run); err == nil {
					got <- run
				}
			}()
		}
		synctest.Wait()
		dones[2]() // of b: for c alone, since a has all that it may have
		if run := <-got; run != "c" {
			t.Errorf("%s has the place of b", run)
		}
		dones[0]()
		if run := <-got; run != "a" {
			t.Errorf("%s has the place of a", run)
		}
	})
}

// TestComparisonsAtOnce: a comparison has its place for both runs before it reads anything, so that as many as may be made
// at once do not refuse each other; each counts for both runs (L7).
func TestComparisonsAtOnce(t *testing.T) {
	t.Parallel()
	s := &Service{evaluating: newPlaces(maxEvaluated, maxEvaluatedOfRun)}
	var dones []func()
	for _, runs := range [][]string{{"a", "b"}, {"a", "c"}, {"d", "d"}} {
		done, err := s.evaluate(runs...)
		if err != nil {
			t.Fatalf("%v: %v", runs, err)
		}
		dones = append(dones, done)
	}
	if _, err := s.evaluate("e", "f"); err == nil {
		t.Error("there is a place too many")
	}
	dones[2]()
	if _, err := s.evaluate("e", "a"); err == nil {
		t.Error("run a has a place too many")
	}
	if _, err := s.evaluate("c", "d"); err != nil || s.evaluating.taken["d"] != 1 {
		t.Errorf("%v, %+v", err, s.evaluating)
	}
}
