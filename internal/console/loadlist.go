package console

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// LoadRuns lists load runs.
func LoadRuns(w io.Writer, json bool, zone *time.Location) *Listing[api.LoadRun] {
	row := func(r *api.LoadRun) []string {
		felt := r.Total.Felt()
		return []string{
			r.Name, orNone(r.Load), loadState(r), Second(r.BegunAt, zone), fmt.Sprintf("%.1f s", r.Seconds), strconv.Itoa(r.Agents),
			Rate(r.Total.OperationsPerSecond), MiB(r.Total.BytesPerSecond), Latency(felt.P99), strconv.FormatUint(r.Total.Errors, 10), OneLine(orNone(r.Reason)),
		}
	}
	return &Listing[api.LoadRun]{W: w, JSON: json, Head: []string{"NAME", "LOAD", "STATE", "BEGUN", "MEASURED", "AGENTS", "OPS/S", "MIB/S", "P99", "ERRORS", "REASON"}, Row: row}
}

// loadState returns the state of a run, and what its result lacks.
func loadState(r *api.LoadRun) string {
	state := string(r.State)
	if r.Partial {
		state += ", partial"
	}
	if r.Violations > 0 {
		state += ", " + Plural(int64(r.Violations), "violation")
	}
	return state
}

func orNone(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
