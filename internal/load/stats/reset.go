package stats

// Reset makes all counters zero and keeps them, so that the table can be used again without
// allocating their histograms anew.
func (t Table) Reset() {
	for _, c := range t {
		c.Reset()
	}
}

// Reset makes the counter zero, and keeps its histograms.
func (c *Counter) Reset() {
	c.Operations, c.Bytes, c.Errors, c.Retries = 0, 0, nil, 0
	c.Service.Reset()
	if c.Response != nil {
		c.Response.Reset()
	}
	if c.FirstByte != nil {
		c.FirstByte.Reset()
	}
}

// Sum adds the counters whose keys are wanted to c.
func (t Table) Sum(c *Counter, wanted func(Key) bool) {
	for k, from := range t {
		if wanted(k) {
			c.Merge(from)
		}
	}
}
