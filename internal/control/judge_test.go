package control

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
)

// An order is done, has failed or continues: what was before it does not count.
func TestJudged(t *testing.T) {
	t.Parallel()
	at := func(state string, since int64, change func(*Service)) *Service {
		phase, ok := map[string]string{Completed: "stopped", Starting: "trying_to_start"}[state]
		if !ok {
			phase = state
		}
		s := &Service{State: state, Since: time.Unix(since, 0), Wanted: "running", Starts: 1, Why: []string{"exit code 1"}}
		for _, p := range lifecycle.Service.States {
			if string(p) == phase {
				s.Phase = p
			}
		}
		if change != nil {
			change(s)
		}
		return s
	}
	stopped := func(s *Service) { s.Wanted = "stopped" }
	again := func(s *Service) { s.Starts++ }
	for _, tt := range []struct {
		name        string
		verb        Verb
		before, now *Service
		done        bool
		failure     string
	}{
		{"started", Start, at("stopped", 1, stopped), at(Running, 2, nil), true, ""},
		{"it runs already", Start, at(Running, 1, nil), at(Running, 1, nil), true, ""},
		{"it runs, and badly", Start, at(Running, 1, nil), at("degraded", 2, nil), true, ""},
		{"starting", Start, at("stopped", 1, stopped), at(Starting, 2, nil), false, ""},
		{"failed before", Start, at("failed", 1, nil), at("failed", 1, nil), false, ""},
		{"failed again", Start, at("failed", 1, nil), at("failed", 2, nil), true, "exit code 1"},
		{"completed again", Start, at(Completed, 1, nil), at(Completed, 2, nil), true, ""},
		{"completed before", Start, at(Completed, 1, nil), at(Completed, 1, nil), false, ""},
		{"stopped meanwhile", Start, at("stopped", 1, stopped), at("stopped", 2, stopped), true, "another order stopped it"},
		{"not restarted yet", Restart, at(Running, 1, nil), at(Running, 1, nil), false, ""},
		{"on its way", Restart, at(Running, 1, nil), at("stopped", 2, nil), false, ""},
		{"restarted", Restart, at(Running, 1, nil), at(Running, 2, again), true, ""},
		{"restarted within one moment", Restart, at(Running, 1, nil), at(Running, 1, again), true, ""},
		{"stopping", Stop, at(Running, 1, nil), at("trying_to_stop", 2, stopped), false, ""},
		{"stopped", Stop, at(Running, 1, nil), at("stopped", 2, stopped), true, ""},
		{"it was stopped", Stop, at("stopped", 1, stopped), at("stopped", 1, stopped), true, ""},
		{"started meanwhile", Stop, at(Running, 1, nil), at(Running, 2, nil), true, "another order started it again"},
	} {
		done, failure := Judge(tt.verb, tt.before, tt.now)
		if done != tt.done || failure != tt.failure {
			t.Errorf("%s: %t, %q; want %t, %q", tt.name, done, failure, tt.done, tt.failure)
		}
	}
}
