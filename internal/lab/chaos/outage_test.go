package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A seed repeats its outages, which are of every kind and as long as they should be, and
// each finds steps that last (J9).
func TestOutagesAreDrawn(t *testing.T) {
	t.Parallel()
	plan := drawOutages(7, 9, 90)
	if diff := cmp.Diff(plan, drawOutages(7, 9, 90)); diff != "" {
		t.Errorf("two draws of a seed differ:\n%s", diff)
	}
	if cmp.Equal(plan, drawOutages(8, 9, 90)) {
		t.Error("two seeds draw the same")
	}
	count := map[kind]int{}
	for i, p := range plan {
		if len(p.Faults) != 1 || p.Faults[0].For < minOutage || p.Faults[0].For >= maxOutage {
			t.Errorf("round %d has faults %+v; want one outage of %s to %s", i, p.Faults, minOutage, maxOutage)
		}
		if n := strings.Count(strings.Join(p.Jobs, " "), lasting.name); n != lastingJobs || len(p.Jobs) != lastingJobs+10 {
			t.Errorf("round %d has jobs %q; want %d that last, and 10 more", i, p.Jobs, lastingJobs)
		}
		count[p.Faults[0].Kind]++
	}
	if diff := cmp.Diff(map[kind]int{killedOutage: 3, stoppedOutage: 3, cutOffOutage: 3}, count); diff != "" {
		t.Error(diff)
	}
}

// TestHarmIsFound: what must not happen by an outage of the database alone is found in the
// trail, and what may is not (J9, T10).
func TestHarmIsFound(t *testing.T) {
	t.Parallel()
	trail := func(kind string, actor string, events ...machine.Event) store.TrailOf {
		of := store.TrailOf{EntityKey: store.EntityKey{Kind: kind, StepKey: pawl.StepKey{Job: 1, Ord: pawl.MakeOrd(1, 0)}}}
		for i, e := range events {
			of.Entries = append(of.Entries, audit.Entry{Sequence: int64(i + 1), Event: e, Actor: actor, At: time.Now().UnixMicro()})
		}
		return of
	}
	for name, tt := range map[string]struct {
		trail store.TrailOf
		want  string
	}{
		"a step that failed and ran again": {trail(lifecycle.Step.Name, "w", lifecycle.StepClaim, lifecycle.StepFail, lifecycle.StepRetry, lifecycle.StepClaim, lifecycle.StepSuccess), ""},
		"a step whose job was cancelled":   {trail(lifecycle.Step.Name, "w", lifecycle.StepClaim, lifecycle.StepCancelRequested, lifecycle.StepCancel), ""},
		"a worker that ended by itself":    {trail(lifecycle.Worker.Name, "w_1", lifecycle.WorkerRegister, lifecycle.WorkerTerminate), ""},
		"a lost step":                      {trail(lifecycle.Step.Name, engineActor, lifecycle.StepClaim, lifecycle.StepLost), "entry 2, lost"},
		"an interrupted step":              {trail(lifecycle.Step.Name, "w", lifecycle.StepClaim, lifecycle.StepInterrupt, lifecycle.StepClaim), "entry 2, interrupt"},
		"a worker taken for dead":          {trail(lifecycle.Worker.Name, engineActor, lifecycle.WorkerRegister, lifecycle.WorkerTerminate), "entry 2, terminate"},
	} {
		t.Run(name, func(t *testing.T) {
			err := harmOf(tt.trail)
			if got := fmt.Sprint(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	if err := doubled(map[effect]int{{"j_1", "s_1", 1}: 1, {"j_1", "s_1", 2}: 1}); err != nil {
		t.Error(err)
	}
	if err := doubled(map[effect]int{{"j_1", "s_1", 1}: 1, {"j_1", "s_2", 1}: 2}); err == nil || !strings.Contains(err.Error(), "s_2 had its effect 2 times") {
		t.Errorf("an effect that one claim had twice: %v", err)
	}
}

func TestAProxyThatIsDown(t *testing.T) {
	t.Parallel()
	p, c := echoed(t)
	if err := say(t, c, ages); err != nil {
		t.Fatal(err)
	}
	p.set(weather{down: true})
	if err := say(t, c, ages); err == nil {
		t.Error("a connection goes on while the proxy is down")
	}
	if err := say(t, dialed(t, p), ages); err == nil {
		t.Error("a connection is made while the proxy is down")
	}
	p.set(weather{})
	if err := say(t, dialed(t, p), ages); err != nil {
		t.Errorf("after it was down: %v", err)
	}
}
