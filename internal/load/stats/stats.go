// Package stats adds up what threads, seconds and agents have counted. Percentiles come from
// added histograms and are never averaged (L7).
//
// The package is pure: no clock, no I/O, no randomness.
package stats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/load/histogram"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

// A Key is what is counted apart.
type Key struct {
	Operation string
	SizeClass string // "" for operations without data
}

// A Counter is what was done of one key.
type Counter struct {
	Operations uint64
	Bytes      uint64
	Errors     map[string]uint64    // by class; nil if there are none
	Service    histogram.Histogram  // from the beginning of an operation
	Response   *histogram.Histogram // from the time at which it was due; nil without a rate
	FirstByte  *histogram.Histogram // from the beginning to the first byte of the content; nil unless objects are read
	Retries    uint64               // requests that were tried again
}

// A Table has the counters of a thread, an interval, an agent or a whole run.
type Table map[Key]*Counter

// Add adds what an agent has sent. The error names the key whose histogram is not well-formed;
// those before it were added.
func (t Table) Add(sent []*loadpb.OperationStats) error {
	for _, s := range sent {
		k := Key{s.GetOperation(), s.GetSizeClass()}
		c := t.at(k)
		if err := c.add(s); err != nil {
			return fmt.Errorf("statistics of %s: %w", strings.TrimSpace(k.Operation+" "+k.SizeClass), err)
		}
	}
	return nil
}

// Merge adds another table.
func (t Table) Merge(other Table) {
	for k, from := range other {
		t.at(k).Merge(from)
	}
}

// Merge adds another counter.
func (c *Counter) Merge(from *Counter) {
	c.Operations += from.Operations
	c.Bytes += from.Bytes
	c.count(from.Errors)
	c.Service.Merge(&from.Service)
	c.Retries += from.Retries
	if from.Response != nil {
		made(&c.Response).Merge(from.Response)
	}
	if from.FirstByte != nil {
		made(&c.FirstByte).Merge(from.FirstByte)
	}
}

// Keys returns the keys in the order of their names.
func (t Table) Keys() []Key {
	keys := make([]Key, 0, len(t))
	for k := range t {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.SizeClass, b.SizeClass))
	})
	return keys
}

// Proto returns the table as it is sent, in the order of Keys.
func (t Table) Proto() []*loadpb.OperationStats {
	var all []*loadpb.OperationStats
	for _, k := range t.Keys() {
		c := t[k]
		all = append(all, &loadpb.OperationStats{
			Operation: k.Operation, SizeClass: k.SizeClass,
			Operations: c.Operations, Bytes: c.Bytes, Errors: c.Errors,
			Service: Encode(&c.Service), Response: Encode(c.Response), FirstByte: Encode(c.FirstByte), Retries: c.Retries,
		})
	}
	return all
}

// Encode returns a histogram as it is sent; nil for nil.
func Encode(h *histogram.Histogram) *loadpb.Histogram {
	if h == nil {
		return nil
	}
	return &loadpb.Histogram{
		Count: h.Count(), SumNs: h.Sum(), MinNs: uint64(h.Min()), MaxNs: uint64(h.Max()), Buckets: h.AppendBuckets(nil),
	}
}

// Decode returns a histogram that was sent; an empty one for nil.
func Decode(h *loadpb.Histogram) (*histogram.Histogram, error) {
	return histogram.Decode(h.GetSumNs(), int64(h.GetMinNs()), int64(h.GetMaxNs()), h.GetBuckets())
}

func (t Table) at(k Key) *Counter {
	c := t[k]
	if c == nil {
		c = &Counter{}
		t[k] = c
	}
	return c
}

func (c *Counter) add(s *loadpb.OperationStats) error {
	for _, h := range []*loadpb.Histogram{s.GetResponse(), s.GetFirstByte()} {
		if err := histogram.Check(h.GetBuckets()); err != nil {
			return err
		}
	}
	if err := merge(&c.Service, s.GetService()); err != nil {
		return err
	}
	if s.GetResponse() != nil {
		if err := merge(made(&c.Response), s.GetResponse()); err != nil {
			return err
		}
	}
	if s.GetFirstByte() != nil {
		if err := merge(made(&c.FirstByte), s.GetFirstByte()); err != nil {
			return err
		}
	}
	c.Retries += s.GetRetries()
	c.Operations += s.GetOperations()
	c.Bytes += s.GetBytes()
	c.count(s.GetErrors())
	return nil
}

func merge(h *histogram.Histogram, sent *loadpb.Histogram) error {
	return h.MergeEncoded(sent.GetSumNs(), int64(sent.GetMinNs()), int64(sent.GetMaxNs()), sent.GetBuckets())
}

func (c *Counter) count(errors map[string]uint64) {
	for class, n := range errors {
		if c.Errors == nil {
			c.Errors = map[string]uint64{}
		}
		c.Errors[class] += n
	}
}

// made returns a histogram, which it makes the first time.
func made(h **histogram.Histogram) *histogram.Histogram {
	if *h == nil {
		*h = &histogram.Histogram{}
	}
	return *h
}
