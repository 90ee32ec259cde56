package histogram

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var whole = cmp.AllowUnexported(Histogram{})

// TestBuckets: every value is in a bucket that ends at most 1/64 above it, and buckets ascend (L7).
func TestBuckets(t *testing.T) {
	t.Parallel()
	if got := bucket(math.MaxInt64); got != Buckets-1 {
		t.Errorf("the greatest value is in bucket %d of %d", got, Buckets)
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Int64Range(0, math.MaxInt64).Draw(t, "v") >> rapid.IntRange(0, 62).Draw(t, "bits")
		i := bucket(v)
		if upper(i) < v || float64(upper(i)-v) > float64(v)/64 {
			t.Errorf("%d is in bucket %d, which ends at %d", v, i, upper(i))
		}
		if i > 0 && upper(i-1) >= v {
			t.Errorf("%d is in bucket %d, but the one before ends at %d", v, i, upper(i-1))
		}
	})
}

// TestQuantiles: the histograms of three agents, added up, have the quantiles of all values
// together: never below the truth and at most 1/64 above it (L7).
func TestQuantiles(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var all []int64
	var sum, one Histogram
	for agent := range 3 {
		var h Histogram
		for range 20_000 {
			v := int64(math.Exp(random.NormFloat64()*2+float64(8+agent*2))) + 1
			h.Record(v)
			one.Record(v)
			all = append(all, v)
		}
		sum.Merge(&h)
	}
	if diff := cmp.Diff(one, sum, whole); diff != "" {
		t.Errorf("a sum of histograms is not the histogram of the sum:\n%s", diff)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.001, 0.5, 0.9, 0.99, 0.999, 0.9999, 1} {
		truth := all[max(int(math.Ceil(q*float64(len(all))))-1, 0)]
		got := sum.Quantile(q)
		if got < truth || float64(got) > float64(truth)*(1+1.0/64) {
			t.Errorf("quantile %g is %d, want %d to 1/64 more", q, got, truth)
		}
	}
}

// TestEmpty: no values have no percentiles, and nothing divides by their number.
func TestEmpty(t *testing.T) {
	t.Parallel()
	var h Histogram
	if h.Quantile(0.99) != 0 || h.Mean() != 0 || h.Min() != 0 || h.Max() != 0 {
		t.Errorf("an empty histogram has p99 %d, mean %g, least %d, greatest %d", h.Quantile(0.99), h.Mean(), h.Min(), h.Max())
	}
}

// TestForm: what is sent is what arrives, and bytes that are no histogram are refused.
func TestForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var h Histogram
		for _, v := range rapid.SliceOf(rapid.Int64Range(-5, math.MaxInt64)).Draw(t, "values") {
			h.Record(v)
		}
		got, err := Decode(h.Sum(), h.Min(), h.Max(), h.AppendBuckets(nil))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&h, got, whole); diff != "" {
			t.Error(diff)
		}
	})
	for name, b := range map[string][]byte{"torn": {1}, "within a number": {0x80}, "too far": {0xff, 0xff, 0x7f, 1}} {
		if _, err := Decode(0, 0, 0, b); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := Decode(1, 0, 1, b); err == nil {
			_ = h.Quantile(0.5)
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	var h Histogram
	for v := int64(1); b.Loop(); v = v*5%1_000_003 + 1 {
		h.Record(v)
	}
}

// TestMergeEncoded: adding what was sent is adding the histogram that it is of, and what a sender
// says of the least and the greatest value counts within their buckets only (L7).
func TestMergeEncoded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var h, other, want Histogram
		for _, v := range rapid.SliceOf(rapid.Int64Range(0, math.MaxInt64)).Draw(t, "h") {
			h.Record(v)
		}
		for _, v := range rapid.SliceOf(rapid.Int64Range(0, 1<<20)).Draw(t, "other") {
			other.Record(v)
		}
		want.Merge(&h)
		want.Merge(&other)
		if err := h.MergeEncoded(other.Sum(), other.Min(), other.Max(), other.AppendBuckets(nil)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, h, whole); diff != "" {
			t.Fatal(diff)
		}
	})
	var sent Histogram
	sent.Record(100)
	sent.Record(1000)
	for _, bounds := range [][2]int64{{-1, math.MaxInt64}, {1 << 40, -5}, {0, 0}} {
		h, err := Decode(1100, bounds[0], bounds[1], sent.AppendBuckets(nil))
		if err != nil || bucket(h.Min()) != bucket(100) || bucket(h.Max()) != bucket(1000) {
			t.Error(bounds, h.Min(), h.Max(), err)
		}
		var sum Histogram
		if sum.Merge(h); sum.Count() != 2 || sum.Quantile(1) < 1000 {
			t.Error(sum.Count(), sum.Quantile(1))
		}
	}
}

// TestDocumentedBuckets: the examples of docs/load-protocol.md are true, and the page has them.
func TestDocumentedBuckets(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/load-protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("| 1,000,000 | %d |", bucket(1_000_000)); !strings.Contains(string(page), want) || !strings.Contains(string(page), "3,712 buckets") || Buckets != 3712 {
		t.Errorf("the page lacks %q, or there are not %d buckets", want, Buckets)
	}
	for sent, values := range map[string][]int64{"`00 01`": {0}, "`01 02 01 01`": {1, 1, 3}, "`40 01`": {64}, "`ba 07 01`": {1_000_000}} {
		var h Histogram
		for _, v := range values {
			h.Record(v)
		}
		if got := fmt.Sprintf("`% x`", h.AppendBuckets(nil)); got != sent || !strings.Contains(string(page), sent) {
			t.Errorf("%d: got %s, want %s", values, got, sent)
		}
	}
}

// TestLargeSum: a sum that is too large for a number does not become a small one, and the mean is still right.
func TestLargeSum(t *testing.T) {
	t.Parallel()
	const hour = int64(3600e9)
	var h, one Histogram
	one.Record(hour)
	for one.Count() < 1<<23 {
		one.Merge(&one)
	}
	h.Record(hour)
	h.Merge(&one)
	if err := one.MergeEncoded(one.Sum(), one.Min(), one.Max(), one.AppendBuckets(nil)); err != nil {
		t.Fatal(err)
	}
	one.Record(hour)
	for _, h := range []Histogram{h, one} {
		if h.Sum() != math.MaxUint64 || math.Abs(h.Mean()/float64(hour)-1) > 1.0/64 {
			t.Errorf("the sum is %d, the mean %g", h.Sum(), h.Mean())
		}
	}
}
