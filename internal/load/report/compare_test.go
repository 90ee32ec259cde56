package report

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/load/histogram"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/load/stats"
)

// simulated draws the seconds of a run whose seconds differ from one another, as those of disks
// do: each has its own factor for all its latencies.
func simulated(random *rand.Rand, seconds int, slower float64) []sample {
	all := make([]sample, seconds)
	for i := range all {
		factor := slower * math.Exp(0.05*random.NormFloat64())
		c := &stats.Counter{Operations: uint64(50 / factor)}
		for range c.Operations {
			c.Service.Record(int64(factor * 1e5 * (0.5 + random.ExpFloat64())))
		}
		all[i] = sampleOf(c, 1)
	}
	return all
}

// TestSameDistribution: of 200 pairs of runs of one distribution some 95 % show no difference,
// by each measure; and a run whose operations take 20 % longer is worse by each (L7).
func TestSameDistribution(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 7))
	equal, found := map[string]int{}, map[string]int{}
	const pairs, slower = 200, 10
	for i := range pairs {
		for _, m := range compared("read", simulated(random, 30, 1), simulated(random, 30, 1)).Measures {
			if m.Verdict == NoDifference {
				equal[m.Measure]++
			}
		}
		if i >= slower {
			continue
		}
		for _, m := range compared("read", simulated(random, 90, 1), simulated(random, 90, 1.2)).Measures {
			if m.Verdict == Worse {
				found[m.Measure]++
			}
		}
	}
	t.Log("no difference:", equal, "worse:", found)
	for _, m := range []string{MeasureRate, MeasureP50, MeasureP99} {
		if equal[m] < 180 || equal[m] == pairs {
			t.Errorf("%s: %d of %d pairs of one distribution show no difference", m, equal[m], pairs)
		}
		if found[m] < slower {
			t.Errorf("%s: %d of %d slower runs were found", m, found[m], slower)
		}
	}
}

// TestCompare: whole runs are compared by operation, in both directions.
func TestCompare(t *testing.T) {
	t.Parallel()
	evaluated := func(m model) *Report {
		m.agents, m.seconds, m.config = 2, 20, config
		run, _ := m.run(t)
		r, err := Evaluate(&run)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	fast, slow := evaluated(model{seed: 1}), evaluated(model{seed: 2, slower: 1.5})
	for _, tt := range []struct {
		name string
		a, b *Report
		want Verdict
	}{
		{"slower", fast, slow, Worse}, {"faster", slow, fast, Better}, {"itself", fast, fast, NoDifference},
	} {
		c, err := Compare(tt.a, tt.b, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Operations) != 3 {
			t.Fatalf("%+v", c)
		}
		for _, o := range c.Operations {
			for _, m := range o.Measures {
				if m.Measure == MeasureErrors {
					continue
				}
				if m.Verdict != tt.want || m.Low > m.Change || m.High < m.Change {
					t.Errorf("%s: %s %+v, want %s", tt.name, o.Operation, m, tt.want)
				}
			}
		}
	}
}

// TestCompareFailures: what only one run has done is listed, and failures that the other does not have
// make it worse (L7).
func TestCompareFailures(t *testing.T) {
	t.Parallel()
	a := &Summary{Operations: []Operation{{Operation: "read", Figures: Figures{Operations: 100}}, {Operation: "stat", Figures: Figures{Operations: 5}}}}
	b := &Summary{Operations: []Operation{{Operation: "write", Figures: Figures{Operations: 7}}, {Operation: "read", Figures: Figures{Operations: 90, Errors: 10}}, {Operation: "stat", Figures: Figures{Errors: 5}}}}
	if diff := cmp.Diff([]string{"read", "write", "stat"}, operationsOfBoth(a, b)); diff != "" {
		t.Error(diff)
	}
	for _, tt := range []struct {
		operation string
		a, b      *Summary
		want      []Verdict
		share     float64 // of failures, of the second
	}{
		{"read", a, b, []Verdict{TooShort, TooShort, TooShort, Worse}, 0.1},
		{"read", b, a, []Verdict{TooShort, TooShort, TooShort, Better}, 0},
		{"read", b, b, []Verdict{TooShort, TooShort, TooShort, NotJudged}, 0.1},
		{"stat", a, b, []Verdict{OnlyInA, OnlyInA, OnlyInA, Worse}, 1}, // all fail
		{"write", a, b, []Verdict{OnlyInB, OnlyInB, OnlyInB}, 0},
	} {
		c := compared(tt.operation, nil, nil)
		c.count(tt.a.figures(tt.operation), tt.b.figures(tt.operation))
		var got []Verdict
		for _, m := range c.Measures {
			if got = append(got, m.Verdict); m.Measure == MeasureErrors && m.B != tt.share || math.IsNaN(m.A+m.B) {
				t.Errorf("%+v", m)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Error(tt.operation, diff)
		}
	}
}

// TestTooShort: runs of a few seconds are not judged, nor are percentiles of a few operations.
func TestTooShort(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	for _, m := range compared("read", simulated(random, 4, 1), simulated(random, 30, 1)).Measures {
		if m.Verdict != TooShort || m.A <= 0 {
			t.Errorf("%+v", m)
		}
	}
	few := compared("read", simulated(random, 30, 1), simulated(random, 10, 1)).Measures
	if few[0].Verdict == TooShort || few[1].Verdict == TooShort || few[2].Verdict != TooShort {
		t.Errorf("%+v", few)
	}
}

// TestNotComparable: runs of other loads are refused with the keys that differ, unless forced.
func TestNotComparable(t *testing.T) {
	t.Parallel()
	run, _ := model{seed: 1, agents: 1, seconds: 10, config: config}.run(t)
	other := run
	test := *run.Test
	test.Name, test.Jobs, test.Rate, test.Warmup = "renamed", 4, nil, 3*time.Second
	test.Mix = []spec.Operation{{Kind: spec.Stat, Files: "data", Weight: 1, Access: spec.Access{Pattern: spec.Zipf, Theta: 1.1}}}
	other.Test, other.Agents = &test, append(other.Agents, other.Agents...)
	a, err := Evaluate(&run)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Evaluate(&other)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Compare(a, b, false)
	var refused *pawl.Error
	if !errors.As(err, &refused) || refused.Kind != pawl.Invalid {
		t.Fatal(err)
	}
	want := `the runs are not comparable:
  agents: 1 and 2
  mix: [{operation: read, files: data, weight: 3, block: 4KiB, access: random}, {operation: write, files: data, weight: 1, block: 64KiB, access: random}, {operation: stat, files: data, weight: 1, access: random}] and [{operation: stat, files: data, weight: 1, access: {zipf: 1.1}}]
  jobs: 1 and 4
  rate: 100 constant and none
  warmup: 2s and 3s`
	if diff := cmp.Diff(want, refused.Message); diff != "" {
		t.Error(diff)
	}
	c, err := Compare(a, b, true)
	if err != nil || len(c.Config) != 5 {
		t.Error(c, err)
	}
}

// TestQuantile: the quantile of a comparison is within a bucket of the histogram's.
func TestQuantile(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 3))
	var h histogram.Histogram
	c := &stats.Counter{}
	for range 10_000 {
		v := int64(1e6 * random.ExpFloat64())
		h.Record(v)
		c.Service.Record(v)
	}
	s := sampleOf(c, 1)
	for _, q := range []float64{0.01, 0.5, 0.99, 1} {
		if got, want := quantile(s.buckets, q), float64(h.Quantile(q)); got > want || got < want*(1-resolution)-1 {
			t.Errorf("%v: %v, the histogram has %v", q, got, want)
		}
	}
}
