package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/lifecycle"
)

// shortSeed has every kind of fault that matters in its 20 rounds.
const shortSeed = 1911

// TestShortForm is what a build can afford of make chaos (T5, T10, J7, J9, K5,
// K6, K8).
func TestShortForm(t *testing.T) {
	build := &config{dir: t.TempDir()}
	if err := build.build(); err != nil {
		t.Fatal(err)
	}
	t.Run("a clock that is set", func(t *testing.T) {
		t.Parallel()
		aClockThatIsSetKillsNobody(t, build.binary)
	})
	t.Run("an outage of the database alone", func(t *testing.T) {
		t.Parallel()
		c := &config{binary: build.binary, kind: "postgres", roleMix: "split", outages: true, patience: 3 * time.Minute, jobs: 200, progress: t.Logf}
		r, err := c.all(t.Context(), shortSeed, 1)
		if err != nil {
			t.Fatal(err)
		}
		if r.Rounds != 1 || r.Endured < lastingJobs || r.Losses > 0 {
			t.Errorf("%d rounds, %d steps endured an outage, %d were lost; want 1, %d or more, and none", r.Rounds, r.Endured, r.Losses, lastingJobs)
		}
	})
	t.Run("workers in other languages", func(t *testing.T) {
		t.Parallel()
		c := &config{binary: build.binary, kind: "sqlite", roleMix: "python,node", silence: 2 * time.Second, patience: 3 * time.Minute, jobs: 200, progress: t.Logf}
		r, err := c.all(t.Context(), shortSeed, 3)
		if err != nil {
			t.Fatal(err)
		}
		if r.Rounds != 3 || r.Holders["python"] == 0 || r.Holders["node"] == 0 {
			t.Errorf("%d rounds, want 3; steps by the process that had them last: %v", r.Rounds, r.Holders)
		}
	})
	for database, rounds := range map[string]int{"postgres": fullRun, "sqlite": 4} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			c := &config{binary: build.binary, kind: database, roleMix: "split", silence: 2 * time.Second, patience: 3 * time.Minute, jobs: 200, progress: t.Logf}
			r, err := c.all(t.Context(), shortSeed, rounds)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			if err := r.print(&b, false); err != nil {
				t.Fatal(err)
			}
			t.Log(b.String())
			killed := r.Losses > 0 || database == "sqlite" // where a kill may meet a moment without a claim
			if r.Rounds != rounds || r.Effects < r.Jobs || !killed || r.Fired == 0 || r.Passed == 0 {
				t.Errorf("%d rounds, %d jobs, %d effects, %d claims whose worker died, %d times that made a job, %d that did not; want %d rounds with all of that",
					r.Rounds, r.Jobs, r.Effects, r.Losses, r.Fired, r.Passed, rounds)
			}
		})
	}
}

// TestRoles: which processes a mix of roles has.
func TestRoles(t *testing.T) {
	t.Parallel()
	for mix, want := range map[string][]string{
		"far": {dev, dev, far, far}, "python": {dev, dev, "python", "python"}, "far,python,node": {dev, dev, far, "python", "node"},
		"far,far": nil, "far,perl": nil, "": nil, "split": nil, "dev": nil,
	} {
		c := &config{kind: "sqlite", roleMix: mix}
		if c.over() == nil {
			if want != nil {
				t.Errorf("%q is refused", mix)
			}
			continue
		}
		if diff := cmp.Diff(want, c.roles(1)); diff != "" {
			t.Errorf("%q (-want +got)\n%s", mix, diff)
		}
	}
}

func TestASeedRepeatsItsFaults(t *testing.T) {
	t.Parallel()
	draw := func(seed uint64) []round { return drawRounds(seed, 20, 200, 2*time.Second, onPostgres) }
	if diff := cmp.Diff(draw(7), draw(7)); diff != "" {
		t.Errorf("two draws of a seed differ:\n%s", diff)
	}
	if cmp.Equal(draw(7), draw(8)) {
		t.Error("two seeds draw the same")
	}
}

func TestEveryFaultAndShapeIsDrawn(t *testing.T) {
	t.Parallel()
	for _, chances := range [][]chance{onPostgres, onSQLite} {
		drawn, jobs := map[string]bool{}, map[string]bool{}
		for seed := range uint64(50) {
			for _, p := range drawRounds(seed, 20, 200, 2*time.Second, chances) {
				for _, f := range p.Faults {
					drawn[string(f.Kind)+f.Role] = true
				}
				for _, name := range p.Jobs {
					jobs[name] = true
				}
			}
		}
		for _, c := range append(verbs, chances...) {
			if !drawn[string(c.kind)+c.role] {
				t.Errorf("%s %s is never drawn", c.kind, c.role)
			}
		}
		if len(jobs) != len(shapes) {
			t.Errorf("%d of %d shapes are drawn", len(jobs), len(shapes))
		}
	}
}

func TestShapesAreWorkflows(t *testing.T) {
	t.Parallel()
	for _, s := range append(shapes, lasting) {
		if _, err := s.submission("/", "r", 1); err != nil {
			t.Error(err)
		}
	}
}

// made is an outcome of one job with one step that is as it should be.
func made() *outcome {
	id := pawl.MakeID(time.UnixMilli(1e12), 1, 2)
	s := &pawl.Step{StepKey: pawl.StepKey{Job: id.JobKey(), Ord: pawl.MakeOrd(1, 0)}, Claims: 2, Worker: 5}
	s.State = lifecycle.StepComplete
	o := &outcome{
		records: map[rowkey.Job]*pawl.Job{id.JobKey(): {ID: id}}, steps: map[pawl.StepKey]*pawl.Step{s.StepKey: s},
		trails: map[pawl.StepKey][]audit.Entry{s.StepKey: {{Event: lifecycle.StepClaim}, {Event: lifecycle.StepLost}, {Event: lifecycle.StepClaim}}},
	}
	o.effects = map[effect]int{{id.Public(pawl.JobPrefix), id.Step(s.Ord).Public(pawl.StepPrefix), 2}: 1}
	return o
}

// The checks find what they look for.
func TestChecksFindFaults(t *testing.T) {
	t.Parallel()
	step := func(o *outcome) *pawl.Step {
		for _, s := range o.steps {
			return s
		}
		return nil
	}
	other := func(o *outcome, claim int) (e effect) {
		for e = range o.effects {
			e.claim = claim
		}
		return e
	}
	for name, tt := range map[string]struct {
		change func(*outcome)
		want   string
	}{
		"nothing":             {func(*outcome) {}, ""},
		"killed before":       {func(o *outcome) { o.effects[other(o, 1)] = 1 }, ""},
		"done twice":          {func(o *outcome) { o.effects[other(o, 2)] = 2 }, "2 times under claim 2"},
		"by nobody's claim":   {func(o *outcome) { o.effects[other(o, 3)] = 1 }, "claim 3, which was not made"},
		"never done":          {func(o *outcome) { clear(o.effects) }, "had no effect"},
		"left in progress":    {func(o *outcome) { step(o).State = lifecycle.StepInProgress }, "is in_progress"},
		"a claim is missing":  {func(o *outcome) { o.trails[step(o).StepKey] = o.trails[step(o).StepKey][:1] }, "1 claims in its trail"},
		"a step without job":  {func(o *outcome) { clear(o.records) }, "has no job"},
		"of another job":      {func(o *outcome) { o.effects[effect{"j_1", "s_1", 1}] = 1 }, "not made"},
		"taken over, no work": {func(o *outcome) { clear(o.effects); o.records[step(o).Job].Continues = 1 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := made()
			tt.change(o)
			got := fmt.Sprint(o.checkStep(step(o)), o.checkEffects())
			if tt.want == "" && got != "<nil> <nil>" || !strings.Contains(got, tt.want) {
				t.Errorf("got %s, want %q", got, tt.want)
			}
		})
	}
}

func TestMostCountsOverlaps(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		spans []span
		want  int
	}{
		{nil, 0}, {[]span{{1, 2}, {2, 3}}, 1}, {[]span{{1, 3}, {2, 4}, {3, 5}}, 2}, {[]span{{1, 9}, {2, 8}, {3, 7}}, 3},
	} {
		if got := most(tt.spans); got != tt.want {
			t.Errorf("%v: %d at once, want %d", tt.spans, got, tt.want)
		}
	}
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	r, total := newReport(), newReport()
	for _, i := range rand.Perm(101) {
		r.rescued(time.Duration(i)*time.Millisecond, fmt.Sprint("fault ", i))
	}
	total.add(r)
	if diff := cmp.Diff(times{Steps: 101, P50: 50, P99: 99, Max: 100, Worst: "fault 100"}, total.Rescue); diff != "" {
		t.Error(diff)
	}
}
