package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A machine makes up costs as a busy one does: each run differs by a few percent, one in ten was
// disturbed, and the machine slows down or speeds up from run to run.
type machine struct {
	*rand.Rand
	spread float64 // of a run
}

func (m machine) blocks(rounds int, slowdown float64) []block {
	var list []block
	level := 1.0
	for round := range rounds {
		next := func(factor float64) float64 {
			level *= math.Exp(0.02 * m.NormFloat64())
			v := level * factor * math.Exp(m.spread*m.NormFloat64())
			if m.IntN(10) == 0 {
				v *= 1 + m.Float64()
			}
			return v
		}
		var b block
		for _, i := range order(round) {
			if i < 2 {
				b.base[i] = next(1)
			} else {
				b.head[i-2] = next(slowdown)
			}
		}
		list = append(list, b)
	}
	return list
}

// comparisons returns as many as a run has. The time and the CPU time of one workload change.
func (m machine) comparisons(slowdown float64) []*Comparison {
	var list []*Comparison
	for i := range 30 {
		if i == 2 {
			slowdown = 1
		}
		list = append(list, &Comparison{blocks: m.blocks(6, slowdown)})
	}
	return list
}

// TestTheSameProgramIsNotSlower: in 200 runs of a program against itself, with 30 comparisons
// each, at most 1 in 20 calls any of them slower.
func TestTheSameProgramIsNotSlower(t *testing.T) {
	t.Parallel()
	m := machine{rand.New(rand.NewPCG(1, 2)), 0.05}
	const runs = 200
	wrong := 0
	for range runs {
		if count(m.comparisons(1), Slower, m.Rand) > 0 {
			wrong++
		}
	}
	t.Logf("%d of %d runs called something slower", wrong, runs)
	if wrong > runs/20 {
		t.Errorf("%d of %d runs called something slower; want at most %d", wrong, runs, runs/20)
	}
}

// TestASlowdownIsFound: one of 15 percent of a workload is, in at least 9 of 10 runs whose figures
// differ by 4 percent, and a speed-up is called one.
func TestASlowdownIsFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		factor  float64
		verdict string
	}{{"slower", 1.15, Slower}, {"faster", 1 / 1.15, Faster}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := machine{rand.New(rand.NewPCG(3, 4)), 0.04}
			const runs = 100
			found := 0
			for range runs {
				list := m.comparisons(tt.factor)
				judge(list, m.Rand)
				if list[0].Verdict == tt.verdict || list[1].Verdict == tt.verdict {
					found++
				}
			}
			t.Logf("found in %d of %d runs", found, runs)
			if found < runs*9/10 {
				t.Errorf("found in %d of %d runs", found, runs)
			}
		})
	}
}

func count(list []*Comparison, verdict string, r *rand.Rand) (n int) {
	judge(list, r)
	for _, c := range list {
		if c.Verdict == verdict {
			n++
		}
	}
	return n
}

// TestVerdicts are the borders: a difference that is certain and small, one that is large and
// within the noise of the same program, and too few rounds.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	same := func(n int, base, head [2]float64) (list []block) {
		for range n {
			list = append(list, block{base, head})
		}
		return list
	}
	for _, tt := range []struct {
		name   string
		blocks []block
		want   string
	}{
		{"certain, 10 percent", same(6, [2]float64{100, 100}, [2]float64{110, 110}), Slower},
		{"certain, 1 percent", same(6, [2]float64{100, 100}, [2]float64{101, 101}), Same},
		{"certain, faster", same(6, [2]float64{110, 110}, [2]float64{100, 100}), Faster},
		{"equal", same(6, [2]float64{100, 100}, [2]float64{100, 100}), Same},
		{"each program differs more from itself", same(6, [2]float64{100, 130}, [2]float64{110, 160}), Same},
		{"one round", same(1, [2]float64{100, 100}, [2]float64{200, 200}), TooFew},
		{"none", nil, TooFew},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := &Comparison{blocks: tt.blocks}
			judge([]*Comparison{c}, rand.New(rand.NewPCG(5, 6)))
			if c.Verdict != tt.want {
				t.Errorf("%+v; want %s", c, tt.want)
			}
		})
	}
}

// TestNoise: of a program compared with itself the effect is below the noise as often as
// docs/bench.md says, where no run was disturbed.
func TestNoise(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	for _, rounds := range []int{4, 6, 8, 12} {
		const cases = 2000
		below := 0
		for range cases {
			list := make([]block, rounds)
			for i := range list {
				run := func() float64 { return math.Exp(0.05 * r.NormFloat64()) }
				list[i] = block{[2]float64{run(), run()}, [2]float64{run(), run()}}
			}
			if math.Abs(effect(list)) <= noise(list, r) {
				below++
			}
		}
		t.Logf("%d rounds: below in %d of %d cases", rounds, below, cases)
		if below < cases*92/100 || below > cases*98/100 {
			t.Errorf("%d rounds: below in %d of %d cases", rounds, below, cases)
		}
	}
}

// TestALimitDoesNotKnowTheNames: a permutation test needs a statistic that is the same function
// of the effects whichever runs are called those of the base.
func TestALimitDoesNotKnowTheNames(t *testing.T) {
	t.Parallel()
	m := machine{rand.New(rand.NewPCG(9, 10)), 0.05}
	most := func(blocks []block) (most float64) {
		for _, e := range limited(blocks, 1) {
			most = max(most, slices.Max(e[:]))
		}
		return most
	}
	for range 100 {
		blocks := m.blocks(6, 1.15)
		want := most(blocks)
		for i, b := range blocks {
			runs := [4]float64{b.base[0], b.base[1], b.head[0], b.head[1]}
			m.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
			blocks[i] = block{[2]float64(runs[:2]), [2]float64(runs[2:])}
		}
		if got := most(blocks); got != want {
			t.Fatalf("the limit is %v, and %v with other names", want, got)
		}
	}
}
