package workload

import (
	"math"
	"testing"

	"github.com/pawl-dev/pawl/internal/load/spec"
)

// TestZipf: ranks come as often as their formula says, which the test adds up, for any theta (L9).
func TestZipf(t *testing.T) {
	t.Parallel()
	const ranks, draws = 100, 200_000
	for _, theta := range []float64{0.01, 0.5, 0.99, 1, 1.5, 1.99} {
		sum := 0.0
		for k := range ranks {
			sum += math.Pow(float64(k+1), -theta)
		}
		r, z := random(7), newZipf(ranks, theta)
		var counts [ranks]float64
		for range draws {
			counts[z.draw(&r)]++
		}
		for k, n := range counts {
			want := draws * math.Pow(float64(k+1), -theta) / sum
			if math.Abs(n-want) > 6*math.Sqrt(want) {
				t.Errorf("theta %v, rank %d: %v times, want about %.0f", theta, k, n, want)
			}
		}
	}
	one := newZipf(1, 0.99)
	if r := random(1); one.draw(&r) != 0 {
		t.Error("the only rank is not drawn")
	}
	huge, r := newZipf(1<<40, 0.99), random(1)
	for range 1000 {
		if k := huge.draw(&r); k >= 1<<40 {
			t.Fatalf("rank %d", k)
		}
	}
}

// TestSizes: each distribution has its mean and keeps to its bounds (L9).
func TestSizes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec.Size
		mean, tolerance float64
	}{
		"fixed":     {spec.Size{Fixed: 4096}, 4096, 0},
		"uniform":   {spec.Size{Uniform: &spec.Uniform{Min: 1000, Max: 3000}}, 2000, 20},
		"lognormal": {spec.Size{Lognormal: &spec.Lognormal{Mean: 10000, Deviation: 5000, Min: 1, Max: 1 << 30}}, 10000, 200},
		"cut off":   {spec.Size{Lognormal: &spec.Lognormal{Mean: 10000, Deviation: 50000, Min: 9000, Max: 11000}}, 9600, 300},
		"list":      {spec.Size{List: []spec.Weighted{{Size: 1000, Weight: 3}, {Size: 5000, Weight: 1}}}, 2000, 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, r, sum := newSampler(c.Size), random(3), 0.0
			least, most := c.Range()
			for range 50_000 {
				v := s.draw(&r)
				if v < least || v > most {
					t.Fatalf("%d is not from %d to %d", v, least, most)
				}
				sum += float64(v)
			}
			if mean := sum / 50_000; math.Abs(mean-c.mean) > c.tolerance {
				t.Errorf("the mean is %.0f: want %.0f", mean, c.mean)
			}
			if first, again := s.of(5), s.of(5); first != again {
				t.Error("one number has two sizes")
			}
		})
	}
}

// TestSizeClasses: a size is in the first class that it does not exceed.
func TestSizeClasses(t *testing.T) {
	t.Parallel()
	limits := []int64{0, 4 << 10, 64 << 10, 512 << 10, 4 << 20, 32 << 20, 256 << 20, 2 << 30}
	for i, l := range limits {
		if at, above := sizeClasses[classOfSize(l)], sizeClasses[classOfSize(l+1)]; at != sizeClasses[i] || above != sizeClasses[i+1] {
			t.Errorf("%d is %s, and one more is %s: want %s and %s", l, at, above, sizeClasses[i], sizeClasses[i+1])
		}
	}
}
