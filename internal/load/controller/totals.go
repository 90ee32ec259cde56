package controller

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/stats"
)

// Totals returns what all agents of a run have done together without its warm-up, and how long
// the one that took longest has taken.
func Totals(r *report.Run) (stats.Table, time.Duration, error) {
	sums, longest := stats.Table{}, time.Duration(0)
	for _, a := range r.Agents {
		if a.Result == nil {
			continue
		}
		_, result, err := fetch{runID: r.ID}.check(a.Result)
		if err == nil {
			err = sums.Add(result.GetTotals())
		}
		if err != nil {
			return nil, 0, fmt.Errorf("agent %s: %w", a.Address, err)
		}
		longest = max(longest, time.Duration(result.GetSeconds()*float64(time.Second)))
	}
	return sums, longest, nil
}
