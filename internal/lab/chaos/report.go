package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// A report is what a run, or several, came to.
type report struct {
	Database string         `json:"database"`
	Seed     uint64         `json:"seed"` // of the first run
	Runs     int            `json:"runs"`
	Rounds   int            `json:"rounds"`
	Faults   map[string]int `json:"faults"` // by kind and the role they befell
	Jobs     int            `json:"jobs"`
	Claims   int            `json:"claims"`
	Effects  int            `json:"effects"`
	Losses   int            `json:"losses"`   // claims whose worker died
	Silent   int            `json:"silent"`   // workers that were taken for dead though their processes were not gone
	Holders  map[string]int `json:"holders"`  // steps by the kind of process that had them last
	Refused  int            `json:"refused"`  // late results that were refused and kept
	GivenUp  int            `json:"given_up"` // jobs that failed since a step lost its worker too often
	Rescue   times          `json:"rescue"`   // from a fault to the next claim or the end of a step that the victim held
	Endured  int            `json:"endured"`  // steps that were under way when an outage of the database alone began, and stayed with their workers
	Away     int64          `json:"away_ms"`  // the longest that a killed database took to answer again
	Fired    int            `json:"fired"`    // times of schedules that made a job
	Passed   int            `json:"passed"`   // entries for times that made none
	Late     int64          `json:"late_ms"`  // the longest from such a time to its job
	Took     time.Duration  `json:"took_ns"`

	mu      sync.Mutex // guards Faults, Away and what follows
	rescues []rescue
}

// A rescue is how long it took after a fault.
type rescue struct {
	took  time.Duration
	after string // the fault
}

// times are quantiles of the time to rescue, in milliseconds.
type times struct {
	Steps int    `json:"steps"`
	P50   int64  `json:"p50_ms"`
	P99   int64  `json:"p99_ms"`
	Max   int64  `json:"max_ms"`
	Worst string `json:"worst"` // the fault that took the longest
}

func newReport() *report { return &report{Faults: map[string]int{}, Holders: map[string]int{}} }

func (r *report) count(f fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Faults[f.String()]++
}

func (r *report) rescued(took time.Duration, after string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rescues = append(r.rescues, rescue{took, after})
}

// away notes that the database was killed and answered again after so long.
func (r *report) away(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Away = max(r.Away, d.Milliseconds())
}

// timetable adds what became of a schedule.
func (r *report) timetable(t *table) {
	r.Fired += t.fired
	r.Passed += t.passed
	r.Late = max(r.Late, t.late.Milliseconds())
}

// add adds what another run came to.
func (r *report) add(o *report) {
	r.Runs++
	r.Rounds += o.Rounds
	r.Jobs += o.Jobs
	r.Claims += o.Claims
	r.Effects += o.Effects
	r.Losses += o.Losses
	r.Silent += o.Silent
	r.Refused += o.Refused
	r.GivenUp += o.GivenUp
	r.Endured += o.Endured
	r.Took += o.Took
	r.Fired += o.Fired
	r.Passed += o.Passed
	r.Late = max(r.Late, o.Late)
	r.Away = max(r.Away, o.Away)
	for k, n := range o.Holders {
		r.Holders[k] += n
	}
	for k, n := range o.Faults {
		r.Faults[k] += n
	}
	r.rescues = append(r.rescues, o.rescues...)
	if len(r.rescues) == 0 {
		return
	}
	slices.SortStableFunc(r.rescues, func(a, b rescue) int { return cmp.Compare(a.took, b.took) })
	last := r.rescues[len(r.rescues)-1]
	r.Rescue = times{Steps: len(r.rescues), P50: r.quantile(0.50), P99: r.quantile(0.99), Max: last.took.Milliseconds(), Worst: last.after}
}

func (r *report) quantile(q float64) int64 {
	return r.rescues[int(q*float64(len(r.rescues)-1))].took.Milliseconds()
}

func (r *report) print(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	fmt.Fprintf(w, "%s: seeds %d to %d, %d rounds in %s\n", r.Database, r.Seed, r.Seed+uint64(max(r.Runs, 1)-1), r.Rounds, r.Took.Round(time.Second))
	fmt.Fprintf(w, "faults: %s\n", counts(r.Faults))
	fmt.Fprintf(w, "%d jobs, %d claims, %d effects, %d claims whose worker died (%d workers by silence), %d late results refused, %d jobs given up\n", r.Jobs, r.Claims, r.Effects, r.Losses, r.Silent, r.Refused, r.GivenUp)
	fmt.Fprintf(w, "steps by the process that had them last: %s\n", counts(r.Holders))
	fmt.Fprintf(w, "schedules made %d jobs, %d ms late at most, and passed over times %d times\n", r.Fired, r.Late, r.Passed)
	if r.Endured > 0 {
		_, err := fmt.Fprintf(w, "%d steps were under way when an outage began, and none was taken from its worker; a killed database was away for %d ms at most\n", r.Endured, r.Away)
		return err
	}
	_, err := fmt.Fprintf(w, "time to rescue: p50 %d ms, p99 %d ms, max %d ms (%s), of %d steps; a killed database was away for %d ms at most\n", r.Rescue.P50, r.Rescue.P99, r.Rescue.Max, r.Rescue.Worst, r.Rescue.Steps, r.Away)
	return err
}

func counts(m map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}

// describe returns the faults of a round in a line.
func describe(p round) string {
	var parts []string
	for _, f := range p.Faults {
		parts = append(parts, f.String())
	}
	return strings.Join(parts, ", ")
}
