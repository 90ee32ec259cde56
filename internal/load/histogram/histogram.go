// Package histogram counts latencies in log-linear buckets, so that the counts of many
// threads, seconds and agents can be added up and percentiles be read from the sum (L7).
//
// A bucket is at most 1/64 of its values wide. A value below 64 ns has a bucket of its own; one
// with e+7 significant bits, e > 0, is in bucket 64e + (value >> e). Quantiles are therefore at
// most 1.6 % above the truth and never below it.
//
// The package is pure: no clock, no I/O, no randomness.
package histogram

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

const (
	subBits = 6
	// Buckets is the number of buckets, which any int64 has one of.
	Buckets = (63-subBits)<<subBits + 1<<subBits
)

// A Histogram counts values. The zero value is empty and ready to use.
// It is not safe for concurrent use: each thread has its own.
type Histogram struct {
	counts   [Buckets]uint64
	count    uint64
	sum      uint64
	min, max int64
}

// Record counts a latency in nanoseconds; a negative one counts as 0.
func (h *Histogram) Record(ns int64) {
	ns = max(ns, 0)
	h.counts[bucket(ns)]++
	if h.count == 0 || ns < h.min {
		h.min = ns
	}
	h.max = max(h.max, ns)
	h.count++
	h.sum = plus(h.sum, uint64(ns))
}

// plus adds up to the greatest number, and no further: sums of latencies in a long overload are larger.
func plus(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	return sum | -carry
}

// Merge adds the counts of another histogram.
func (h *Histogram) Merge(other *Histogram) {
	if other.count == 0 {
		return
	}
	if h.count == 0 || other.min < h.min {
		h.min = other.min
	}
	h.max = max(h.max, other.max)
	h.count += other.count
	h.sum = plus(h.sum, other.sum)
	for i := bucket(other.min); i <= bucket(other.max); i++ {
		h.counts[i] += other.counts[i]
	}
}

// Reset makes the histogram empty.
func (h *Histogram) Reset() {
	if h.count > 0 {
		*h = Histogram{}
	}
}

// Count returns how many values were recorded.
func (h *Histogram) Count() uint64 { return h.count }

// Sum returns the sum of all values in nanoseconds, or the greatest number if it is more.
func (h *Histogram) Sum() uint64 { return h.sum }

// Min returns the least value, or 0 if there is none.
func (h *Histogram) Min() int64 { return h.min }

// Max returns the greatest value, or 0 if there is none.
func (h *Histogram) Max() int64 { return h.max }

// Mean returns the mean in nanoseconds, or 0 if there are no values. Where the sum is too large, it comes from the
// middles of the buckets.
func (h *Histogram) Mean() float64 {
	if h.count == 0 {
		return 0
	}
	if h.sum == math.MaxUint64 {
		sum := 0.0
		for i, n := range h.counts {
			sum += (float64(upper(i-1)) + 1 + float64(upper(i))) / 2 * float64(n)
		}
		return sum / float64(h.count)
	}
	return float64(h.sum) / float64(h.count)
}

// Quantile returns a value in nanoseconds that the share q of all values, from 0 to 1, does not
// exceed: the upper edge of the bucket, and the maximum at most. It returns 0 if there are no values.
func (h *Histogram) Quantile(q float64) int64 {
	rank := uint64(math.Ceil(min(max(q, 0), 1) * float64(h.count)))
	rank = max(rank, 1)
	var seen uint64
	for i := bucket(h.min); i < Buckets; i++ {
		if seen += h.counts[i]; seen >= rank {
			return max(min(upper(i), h.max), h.min)
		}
	}
	return h.max
}

// Each calls f with each bucket that counts anything, in ascending order: the greatest value
// that it holds and its count.
func (h *Histogram) Each(f func(upTo int64, count uint64)) {
	for i, n := range h.counts {
		if n > 0 {
			f(upper(i), n)
		}
	}
}

// AppendBuckets appends the counts in the form of the protocol: pairs of varints in ascending
// order, how many buckets are skipped and the count of the next.
func (h *Histogram) AppendBuckets(b []byte) []byte {
	next := 0
	for i, n := range h.counts {
		if n > 0 {
			b = binary.AppendUvarint(b, uint64(i-next))
			b = binary.AppendUvarint(b, n)
			next = i + 1
		}
	}
	return b
}

// Decode returns the histogram of the given sum, least and greatest value in nanoseconds, and
// counts in the form of AppendBuckets.
func Decode(sum uint64, least, most int64, buckets []byte) (*Histogram, error) {
	h := &Histogram{}
	return h, h.MergeEncoded(sum, least, most, buckets)
}

// MergeEncoded adds the counts of a histogram that Decode would return, without making one. A
// least or greatest value that is not in the bucket that it has to be in becomes the nearest one
// that is. With an error nothing was added.
func (h *Histogram) MergeEncoded(sum uint64, least, most int64, buckets []byte) error {
	first, last := -1, -1
	if err := each(buckets, func(i int, _ uint64) {
		if first < 0 {
			first = i
		}
		last = i
	}); err != nil || first < 0 {
		return err
	}
	least = min(max(least, upper(first-1)+1), upper(first))
	most = min(max(most, upper(last-1)+1), upper(last))
	if h.count == 0 || least < h.min {
		h.min = least
	}
	h.max = max(h.max, most)
	h.sum = plus(h.sum, sum)
	return each(buckets, func(i int, n uint64) {
		h.counts[i] += n
		h.count += n
	})
}

// Check returns why counts are not in the form of AppendBuckets, or nil.
func Check(buckets []byte) error { return each(buckets, func(int, uint64) {}) }

// each calls f with each bucket in the form of AppendBuckets whose count is not 0.
func each(buckets []byte, f func(i int, count uint64)) error {
	next := uint64(0)
	for len(buckets) > 0 {
		skipped, n := binary.Uvarint(buckets)
		if n <= 0 {
			return errTorn
		}
		count, m := binary.Uvarint(buckets[n:])
		if m <= 0 {
			return errTorn
		}
		buckets = buckets[n+m:]
		if skipped >= Buckets-next {
			return fmt.Errorf("bucket %d is none of the %d of a histogram", next+skipped, Buckets)
		}
		if next += skipped; count > 0 {
			f(int(next), count)
		}
		next++
	}
	return nil
}

var errTorn = errors.New("the buckets of a histogram end within a number")

// bucket returns the bucket of a value that is not negative.
func bucket(ns int64) int {
	e := max(bits.Len64(uint64(ns))-subBits-1, 0)
	return e<<subBits + int(ns>>e)
}

// upper returns the greatest value of a bucket.
func upper(i int) int64 {
	e := max(i>>subBits-1, 0)
	return int64(i-e<<subBits+1)<<e - 1
}

// Lower returns the least value of the bucket that a value, which is not negative, is in.
func Lower(ns int64) int64 {
	i := bucket(ns)
	return upper(i-1) + 1
}
