package main

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// A block is one round of a workload: two runs of each program, in the order ABBA or BAAB, so
// that a machine that becomes slower or faster during the block affects both alike. The values
// are costs: less is better.
type block struct{ base, head [2]float64 }

// A split says which two runs of a block are taken for those of the base. The first is true.
var splits = [6][4]int{{0, 1, 2, 3}, {0, 2, 1, 3}, {0, 3, 1, 2}, {1, 2, 0, 3}, {1, 3, 0, 2}, {2, 3, 0, 1}}

// effects returns the logarithm of the ratio of head to base for each split. The cost of a program
// in a block is the lesser one of its two runs, since what disturbs a run makes it cost more.
func (b block) effects() (all [len(splits)]float64) {
	runs := [4]float64{b.base[0], b.base[1], b.head[0], b.head[1]}
	for i, s := range splits {
		all[i] = math.Log(min(runs[s[2]], runs[s[3]]) / min(runs[s[0]], runs[s[1]]))
	}
	return all
}

// effect returns the logarithm of the ratio of head to base: the median of the blocks.
func effect(blocks []block) float64 {
	each := make([]float64, len(blocks))
	for i, b := range blocks {
		each[i] = b.effects()[0]
	}
	return median(each)
}

const resamples = 200

// noise returns what the effect of a program against itself is below in about 94 of 100 cases, as
// far as these blocks tell: the two runs of each program in each block are compared, and medians of
// random ones of these differences are taken, as many as there are blocks (a bootstrap). Of runs
// with the deviation s, normally distributed, a difference of two has sqrt(2) s, and an effect,
// which is a difference of two minima of two, sqrt(2 (1 - 1/pi)) s.
func noise(blocks []block, r *rand.Rand) float64 {
	less := math.Sqrt(1 - 1/math.Pi)
	var pairs []float64
	for _, b := range blocks {
		pairs = append(pairs, less*math.Log(b.base[1]/b.base[0]), less*math.Log(b.head[1]/b.head[0]))
	}
	medians, sample := make([]float64, resamples), make([]float64, len(blocks))
	for i := range medians {
		for j := range sample {
			sample[j] = pairs[r.IntN(len(pairs))] * float64(1-2*r.IntN(2))
		}
		slices.Sort(sample)
		medians[i] = math.Abs(middle(sample))
	}
	slices.Sort(medians)
	return medians[resamples*95/100]
}

const (
	shuffles = 20_000
	enough   = 50 // shuffles as extreme as the measurement, after which it is not significant
)

// chance returns how probable it is that head costs so much more, sign = 1, or so much less,
// sign = -1, if the programs are the same: a permutation test. The names of the programs are
// shuffled within each block, and the sums of the effects compared. Effects are limited to a few
// times the typical one, so that a block that was disturbed altogether does not decide.
func chance(blocks []block, sign float64, r *rand.Rand) float64 {
	all := limited(blocks, sign)
	var measured float64
	for _, e := range all {
		measured += e[0]
	}
	extreme := 0
	for n := 1; n <= shuffles; n++ {
		var sum float64
		for i := range all {
			sum += all[i][r.IntN(len(splits))]
		}
		if sum < measured-tiny {
			continue
		}
		if extreme++; extreme == enough {
			return enough / float64(n)
		}
	}
	return float64(extreme+1) / (shuffles + 1)
}

// tiny is a difference of sums of the same numbers in another order.
const tiny = 1e-9

// limited returns the effects of all splits, each at most twice the median of the blocks' largest,
// which is the same whichever runs are called those of the base.
func limited(blocks []block, sign float64) [][len(splits)]float64 {
	all, sizes := make([][len(splits)]float64, len(blocks)), make([]float64, len(blocks))
	for i, b := range blocks {
		all[i] = b.effects()
		sizes[i] = slices.Max(all[i][:]) // of two opposite splits one is positive
	}
	most := 2 * median(sizes)
	for i := range all {
		for j, e := range all[i] {
			all[i][j] = sign * max(-most, min(most, e))
		}
	}
	return all
}

func median(values []float64) float64 { return middle(slices.Sorted(slices.Values(values))) }

func middle(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// The verdicts.
const (
	Slower = "slower"
	Faster = "faster"
	Same   = "no difference"
	TooFew = "too few rounds"
)

const (
	alarms = 0.05 // how often a run may call anything slower if the programs are the same
	least  = 0.02 // differences below it are not reported: the layout of the code alone makes such
)

// A Comparison is one measure of one workload on one store.
type Comparison struct {
	Store    string  `json:"store"`
	Workload string  `json:"workload"`
	Measure  string  `json:"measure"`
	Rounds   int     `json:"rounds"`
	Base     float64 `json:"base"` // median of all runs
	Head     float64 `json:"head"`
	Ratio    float64 `json:"ratio"` // head to base, the median of the rounds: above 1 head costs more
	Noise    float64 `json:"noise"` // as a ratio: what the same program may show against itself
	Chance   float64 `json:"p"`     // of such a ratio, slower, or faster if it is below 1, by chance
	Verdict  string  `json:"verdict"`

	blocks []block
}

// judge fills in the figures and verdicts. The more comparisons there are, the less may be left
// to chance in each (the method of Holm), for slower and for faster separately.
func judge(list []*Comparison, r *rand.Rand) {
	for _, c := range list {
		c.measure(r)
		if math.Pow(float64(len(splits)), -float64(c.Rounds)) > alarms/float64(len(list)) {
			c.Verdict = TooFew
		}
	}
	for _, sign := range []float64{1, -1} {
		var open []*Comparison
		for _, c := range list {
			if c.Verdict == "" && sign*math.Log(c.Ratio) >= 0 {
				c.Chance = chance(c.blocks, sign, r)
				open = append(open, c)
			}
		}
		holm(open, len(list), sign)
	}
}

func (c *Comparison) measure(r *rand.Rand) {
	var base, head []float64
	for _, b := range c.blocks {
		base, head = append(base, b.base[:]...), append(head, b.head[:]...)
	}
	c.Rounds = len(c.blocks)
	if c.Rounds == 0 {
		c.Ratio, c.Noise = 1, 1
		return
	}
	c.Base, c.Head = median(base), median(head)
	c.Ratio, c.Noise = math.Exp(effect(c.blocks)), math.Exp(noise(c.blocks, r))
}

// holm gives verdicts to comparisons of which all are not better than the base, or not worse. all
// is how many comparisons there are, of which the others could not have been significant.
func holm(open []*Comparison, all int, sign float64) {
	slices.SortFunc(open, func(a, b *Comparison) int { return cmp.Compare(a.Chance, b.Chance) })
	significant := true
	for i, c := range open {
		significant = significant && c.Chance <= alarms/float64(all-i)
		size := sign * math.Log(c.Ratio)
		switch {
		case !significant || size <= math.Log(c.Noise) || size <= math.Log(1+least):
			c.Verdict = Same
		case sign > 0:
			c.Verdict = Slower
		default:
			c.Verdict = Faster
		}
	}
}
