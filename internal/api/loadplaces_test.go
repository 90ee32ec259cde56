package api

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestPlaces: a run has no more places than it may, so that one that keeps all of its own leaves others to the rest, and who
// waits gets the first that is free (L7).
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
