package report

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/load/histogram"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/load/stats"
)

// How a comparison is made; docs/load.md describes it.
const (
	resamples   = 200
	maxGroups   = 200 // groups of intervals that are drawn from
	leastGroups = 5   // below it, there is no telling
	leastBeyond = 10  // operations above a percentile, likewise
	seed        = 1
	// resolution is how far apart two latencies in one bucket may be.
	resolution = 1.0 / 64
)

// A Comparison is how a run B differs from a run A.
type Comparison struct {
	A          string            `json:"a"` // run ids
	B          string            `json:"b"`
	Config     []string          `json:"config_differences,omitempty"`
	Partial    []string          `json:"partial,omitempty"` // the runs that have not completed
	Operations []ComparedFigures `json:"operations"`
}

// ComparedFigures compare one kind of operation.
type ComparedFigures struct {
	Operation string     `json:"operation"`
	Measures  []Compared `json:"measures"`
}

// Compared is one measure of two runs. Change is B relative to A, 0.1 being 10 % more; it is
// from Low to High at a confidence of 95 %.
type Compared struct {
	Measure string  `json:"measure"` // operations_per_second, p50_ns, p99_ns, error_share
	A       float64 `json:"a"`
	B       float64 `json:"b"`
	Change  float64 `json:"change"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Verdict Verdict `json:"verdict"`
}

// A Verdict says what a comparison has found.
type Verdict string

// The verdicts.
const (
	Better       Verdict = "better"
	Worse        Verdict = "worse"
	NoDifference Verdict = "no difference"
	TooShort     Verdict = "too short to tell"
	OnlyInA      Verdict = "only in A" // none has succeeded in B
	OnlyInB      Verdict = "only in B"
	NotJudged    Verdict = "not judged" // both have failures
)

// The measures of a comparison.
const (
	MeasureRate = "operations_per_second"
	MeasureP50  = "p50_ns"
	MeasureP99  = "p99_ns"
	// MeasureErrors is the share of operations that have failed. It is there if any has, and worse if
	// it rises from 0.
	MeasureErrors = "error_share"
)

// Compare compares run b with run a. Runs with different configs are an error of kind
// pawl.Invalid that names the differences, unless force is set.
func Compare(a, b *Report, force bool) (*Comparison, error) {
	c := &Comparison{A: a.Run.ID, B: b.Run.ID, Config: differences(a.Run, b.Run)}
	if len(c.Config) > 0 && !force {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: "the runs are not comparable:\n  " + strings.Join(c.Config, "\n  "), Hint: "use --force (force=true in the API) to compare them"}
	}
	for _, r := range []*Report{a, b} {
		if r.Summary.Partial {
			c.Partial = append(c.Partial, r.Run.ID)
		}
	}
	from, err := samplesOf(a.Run)
	if err != nil {
		return nil, err
	}
	to, err := samplesOf(b.Run)
	if err != nil {
		return nil, err
	}
	for _, name := range operationsOfBoth(&a.Summary, &b.Summary) {
		o := compared(name, from[name], to[name])
		o.count(a.Summary.figures(name), b.Summary.figures(name))
		c.Operations = append(c.Operations, o)
	}
	return c, nil
}

// operationsOfBoth returns the operations that any of two runs has, in the order of reports.
func operationsOfBoth(a, b *Summary) (names []string) {
	for _, o := range slices.Concat(a.Operations, b.Operations) {
		if !slices.Contains(names, o.Operation) {
			names = append(names, o.Operation)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(kindRank(a), kindRank(b)) })
	return names
}

// figures returns the figures of an operation; those of one that was not done are zero.
func (s *Summary) figures(operation string) *Figures {
	for i := range s.Operations {
		if s.Operations[i].Operation == operation {
			return &s.Operations[i].Figures
		}
	}
	return &Figures{}
}

// count judges what needs no samples: an operation that only one of the runs has, or of which only one
// has succeeded, and failures.
func (c *ComparedFigures) count(a, b *Figures) {
	for i := range c.Measures {
		switch {
		case b.Operations == 0 && a.Operations > 0:
			c.Measures[i].Verdict = OnlyInA
		case a.Operations == 0 && b.Operations > 0:
			c.Measures[i].Verdict = OnlyInB
		}
	}
	if a.Errors+b.Errors == 0 {
		return
	}
	one := Compared{Measure: MeasureErrors, A: a.failed(), B: b.failed(), Verdict: NotJudged}
	switch {
	case a.Errors == 0 && a.Operations > 0:
		one.Verdict = Worse
	case b.Errors == 0 && b.Operations > 0:
		one.Verdict = Better
	}
	c.Measures = append(c.Measures, one)
}

// failed returns the share of operations that have failed.
func (f *Figures) failed() float64 {
	return float64(f.Errors) / max(float64(f.Operations+f.Errors), 1)
}

// differences names what makes two runs different loads: their tests, but for what is only said
// about them or judged of them, and the number of agents.
func differences(a, b *Run) (all []string) {
	if len(a.Agents) != len(b.Agents) {
		all = append(all, fmt.Sprintf("agents: %d and %d", len(a.Agents), len(b.Agents)))
	}
	one, other := fields(a.Test), fields(b.Test)
	for i, f := range one {
		if f.value != other[i].value {
			all = append(all, fmt.Sprintf("%s: %s and %s", f.name, f.value, other[i].value))
		}
	}
	return all
}

// A field is one key of a test, written as text.
type field struct{ name, value string }

func fields(t *spec.Test) []field {
	var rate string
	if rate = "none"; t.Rate != nil {
		rate = fmt.Sprintf("%v %s", t.Rate.Operations, t.Rate.Arrival)
	}
	return []field{
		{"target", t.Target}, {"shared", fmt.Sprint(t.Shared)}, {"files", setsText(t.Files)}, {"mix", mixText(t.Mix)}, {"engine", string(t.Engine)},
		{"s3", storeText(t.S3)}, {"direct", fmt.Sprint(t.Direct)}, {"sync", string(t.Sync)}, {"verify", fmt.Sprint(t.Verify)}, {"jobs", fmt.Sprint(t.Jobs)}, {"depth", fmt.Sprint(t.Depth)},
		{"rate", rate}, {"warmup", t.Warmup.String()}, {"duration", t.Duration.String()}, {"count", fmt.Sprint(t.Count)}, {"interval", t.Interval.String()},
	}
}

func setsText(sets []spec.FileSet) string {
	var all []string
	for _, s := range sets {
		all = append(all, fmt.Sprintf("%s %d x %s tree %dx%d compressible %d%% %s", s.Name, s.Count, s.Size.Text(), s.Tree.Width, s.Tree.Depth, s.Content.Compressible, s.Blocks))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

func mixText(mix []spec.Operation) string {
	var all []string
	for _, o := range mix {
		all = append(all, o.Text())
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// A sample is what was done of one operation in an interval, or in some of them together.
type sample struct {
	seconds    float64
	operations uint64
	buckets    []bucket // ascending
}

type bucket struct {
	upTo  int64
	count uint64
}

// samplesOf returns the samples of each operation, one for each interval after the warm-up. The
// last interval is left out if it is much shorter than the others: it says little.
func samplesOf(run *Run) (map[string][]sample, error) {
	var slices []map[string]sample
	err := walk(run, func(s *slice) error {
		if s.warmup || s.seconds() < run.Test.Interval.Seconds()/2 {
			return nil
		}
		all := map[string]sample{}
		for _, name := range operationsOf(s.table) {
			all[name] = sampleOf(s.sum(s.table, name), s.seconds())
		}
		slices = append(slices, all)
		return nil
	})
	names := map[string][]sample{}
	for i, all := range slices {
		for name := range all {
			if names[name] == nil {
				names[name] = make([]sample, len(slices))
				for j := range slices {
					names[name][j] = sample{seconds: run.Test.Interval.Seconds()}
				}
			}
			names[name][i] = all[name]
		}
	}
	return names, err
}

func sampleOf(c *stats.Counter, seconds float64) sample {
	h := &c.Service
	if c.Response != nil {
		h = c.Response
	}
	s := sample{seconds: seconds, operations: c.Operations}
	h.Each(func(upTo int64, n uint64) { s.buckets = append(s.buckets, bucket{min(upTo, h.Max()), n}) })
	return s
}

// compared compares the samples of one operation by each measure.
func compared(operation string, a, b []sample) ComparedFigures {
	a, b = grouped(a), grouped(b)
	from, to := measuresOf(a), measuresOf(b)
	deviations := bootstrap(a, b)
	c := ComparedFigures{Operation: operation}
	fewest := float64(min(together(a).operations, together(b).operations))
	for i, name := range []string{MeasureRate, MeasureP50, MeasureP99} {
		one := Compared{Measure: name, A: from[i], B: to[i]}
		beyond := fewest * [...]float64{1, 0.5, 0.01}[i]
		if len(a) < leastGroups || len(b) < leastGroups || beyond < leastBeyond || from[i] <= 0 || to[i] <= 0 {
			one.Verdict = TooShort
		} else {
			one.judge(deviations[i], len(a)+len(b)-2)
		}
		c.Measures = append(c.Measures, one)
	}
	return c
}

// judge fills in the change, its interval and the verdict, from the standard deviation of the
// logarithm of B/A.
func (c *Compared) judge(deviation float64, freedom int) {
	ratio, margin := math.Log(c.B/c.A), student(freedom)*deviation
	if c.Measure != MeasureRate {
		margin = math.Hypot(margin, math.Log1p(resolution))
	}
	c.Change, c.Low, c.High = math.Expm1(ratio), math.Expm1(ratio-margin), math.Expm1(ratio+margin)
	more := c.Low > 0
	switch {
	case c.Low <= 0 && c.High >= 0:
		c.Verdict = NoDifference
	case more == (c.Measure == MeasureRate):
		c.Verdict = Better
	default:
		c.Verdict = Worse
	}
}

// grouped adds up neighbours so that there are at most maxGroups samples.
func grouped(all []sample) []sample {
	size := (len(all) + maxGroups - 1) / maxGroups
	if size <= 1 {
		return all
	}
	var groups []sample
	for part := range slices.Chunk(all, size) {
		groups = append(groups, together(part))
	}
	return groups
}

func together(all []sample) (s sample) {
	counts := map[int64]uint64{}
	for _, one := range all {
		s.seconds += one.seconds
		s.operations += one.operations
		for _, b := range one.buckets {
			counts[b.upTo] += b.count
		}
	}
	for upTo, n := range counts {
		s.buckets = append(s.buckets, bucket{upTo, n})
	}
	slices.SortFunc(s.buckets, func(a, b bucket) int { return int(a.upTo - b.upTo) })
	return s
}

// measuresOf returns the measures of all samples together, in the order of their names in compared.
func measuresOf(all []sample) [3]float64 {
	s := together(all)
	return [3]float64{float64(s.operations) / max(s.seconds, 1e-9), quantile(s.buckets, 0.5), quantile(s.buckets, 0.99)}
}

// quantile returns the value below which the share q is, interpolated within its bucket so that
// it changes gradually.
func quantile(buckets []bucket, q float64) float64 {
	total := uint64(0)
	for _, b := range buckets {
		total += b.count
	}
	rank, seen := q*float64(total), 0.0
	for _, b := range buckets {
		if next := seen + float64(b.count); next >= rank {
			low := float64(histogram.Lower(b.upTo))
			return low + (float64(b.upTo)-low)*(rank-seen)/float64(b.count)
		}
		seen += float64(b.count)
	}
	return 0
}

// bootstrap returns the standard deviations of the logarithm of B/A of each measure, over
// resamples of the samples of both. It is the same each time.
func bootstrap(a, b []sample) (deviations [3]float64) {
	random := rand.New(rand.NewPCG(seed, seed))
	from, to := newPool(a), newPool(b)
	var sums, squares [3]float64
	for range resamples {
		x, y := from.draw(random), to.draw(random)
		for i := range sums {
			l := math.Log(max(y[i], 1e-9) / max(x[i], 1e-9))
			sums[i] += l
			squares[i] += l * l
		}
	}
	for i := range deviations {
		mean := sums[i] / resamples
		deviations[i] = math.Sqrt(max(squares[i]/resamples-mean*mean, 0))
	}
	return deviations
}

// A pool has samples in a form that is fast to draw from: the counts of each in the places of
// all buckets that any of them has.
type pool struct {
	samples []sample
	values  []int64
	places  [][]int // of each bucket of each sample, in values
	total   []bucket
}

func newPool(all []sample) *pool {
	p := &pool{samples: all}
	for _, b := range together(all).buckets {
		p.values = append(p.values, b.upTo)
	}
	for _, s := range all {
		places := make([]int, len(s.buckets))
		for i, b := range s.buckets {
			places[i], _ = slices.BinarySearch(p.values, b.upTo)
		}
		p.places = append(p.places, places)
	}
	p.total = make([]bucket, len(p.values))
	return p
}

// draw returns the measures of as many samples as there are, drawn with repetition. The spread
// of such draws is too small by the factor sqrt((n-1)/n); judge's student makes more than up for it.
func (p *pool) draw(random *rand.Rand) [3]float64 {
	for i, v := range p.values {
		p.total[i] = bucket{v, 0}
	}
	times := make([]uint64, len(p.samples))
	for range p.samples {
		times[random.IntN(len(times))]++
	}
	seconds, operations := 0.0, uint64(0)
	for k, n := range times {
		if n == 0 {
			continue
		}
		s := &p.samples[k]
		seconds, operations = seconds+float64(n)*s.seconds, operations+n*s.operations
		for i, at := range p.places[k] {
			p.total[at].count += n * s.buckets[i].count
		}
	}
	return [3]float64{float64(operations) / seconds, quantile(p.total, 0.5), quantile(p.total, 0.99)}
}

// student returns the 97.5th percentile of Student's distribution, by the expansion of Cornish
// and Fisher, which is good to 1 % from 5 degrees of freedom on.
func student(freedom int) float64 {
	const z = 1.959964
	n := float64(max(freedom, 1))
	return z + (z*z*z+z)/(4*n) + (5*math.Pow(z, 5)+16*z*z*z+3*z)/(96*n*n)
}

// storeText returns how an object store is used. Which one it is may be what is compared.
func storeText(o *spec.ObjectStore) string {
	if o == nil {
		return ""
	}
	return fmt.Sprintf("parts of %s, pages of %d, sign_payload %t", spec.SizeText(o.PartSize), o.Page, o.SignPayload)
}
