package stats

// Reset makes all counters zero and keeps them, so that the table can be used again without
// allocating their histograms anew.
func (t Table) Reset() {
	for _, c := range t {
		c.Operations, c.Bytes, c.Errors = 0, 0, nil
		c.Service.Reset()
		if c.Response != nil {
			c.Response.Reset()
		}
	}
}

// Sum returns the sum of the counters whose keys are wanted.
func (t Table) Sum(wanted func(Key) bool) *Counter {
	sum := Table{{}: &Counter{}}
	for k, c := range t {
		if wanted(k) && (c.Operations > 0 || c.Errors != nil || c.Service.Count() > 0) {
			sum.Merge(Table{{}: c})
		}
	}
	return sum[Key{}]
}
