package workload

import (
	"math"
	"math/bits"

	"github.com/pawl-dev/pawl/internal/load/spec"
)

// A random generates numbers by wyrand, from any seed.
type random uint64

func (r *random) next() uint64 {
	*r += 0xa0761d6478bd642f
	hi, lo := bits.Mul64(uint64(*r), uint64(*r)^0xe7037ed1a0b428db)
	return hi ^ lo
}

// below returns a number from 0 to n-1; n is not 0.
func (r *random) below(n uint64) uint64 {
	hi, _ := bits.Mul64(r.next(), n)
	return hi
}

// unit returns a number above 0 and at most 1.
func (r *random) unit() float64 { return float64(r.next()>>11+1) / (1 << 53) }

// exponential returns a number of the exponential distribution with mean 1.
func (r *random) exponential() float64 { return -math.Log(r.unit()) }

// normal returns a number of the normal distribution, by Box and Muller.
func (r *random) normal() float64 {
	return math.Sqrt(-2*math.Log(r.unit())) * math.Cos(2*math.Pi*r.unit())
}

// mix returns a number that depends on all of its arguments.
func mix(all ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, v := range all {
		h = blend(h, v)
	}
	return h
}

// blend is mix of two numbers, of which the first is well mixed.
func blend(h, v uint64) uint64 {
	hi, lo := bits.Mul64(h^v^0xe7037ed1a0b428db, 0xa0761d6478bd642f^bits.RotateLeft64(v, 32))
	return hi ^ lo ^ v*0x9e3779b97f4a7c15
}

// A sampler draws sizes.
type sampler struct {
	spec.Size
	mu, sigma   float64 // of a lognormal size
	total       uint64  // of the weights of a list
	least, most int64   // of all sizes
}

func newSampler(s spec.Size) *sampler {
	out := &sampler{Size: s, least: s.Fixed, most: s.Fixed}
	switch {
	case s.Uniform != nil:
		out.least, out.most = s.Uniform.Min, s.Uniform.Max
	case s.Lognormal != nil:
		out.least, out.most = s.Lognormal.Min, s.Lognormal.Max
		ratio := float64(s.Lognormal.Deviation) / float64(max(s.Lognormal.Mean, 1))
		variance := math.Log1p(ratio * ratio)
		out.sigma = math.Sqrt(variance)
		out.mu = math.Log(float64(max(s.Lognormal.Mean, 1))) - variance/2
	case len(s.List) > 0:
		out.least = math.MaxInt64
		for _, w := range s.List {
			out.total += uint64(w.Weight)
			out.least, out.most = min(out.least, w.Size), max(out.most, w.Size)
		}
	}
	return out
}

// draw returns a size.
func (s *sampler) draw(r *random) int64 {
	switch {
	case s.Uniform != nil:
		return s.least + int64(r.below(uint64(s.most-s.least)+1))
	case s.Lognormal != nil:
		return s.lognormal(r)
	case len(s.List) > 0:
		return s.weighted(r)
	}
	return s.Fixed
}

// of returns the size that a number stands for, the same each time.
func (s *sampler) of(n uint64) int64 {
	if s.least == s.most {
		return s.least
	}
	r := random(n)
	return s.draw(&r)
}

// lognormal draws again what is cut off, so that the ends are not the likeliest sizes, but not for ever.
func (s *sampler) lognormal(r *random) int64 {
	v := int64(0)
	for range 16 {
		v = int64(math.Exp(s.mu + s.sigma*r.normal()))
		if v >= s.least && v <= s.most {
			return v
		}
	}
	return min(max(v, s.least), s.most)
}

func (s *sampler) weighted(r *random) int64 {
	n := r.below(s.total)
	for _, w := range s.List {
		if n < uint64(w.Weight) {
			return w.Size
		}
		n -= uint64(w.Weight)
	}
	return s.most
}

// A zipf draws ranks from 0 to n-1, rank k in proportion to 1/(k+1)^theta, by rejection-inversion
// (Hoermann and Derflinger 1996): in constant time and memory, for any theta above 0.
type zipf struct {
	theta    float64
	n        float64
	low, top float64 // the integral at 1.5, less 1, and at n+0.5
	shift    float64
}

func newZipf(n uint64, theta float64) *zipf {
	z := &zipf{theta: theta, n: float64(n)}
	z.low = z.integral(1.5) - 1
	z.top = z.integral(z.n + 0.5)
	z.shift = 2 - z.inverse(z.integral(2.5)-math.Pow(2, -theta))
	return z
}

func (z *zipf) draw(r *random) uint64 {
	for {
		u := z.top + r.unit()*(z.low-z.top)
		x := z.inverse(u)
		k := min(max(math.Floor(x+0.5), 1), z.n)
		if k-x <= z.shift || u >= z.integral(k+0.5)-math.Pow(k, -z.theta) {
			return uint64(k) - 1
		}
	}
}

// integral returns that of x^-theta, from 1.
func (z *zipf) integral(x float64) float64 {
	l := math.Log(x)
	return ratio((1-z.theta)*l, math.Expm1) * l
}

func (z *zipf) inverse(x float64) float64 {
	t := max(x*(1-z.theta), -1)
	return math.Exp(ratio(t, math.Log1p) * x)
}

// ratio returns f(x)/x, whose limit at 0 is 1.
func ratio(x float64, f func(float64) float64) float64 {
	if math.Abs(x) > 1e-8 {
		return f(x) / x
	}
	return 1
}
