package trail

import (
	"context"

	"github.com/pawl-dev/pawl/internal/store"
)

// Comparison is the result of a comparison.
type Comparison struct {
	OK          bool               `json:"ok"`
	Same        int64              `json:"same"`
	Checked     int64              `json:"checked"` // continued since, with the old row unchanged
	WentOn      int64              `json:"went_on"` // continued since, and could not be checked
	Added       int64              `json:"added"`
	Removed     int64              `json:"removed"` // by retention
	Count       int64              `json:"differences_count"`
	Differences []store.Difference `json:"differences"` // the first 1000
}

// maxDifferences bounds the differences in JSON.
const maxDifferences = 1000

// Compare compares two checkpoints, and calls found with each difference.
func Compare(ctx context.Context, c *store.Comparison, found func(store.Difference)) (*Comparison, error) {
	r := &Comparison{Differences: []store.Difference{}}
	c.Found = func(d store.Difference) {
		if r.Count++; len(r.Differences) < maxDifferences {
			r.Differences = append(r.Differences, d)
		}
		found(d)
	}
	if err := c.Run(ctx); err != nil {
		return nil, err
	}
	r.OK, r.Same, r.Checked, r.WentOn, r.Added, r.Removed = r.Count == 0, c.Same, c.Checked, c.WentOn, c.Added, c.Removed
	return r, nil
}
